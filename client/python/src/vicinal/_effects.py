# SPDX-License-Identifier: Apache-2.0
"""What an operation asks of its client. Operations are generators that yield these and are sent the results, so that `Client` and
`AsyncClient` share them; each has one function that carries the effects out. A failed call is thrown into the generator as a CallError."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generator, Iterator, Optional, TypeVar

from vicinal._messages import Method

T = TypeVar("T")
Operation = Generator[Any, Any, T]


@dataclass(frozen=True)
class Call:
    """One request, one reply. `timeout` None: the client's."""

    method: Method
    request: Any
    graph: Optional[str] = None
    timeout: Optional[float] = None


@dataclass(frozen=True)
class Send:
    """A stream of encoded requests, one reply. No timeout."""

    method: Method
    requests: Iterator[bytes]
    graph: Optional[str] = None


@dataclass(frozen=True)
class Open:
    """One request, a stream of replies: gives the stream. `timed`: the client's timeout applies to the whole stream."""

    method: Method
    request: Any
    graph: Optional[str] = None
    timed: bool = True


@dataclass(frozen=True)
class Exchange:
    """A stream of requests, an iterator or an asynchronous one, and a stream of replies. `timeout` None: none."""

    method: Method
    requests: Any
    timeout: Optional[float] = None
    graph: Optional[str] = None


@dataclass(frozen=True)
class Next:
    """The next reply of a stream, or None at its end."""

    stream: Any


@dataclass(frozen=True)
class Sleep:
    seconds: float


def backoff(attempt: int) -> Sleep:
    """The pause before attempt `attempt`, where 0 is the first and has none."""
    return Sleep(min(0.2 * 2 ** (attempt - 1), 3.0))
