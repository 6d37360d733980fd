# SPDX-License-Identifier: Apache-2.0
"""The chunked upload of graphs, feature sets and models: sends the tensors and, when the stream breaks, asks the server what it has and goes
on from there. Memory: one chunk; tensors are sent as they lie in memory."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Optional

import grpc

from vicinal._crc32c import crc32c
from vicinal._effects import Call, Operation, Send, backoff
from vicinal._messages import METHODS, Method, enum_values, message
from vicinal._tensors import Array
from vicinal.errors import (Aborted, CallError, Cancelled, DeadlineExceeded, InputError, NotFound, ResourceExhausted, is_broken_off,
                            make_error)

_CHUNK = message("UploadChunk")
_WAIT_FOR = {name[len("WAIT_FOR_"):].lower(): number for name, number in enum_values("WaitFor").items()}
WAIT_FOR = ("accepted", "ready", "durable")
_FINISHED = message("Upload").DESCRIPTOR.enum_types_by_name["State"].values_by_name["STATE_FINISHED"].number


@dataclass(frozen=True)
class Progress:
    """How far an upload is. `stage`: "upload", then for graphs "prepare", and "write" while the server writes to its disk; `done` of `total` are
    bytes, in the other stages the share of 1."""

    stage: str
    done: float
    total: float


Report = Callable[[Progress], None]


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_chunk(tensor: str, offset: int, piece: bytes) -> bytes:
    """An upload request that holds a chunk. Protobuf's own encoder would copy the piece three times: it writes all but `data` here, and
    fields of a message may come in any order."""
    head = _CHUNK(tensor=tensor, offset_bytes=offset, crc32c=crc32c(piece)).SerializeToString() + b"\x1a" + _varint(len(piece))
    return b"".join((b"\x1a", _varint(len(head) + len(piece)), head, piece))  # field 3 of the request, field 3 of the chunk


@dataclass
class Upload:
    """One upload. `upload_id` None: a new one. `wait_for`: one of WAIT_FOR; None: chosen when the server is asked for its capabilities."""

    method: Method
    spec: Any
    tensors: list[tuple[str, Array]]
    graph: Optional[str]
    upload_id: Optional[str]
    report: Report
    chunk_bytes: int
    attempts: int
    wait_for: Optional[str] = None

    def run(self) -> Operation[Any]:
        begun = self.upload_id is not None
        self.spec.upload_id = self.upload_id or str(uuid.uuid4())
        for name, array in self.tensors:
            self.spec.tensors.add(name=name, dtype=array.dtype, shape=array.shape)
        yield from self._ask_capabilities()
        broken_off = False
        for attempt in range(self.attempts):
            if attempt:
                yield backoff(attempt)
            try:
                return (yield from self._attempt(begun or attempt > 0, attempt > 0))
            except CallError as error:
                last = error
            may_go_on = is_broken_off(last) or (isinstance(last, Aborted) and "offset" in last.metadata)
            broken_off = broken_off or may_go_on
            if not may_go_on:
                break
        if broken_off or isinstance(last, (ResourceExhausted, DeadlineExceeded, Cancelled)):
            if broken_off or (yield from self._has_some()):
                last.upload_id = self.spec.upload_id
        raise last

    def wait_until_durable(self) -> Operation[Any]:
        """After `run`, and for a graph once it serves: gives the reply of a server that has written everything to its disk. The server
        answers `finish` again however often it is sent, so a broken stream only repeats the wait."""
        finish = self.method.request(finish={"wait_for": _WAIT_FOR["durable"]})
        self.report(Progress("write", 0, 1))
        for attempt in range(self.attempts):
            if attempt:
                yield backoff(attempt)
            requests = [self.method.request(resume_upload_id=self.spec.upload_id), finish]
            try:
                reply = yield Send(self.method, iter([request.SerializeToString() for request in requests]), self.graph)
            except CallError as error:
                last = error
                if not is_broken_off(error):
                    break
            else:
                self.report(Progress("write", 1, 1))
                return reply
        if is_broken_off(last) or isinstance(last, (DeadlineExceeded, Cancelled)):
            last.upload_id = self.spec.upload_id
        raise last

    def _ask_capabilities(self) -> Operation[None]:
        """The server's limit on chunks, and whether it has a disk. Also: a server that cannot be reached is reported before an upload waits
        for it."""
        if self.wait_for not in (None, *WAIT_FOR):
            raise InputError(f"wait_for is {self.wait_for!r}, but must be one of {list(WAIT_FOR)}")
        capabilities = yield Call(METHODS["GetCapabilities"], METHODS["GetCapabilities"].request())
        if self.wait_for == "durable" and not capabilities.durable_state:
            raise make_error(grpc.StatusCode.FAILED_PRECONDITION, "wait_for is 'durable', but the server keeps everything in memory; it needs "
                                                                  "--state_dir, or wait for 'ready'")
        if self.wait_for is None:
            self.wait_for = "durable" if capabilities.durable_state else "ready"
        for limit in capabilities.limits:
            if limit.name == "max_chunk_bytes" and limit.value > 0:
                self.chunk_bytes = min(self.chunk_bytes, limit.value)

    def _attempt(self, begun: bool, ours: bool) -> Operation[Any]:
        """`ours`: if the server has an upload of this id, it is the one that this object started."""
        first = self.method.request(spec=self.spec)
        offsets = [0] * len(self.tensors)
        if begun:
            try:
                offsets = self._offsets((yield self._ask()))
                if ours and any(offsets):
                    first = self.method.request(resume_upload_id=self.spec.upload_id)
            except NotFound:
                pass
        return (yield Send(self.method, self._messages(first, offsets), self.graph))

    def _ask(self) -> Call:
        return Call(METHODS["GetUpload"], METHODS["GetUpload"].request(upload_id=self.spec.upload_id), self.graph)

    def _has_some(self) -> Operation[bool]:
        try:
            return any(self._offsets((yield self._ask())))
        except (CallError, InputError):
            return False

    def _offsets(self, upload: Any) -> list[int]:
        if upload.state == _FINISHED:
            return [array.values.nbytes for _, array in self.tensors]
        arrived = {one.name: one for one in upload.tensors}
        for name, array in self.tensors:
            if name not in arrived or arrived[name].size_bytes != array.values.nbytes:
                raise InputError(f"upload {upload.upload_id!r} was started with other tensors: {name!r} differs")
        return [arrived[name].received_bytes for name, _ in self.tensors]

    def _messages(self, first: Any, offsets: list[int]) -> Iterator[bytes]:
        yield first.SerializeToString()
        total = sum(array.values.nbytes for _, array in self.tensors)
        done = sum(offsets)
        for (name, array), start in zip(self.tensors, offsets):
            view = array.bytes_view()
            for offset in range(start, len(view), self.chunk_bytes):
                piece = bytes(view[offset:offset + self.chunk_bytes])
                yield encode_chunk(name, offset, piece)
                done += len(piece)
                self.report(Progress("upload", done, total))
        yield self.method.request(finish={}).SerializeToString()
