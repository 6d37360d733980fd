# SPDX-License-Identifier: Apache-2.0
"""What this package raises. Every class is a `vicinal.Error`. Faults found before anything is sent are `InputError` (a ValueError) and what
derives from it; what a call ends with is a `CallError` with the class of its canonical code. The reasons are listed in docs/errors.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

import grpc

from vicinal._messages import message
from vicinal._printable import printable

_STATUS = message("details.Status")
_DETAILS = {"google.rpc." + name: message("details." + name) for name in ("ErrorInfo", "RetryInfo", "BadRequest", "ResourceInfo")}


class Error(Exception):
    """Base of all errors of this package."""


class InputError(Error, ValueError):
    """Arguments that cannot be sent; nothing was sent."""


class IdsError(InputError):
    """A node id that is unknown, or ids that do not belong to the graph."""


@dataclass(frozen=True)
class FieldViolation:
    """A field of the request that is wrong: its path, and why."""

    field: str
    description: str


@dataclass(frozen=True)
class Details:
    """What the server says beside code and message."""

    reason: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    field_violations: tuple[FieldViolation, ...] = ()
    retry_after: Optional[float] = None
    resource_type: str = ""
    resource_name: str = ""


class CallError(Error):
    """A call failed. `code` is gRPC's status code; `reason` is the server's, stable, for programs to switch on, and empty if the error is
    gRPC's own. `retry_after`: seconds, if waiting helps. `upload_id`: set if the upload can be resumed later with this id. The attributes are
    as the server sent them; `str()` escapes what would steer a terminal."""

    def __init__(self, code: grpc.StatusCode, text: str, details: Optional[Details] = None) -> None:
        super().__init__(text)
        self.code = code
        self.message = text
        self.details = details or Details()
        self.upload_id: Optional[str] = None

    @property
    def reason(self) -> str:
        return self.details.reason

    @property
    def metadata(self) -> dict[str, str]:
        return self.details.metadata

    @property
    def field_violations(self) -> tuple[FieldViolation, ...]:
        return self.details.field_violations

    @property
    def retry_after(self) -> Optional[float]:
        return self.details.retry_after

    def __str__(self) -> str:
        lines = [f"{self.code.name}: {printable(self.message)}"]
        if self.reason and self.reason != self.code.name:
            lines.append(f"  reason: {printable(self.reason)}")
        for violation in self.field_violations:
            told = violation.description in self.message
            lines.append(f"  field: {printable(violation.field)}" + ("" if told else f": {printable(violation.description)}"))
        if self.upload_id:
            lines.append(f"  the server keeps the bytes that arrived: resume with upload_id={self.upload_id!r}")
        return "\n".join(lines)


class InvalidArgument(CallError, ValueError):
    """The request is wrong or over a limit; the same call fails again."""


class NotFound(CallError, LookupError):
    """No such graph, feature set, model, version or upload."""


class AlreadyExists(CallError):
    """The name is taken; `replace=True` replaces."""


class Aborted(CallError):
    """`if_version` is not the current version, or another upload took over."""


class FailedPrecondition(CallError):
    """Not ready, of the wrong kind, or too large for this server."""


class ResourceExhausted(CallError):
    """Does not fit now."""


class Unavailable(CallError, ConnectionError):
    """The server cannot be reached, is overloaded or is draining; the retries of the service config did not help."""


class DeadlineExceeded(CallError, TimeoutError):
    """No answer within the timeout."""


class Cancelled(CallError):
    """The call was cancelled."""


class Unauthenticated(CallError, PermissionError):
    """No token, or an unknown one."""


class PermissionDenied(CallError, PermissionError):
    """The token's role does not allow the call."""


class Unimplemented(CallError):
    """The server does not know the call: another program, or another version."""


class DataLoss(CallError):
    """What the server stored is damaged."""


class Internal(CallError):
    """A bug in the server."""


_CLASSES = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument, grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists, grpc.StatusCode.ABORTED: Aborted,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition, grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.UNAVAILABLE: Unavailable, grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.CANCELLED: Cancelled, grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied, grpc.StatusCode.UNIMPLEMENTED: Unimplemented,
    grpc.StatusCode.DATA_LOSS: DataLoss, grpc.StatusCode.INTERNAL: Internal,
}


def parse_details(data: bytes) -> Details:
    """Reads the trailer grpc-status-details-bin; details of unknown types are passed over."""
    found: dict[str, Any] = {}
    try:
        for packed in _STATUS.FromString(data).details:
            kind = packed.type_url.rpartition("/")[2]
            if kind in _DETAILS:
                found[kind.rpartition(".")[2]] = _DETAILS[kind].FromString(packed.value)
    except Exception:  # protobuf's DecodeError: bytes of some other program; code and message still stand
        return Details()
    info, retry, resource = found.get("ErrorInfo"), found.get("RetryInfo"), found.get("ResourceInfo")
    fields = found["BadRequest"].field_violations if "BadRequest" in found else ()
    return Details(
        reason=info.reason if info else "", metadata=dict(info.metadata) if info else {},
        field_violations=tuple(FieldViolation(one.field, one.description) for one in fields),
        retry_after=retry.retry_delay.seconds + retry.retry_delay.nanos * 1e-9 if retry else None,
        resource_type=resource.resource_type if resource else "", resource_name=resource.resource_name if resource else "")


def make_error(code: grpc.StatusCode, text: str, details: Optional[Details] = None) -> CallError:
    return _CLASSES.get(code, CallError)(code, text, details)


# What gRPC's words for a failed connection mean; as in client/cpp/errors.cc.
_NOT_REACHED = (
    ("Connection refused", "; nothing listens there: is vicinal-server running, and on this address?"),
    ("parsing HTTP/2", "; the program that listens there does not speak gRPC (the server's default port is 8500; 8502 is that of its "
                       "metrics)"),
)


def _in_context(code: grpc.StatusCode, text: str, target: str) -> str:
    """gRPC's own words, which do not say where, nor what to look at."""
    if code == grpc.StatusCode.UNAVAILABLE:
        hint = next((hint for part, hint in _NOT_REACHED if part in text), "")
        return f"cannot reach the server at {target}: {text}{hint}"
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"the server at {target} did not answer in time: {text}"
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return f"the program that listens at {target} does not know this call; is it a vicinal-server of this version? ({text})"
    return text


def from_status(status: Any) -> CallError:
    """The typed error that a message carries: vicinal.v1.details.Status."""
    codes = {code.value[0]: code for code in grpc.StatusCode}
    return make_error(codes.get(status.code, grpc.StatusCode.UNKNOWN), status.message, parse_details(status.SerializeToString()))


def from_grpc(error: grpc.RpcError, target: str) -> CallError:
    """The typed error of a failed call."""
    trailer: Any = error.trailing_metadata() or ()
    data = [value for key, value in trailer if key == "grpc-status-details-bin"]
    text = error.details() or ""
    if not data:
        return make_error(error.code(), _in_context(error.code(), text, target))
    return make_error(error.code(), text, parse_details(data[0]))


def is_broken_off(error: Exception) -> bool:
    """The stream was interrupted: not by a refusal of the server, but by the connection or by gRPC's own limits."""
    return isinstance(error, Unavailable) or (isinstance(error, ResourceExhausted) and not error.reason)
