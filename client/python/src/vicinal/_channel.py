# SPDX-License-Identifier: Apache-2.0
"""Options of a connection: address, TLS, token, timeouts, retries. Nothing is sent here."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import Any, Optional, Union

import grpc

from vicinal._arguments import milliseconds
from vicinal.errors import InputError

_READS = {"vicinal.v1.InferenceService": [None], "vicinal.v1.ServerService": [None],
          "vicinal.v1.GraphService": ["GetUpload", "GetGraph", "GetTuning", "GetGraphPicture", "ListGraphs", "ListFeatures"],
          "vicinal.v1.ModelService": ["GetModel", "ListModels"]}
# What changes nothing is retried when the server is overloaded or draining; the server's grpc-retry-pushback-ms says when.
SERVICE_CONFIG = json.dumps({"methodConfig": [{
    "name": [{"service": service, "method": method} if method else {"service": service}
             for service, methods in _READS.items() for method in methods],
    "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "2s", "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"]}}]})
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_ADDRESS = re.compile(r"(dns:(//[^/]*/)?)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%a-z]+\]):\d{1,5}|unix(-abstract)?:.+|ipv[46]:.+|xds:.+")


def default_target() -> str:
    return os.environ.get("VICINAL_SERVER") or "127.0.0.1:8500"


@dataclass(frozen=True)
class Tls:
    """TLS to the server. All values are PEM. `root_certificates`: who may sign the server's certificate, None: the roots that gRPC brings.
    `certificate` and `private_key`: the client's own, where the server asks for one. `server_name`: the name in the server's certificate,
    where it is not the address's."""

    root_certificates: Optional[bytes] = None
    certificate: Optional[bytes] = None
    private_key: Optional[bytes] = None
    server_name: Optional[str] = None

    @staticmethod
    def from_files(root_certificates: Optional[str] = None, certificate: Optional[str] = None, private_key: Optional[str] = None,
                   server_name: Optional[str] = None) -> "Tls":
        def read(path: Optional[str]) -> Optional[bytes]:
            if path is None:
                return None
            with open(path, "rb") as file:
                return file.read()

        return Tls(read(root_certificates), read(certificate), read(private_key), server_name)

    def credentials(self) -> grpc.ChannelCredentials:
        if (self.certificate is None) != (self.private_key is None):
            raise InputError("a client certificate needs its private key, and the other way round")
        return grpc.ssl_channel_credentials(self.root_certificates, self.private_key, self.certificate)


@dataclass(frozen=True)
class Options:
    target: str
    token: Optional[str]
    tls: Union[None, bool, Tls]
    timeout: Optional[float]
    chunk_bytes: int
    upload_attempts: int
    service_config: Optional[str]
    max_reply_bytes: int
    max_answer_bytes: int

    def check(self) -> None:
        if not _ADDRESS.fullmatch(self.target):
            raise InputError(f"the server's address {self.target!r} is not HOST:PORT (such as localhost:8500 or [::1]:8500), "
                             "dns:///HOST:PORT or unix:PATH")
        if self.token is not None and not re.fullmatch("[!-~]{1,4096}", self.token):
            raise InputError("the token contains a character that cannot be sent (a space or a line break?), or is too long")
        milliseconds(self.timeout)
        if min(self.chunk_bytes, self.upload_attempts, self.max_reply_bytes, self.max_answer_bytes) < 1:
            raise InputError("chunk_bytes, upload_attempts, max_reply_bytes and max_answer_bytes must be positive")

    def credentials(self) -> Optional[grpc.ChannelCredentials]:
        if not self.tls:
            return None
        return (Tls() if self.tls is True else self.tls).credentials()

    def arguments(self) -> list[tuple[str, Any]]:
        """Channel arguments: the bound of one message, pings during long waits, and no HTTP proxy from the environment, which would catch
        calls to the loopback address too."""
        arguments: list[tuple[str, Any]] = [
            ("grpc.max_receive_message_length", min(self.max_reply_bytes, 2**31 - 1)), ("grpc.max_send_message_length", -1), ("grpc.enable_http_proxy", 0),
            ("grpc.keepalive_time_ms", 20_000), ("grpc.keepalive_timeout_ms", 20_000), ("grpc.http2.max_pings_without_data", 0)]
        if self.service_config:
            arguments.append(("grpc.service_config", self.service_config))
        if isinstance(self.tls, Tls) and self.tls.server_name:
            arguments.append(("grpc.ssl_target_name_override", self.tls.server_name))
        return arguments

    def metadata(self, graph: Optional[str]) -> tuple[tuple[str, str], ...]:
        """The graph's name, so that a proxy can route on it, and the token. A name outside the grammar is for the server to refuse."""
        found = [("vicinal-graph", graph)] if graph and _NAME.fullmatch(graph) else []
        return tuple(found + ([("authorization", f"Bearer {self.token}")] if self.token else []))
