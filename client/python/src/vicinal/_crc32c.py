# SPDX-License-Identifier: Apache-2.0
"""CRC-32C (Castagnoli), the checksum of upload chunks. google-crc32c computes it with the processor's instruction (GB/s). Without that
package NumPy does: the bytes are cut into lanes whose checksums are computed side by side and then combined, which is correct and slow."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

_POLYNOMIAL = 0x82F63B78
_LANES = 1024


def _byte_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


def _word_table() -> np.ndarray:
    """What two bytes do to a state of which they are the low half."""
    one = _TABLE[np.arange(65536) & 0xFF] ^ (np.arange(65536, dtype=np.uint32) >> 8)
    return _TABLE[one & 0xFF] ^ (one >> 8)


_TABLE = _byte_table()
_WORDS = _word_table()


def _apply(matrix: np.ndarray, states: np.ndarray) -> np.ndarray:
    """The 32x32 bit matrix (one column per bit) times each state."""
    result = np.zeros_like(states)
    for bit in range(32):
        result ^= np.where((states >> np.uint32(bit)) & 1, matrix[bit], np.uint32(0))
    return result


@lru_cache(maxsize=64)
def _zeros(count: int) -> np.ndarray:
    """The matrix that appends `count` zero bytes to a state."""
    step = (np.uint32(1) << np.arange(32, dtype=np.uint32)).astype(np.uint32)
    total = step.copy()
    step = _TABLE[step & 0xFF] ^ (step >> 8)
    while count:
        if count & 1:
            total = _apply(step, total)
        step = _apply(step, step)
        count >>= 1
    return total


def _update(state: int, data: np.ndarray) -> int:
    """Byte after byte."""
    table = _TABLE.tolist()
    for byte in data.tolist():
        state = (state >> 8) ^ table[(state ^ byte) & 0xFF]
    return state


def numpy_crc32c(data: bytes) -> int:
    """CRC-32C of `data`."""
    array = np.frombuffer(data, dtype=np.uint8)
    per_lane = len(array) // _LANES & ~1
    if per_lane < 64:
        return _update(0xFFFFFFFF, array) ^ 0xFFFFFFFF
    whole = per_lane * _LANES
    words = np.ascontiguousarray(array[:whole].reshape(_LANES, per_lane).view("<u2").T)
    states = np.zeros(_LANES, dtype=np.uint32)
    states[0] = 0xFFFFFFFF
    for row in words:
        states = _WORDS[(states ^ row) & 0xFFFF] ^ (states >> 16)
    while len(states) > 1:  # of two neighbours the left one is followed by as many bytes as the right one has
        states = _apply(_zeros(per_lane), states[0::2]) ^ states[1::2]
        per_lane *= 2
    return _update(int(states[0]), array[whole:]) ^ 0xFFFFFFFF


try:
    from google_crc32c import value as crc32c
except ImportError:
    crc32c = numpy_crc32c
