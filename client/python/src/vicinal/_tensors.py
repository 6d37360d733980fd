# SPDX-License-Identifier: Apache-2.0
"""Arrays to tensors of the API and back. Contiguous little-endian arrays of a type that the API has are sent as they lie in memory;
results are views of the bytes that arrived."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Optional

import grpc
import numpy as np

from vicinal._messages import enum_values, message
from vicinal.errors import InputError, make_error

TENSOR, CSR_MATRIX = message("Tensor"), message("CsrMatrix")
_TYPES = enum_values("DataType")
FLOAT32, FLOAT16, BFLOAT16 = (_TYPES["DATA_TYPE_" + name] for name in ("FLOAT32", "FLOAT16", "BFLOAT16"))
INT32, INT64, UINT8 = (_TYPES["DATA_TYPE_" + name] for name in ("INT32", "INT64", "UINT8"))
_NUMPY = {FLOAT32: "<f4", FLOAT16: "<f2", BFLOAT16: "<u2", INT32: "<i4", INT64: "<i8", UINT8: "|u1"}
_OF_NUMPY = {np.dtype(text): code for code, text in _NUMPY.items() if code != BFLOAT16}


@dataclass(frozen=True)
class Array:
    """A contiguous array and its type on the wire, which NumPy cannot tell of bfloat16."""

    values: np.ndarray
    dtype: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def bytes_view(self) -> memoryview:
        # An empty array cannot be cast to bytes.
        return memoryview(self.values.reshape(-1)).cast("B") if self.values.size else memoryview(b"")

    def to_tensor(self) -> Any:
        return TENSOR(dtype=self.dtype, shape=self.shape, data=self.values.tobytes())


def module_of(value: Any) -> str:
    """The top-level package of the value's class: libraries are recognised without importing them."""
    return type(value).__module__.partition(".")[0]


def is_torch(value: Any) -> bool:
    return module_of(value) in ("torch", "torch_geometric") and hasattr(value, "detach")


def to_numpy(value: Any, what: str) -> np.ndarray:
    """Any dense array as NumPy's; shares memory where it can. bfloat16 of torch is widened, exactly."""
    if is_torch(value):
        value = value.detach().cpu()
        if value.layout is not sys.modules["torch"].strided:
            raise InputError(f"{what} is a sparse tensor, but must be dense")
        return value.float().numpy() if str(value.dtype) == "torch.bfloat16" else value.numpy()
    try:
        return np.asarray(value)
    except Exception as error:
        raise InputError(f"{what} is not an array: {error}") from None


def float_array(value: Any, what: str, dimensions: int) -> Array:
    """Features or weights: float16, bfloat16 and float32 as they are; other numbers become float32."""
    if str(getattr(value, "dtype", "")) == "torch.bfloat16":
        torch = sys.modules["torch"]
        array = Array(np.ascontiguousarray(value.detach().cpu().view(torch.int16).numpy()).view("<u2"), BFLOAT16)
    else:
        values = to_numpy(value, what)
        if values.dtype.kind not in "fiub":
            raise InputError(f"{what} has the type {values.dtype}; numbers are needed")
        kind = FLOAT16 if values.dtype == np.float16 else FLOAT32
        with np.errstate(over="ignore"):  # becomes infinite, and is told below
            array = Array(np.ascontiguousarray(values, dtype=_NUMPY[kind]), kind)
    if array.values.ndim != dimensions:
        raise InputError(f"{what} has the shape {list(array.shape)}; {dimensions} dimension{'s are' if dimensions > 1 else ' is'} needed")
    _check_finite(array, what)
    return array


# The bits of the exponent: all are set in what is infinite or no number. Integers, because bfloat16 is no type of NumPy.
_EXPONENTS = {FLOAT32: ("<u4", 0x7F800000), FLOAT16: ("<u2", 0x7C00), BFLOAT16: ("<u2", 0x7F80)}
_CHECKED_AT_ONCE = 1 << 20  # elements; bounds the memory


def _check_finite(array: Array, what: str) -> None:
    """The server refuses such a graph, but only after the upload."""
    unsigned, exponent = _EXPONENTS[array.dtype]
    bits = array.values.reshape(-1).view(unsigned)
    for begin in range(0, bits.size, _CHECKED_AT_ONCE):
        bad = (bits[begin:begin + _CHECKED_AT_ONCE] & exponent) == exponent
        if bad.any():
            place = [int(index) for index in np.unravel_index(begin + int(bad.argmax()), array.values.shape)]
            raise InputError(f"{what}{place} is NaN, infinite or too large for float32; all values must be finite")


