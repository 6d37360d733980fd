# SPDX-License-Identifier: Apache-2.0
"""What `Client` and `AsyncClient` share: their arguments, the channel, and how a call is started."""

from __future__ import annotations

from typing import Any, ClassVar, Optional, Union

from vicinal import _operations as operations
from vicinal._channel import SERVICE_CONFIG, Options, Tls, default_target
from vicinal._effects import Call, Exchange, Open, Send


class Connection:
    """A connection to a server; opens with the first call.

    `target`: HOST:PORT, dns:///HOST:PORT or unix:PATH; by default, as for the command line, the environment variable VICINAL_SERVER, or
    127.0.0.1:8500. `token`: sent as a bearer token. `tls`: True, or a `Tls`. `timeout`: seconds, of calls other than uploads; None waits for ever.
    `upload_attempts`: how often an upload is resumed after its stream broke. `service_config`: gRPC's, as JSON; it holds the retries.
    `max_reply_bytes`, `max_answer_bytes`: what one reply, and an answer for all nodes in many replies, may take; more is an error.
    """

    _grpc: ClassVar[Any]  # grpc, or grpc.aio

    def __init__(self, target: Optional[str] = None, *, token: Optional[str] = None, tls: Union[None, bool, Tls] = None,
                 timeout: Optional[float] = 60, chunk_bytes: int = 1 << 20, upload_attempts: int = 5,
                 service_config: Optional[str] = SERVICE_CONFIG, max_reply_bytes: int = 64 << 20,
                 max_answer_bytes: int = 4 << 30) -> None:
        target = target or default_target()
        options = Options(target, token, tls, timeout, chunk_bytes, upload_attempts, service_config, max_reply_bytes, max_answer_bytes)
        options.check()
        credentials = options.credentials()
        self._channel = (self._grpc.insecure_channel(target, options.arguments()) if credentials is None
                         else self._grpc.secure_channel(target, credentials, options.arguments()))
        self._session = operations.Session(options)
        self._calls: dict[Any, Any] = {}

    def _callable(self, kind: str, method: Any, serializer: Any) -> Any:
        if method not in self._calls:
            self._calls[method] = getattr(self._channel, kind)(method.path, serializer, method.reply.FromString)
        return self._calls[method]

    def _start(self, effect: Union[Call, Exchange, Open, Send]) -> Any:
        """Starts a call. With `grpc`: the reply, or the stream of an Open. With `grpc.aio`: the call; await it for the reply."""
        options = self._session.options
        metadata = options.metadata(effect.graph)
        if isinstance(effect, Send):
            return self._callable("stream_unary", effect.method, None)(effect.requests, metadata=metadata)
        serializer = effect.method.request.SerializeToString
        if isinstance(effect, Exchange):
            return self._callable("stream_stream", effect.method, serializer)(effect.requests, timeout=effect.timeout, metadata=metadata)
        if isinstance(effect, Open):
            call = self._callable("unary_stream", effect.method, serializer)
            return call(effect.request, timeout=options.timeout if effect.timed else None, metadata=metadata)
        call = self._callable("unary_unary", effect.method, serializer)
        return call(effect.request, timeout=effect.timeout or options.timeout, metadata=metadata)