def int_array(value: Any, what: str, dimensions: int, wide: bool = False) -> Array:
    """Indices: int32 and int64 as they are (`wide`: int64), other integers become int64."""
    values = to_numpy(value, what)
    if values.size == 0:
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu" or (values.dtype == np.uint64 and values.size and values.max() > np.iinfo(np.int64).max):
        raise InputError(f"{what} has the type {values.dtype}; integers are needed")
    kind = INT32 if values.dtype == np.int32 and not wide else INT64
    array = Array(np.ascontiguousarray(values, dtype=_NUMPY[kind]), kind)
    if array.values.ndim != dimensions:
        raise InputError(f"{what} has the shape {list(array.shape)}; {dimensions} dimension{'s are' if dimensions > 1 else ' is'} needed")
    return array


@dataclass(frozen=True)
class Features:
    """Features [rows, columns]: dense, or CSR in three arrays."""

    rows: int
    columns: int
    dense: Optional[Array] = None
    indptr: Optional[Array] = None
    indices: Optional[Array] = None
    values: Optional[Array] = None

    def upload_tensors(self) -> list[tuple[str, Array]]:
        if self.dense is not None:
            return [("x", self.dense)]
        assert self.indptr and self.indices and self.values
        return [("x_indptr", self.indptr), ("x_indices", self.indices), ("x_values", self.values)]

    def to_input(self, rows: Optional[np.ndarray] = None) -> Any:
        """As the FeatureInput of a request; `rows`: the nodes whose rows these are."""
        value = message("FeatureInput")()
        if self.dense is not None:
            value.dense.CopyFrom(self.dense.to_tensor())
        else:
            assert self.indptr and self.indices and self.values
            value.csr.CopyFrom(CSR_MATRIX(row_count=self.rows, column_count=self.columns, indptr=self.indptr.to_tensor(),
                                          indices=self.indices.to_tensor(), values=self.values.to_tensor()))
        if rows is not None:
            value.rows.extend(rows.tolist())
        return value


def _from_csr(indptr: Any, indices: Any, data: Any, shape: tuple[int, int], what: str) -> Features:
    narrow = to_numpy(indices, what).astype(np.int32, copy=False)
    return Features(shape[0], shape[1], indptr=int_array(indptr, what, 1, wide=True), indices=int_array(narrow, what, 1),
                    values=float_array(data, what, 1))


def features(value: Any, what: str = "x") -> Features:
    """Features from a NumPy or torch array, a SciPy sparse matrix, a sparse torch tensor or a pandas DataFrame."""
    if isinstance(value, Features):
        return value
    if module_of(value) == "scipy":
        matrix = value.tocsr()
        if not (matrix.has_sorted_indices and matrix.has_canonical_format):
            matrix = matrix.copy()
            matrix.sum_duplicates()
        return _from_csr(matrix.indptr, matrix.indices, matrix.data, matrix.shape, what)
    if is_torch(value) and value.layout is not sys.modules["torch"].strided:
        matrix = value.detach().cpu().coalesce().to_sparse_csr() if value.is_sparse else value.detach().cpu().to_sparse_csr()
        return _from_csr(matrix.crow_indices(), matrix.col_indices(), matrix.values(), tuple(matrix.shape), what)
    if module_of(value) == "pandas":
        value = value.to_numpy()
    array = float_array(value, what, 2)
    return Features(array.shape[0], array.shape[1], dense=array)


def from_tensor(tensor: Any) -> np.ndarray:
    """A tensor of a reply, a matrix, as a read-only array over its bytes."""
    try:
        rows, columns = tensor.shape
        return np.frombuffer(tensor.data, dtype=_NUMPY[tensor.dtype]).reshape(max(rows, 0), max(columns, 0))
    except (KeyError, ValueError):
        raise make_error(grpc.StatusCode.INTERNAL, f"the server's answer is wrong: {len(tensor.data)} bytes are no matrix of type {tensor.dtype} and "
                         f"shape {list(tensor.shape[:4])}; is it a vicinal-server?") from None
