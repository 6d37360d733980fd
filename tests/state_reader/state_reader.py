#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a state directory, as docs/state.md specifies it. Needs numpy only. Verifies every checksum.

  state_reader.py DIR                 lists versions, files and sections
  state_reader.py DIR --check         also reads and verifies all contents

As a module: versions(directory) yields Version; Version.read(file, section) is an array.
"""

import argparse
import json
import mmap
import pathlib
import struct
import sys

import numpy

TYPES = {1: "u1", 2: "<i4", 3: "<i8", 4: "<f4", 5: "<f2", 6: "<u2"}  # bfloat16 as its bits
CHUNK = 1 << 20
ALIGNMENT = 2 << 20


class Damaged(Exception):
    """A file is not as it was written."""


def _crc_tables():
    tables = numpy.zeros((8, 256), dtype=numpy.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        tables[0, byte] = crc
    for k in range(1, 8):
        tables[k] = (tables[k - 1] >> 8) ^ tables[0][tables[k - 1] & 0xFF]
    return tables


_TABLES = _crc_tables()
_FIRST = [int(x) for x in _TABLES[0]]


def _advance(crc, count):
    """The register after `count` zero bytes: linear, so by repeated squaring of a 32 x 32 bit matrix."""
    matrix = [_FIRST[(1 << bit) & 0xFF] ^ ((1 << bit) >> 8) for bit in range(32)]

    def apply(columns, value):
        result, bit = 0, 0
        while value:
            if value & 1:
                result ^= columns[bit]
            value >>= 1
            bit += 1
        return result

    while count:
        if count & 1:
            crc = apply(matrix, crc)
        matrix = [apply(matrix, column) for column in matrix]
        count >>= 1
    return crc


def crc32c(data):
    """CRC-32C of bytes. Long inputs as 1,024 strands side by side, which numpy advances together."""
    view = numpy.frombuffer(data, dtype=numpy.uint8)
    crc, strands = 0xFFFFFFFF, 1024
    length = view.size // strands
    if length >= 64:
        rows = view[: strands * length].reshape(strands, length)
        state = numpy.zeros(strands, dtype=numpy.uint32)
        state[0] = crc
        table = _TABLES[0]
        for column in numpy.ascontiguousarray(rows.T):
            state = (state >> 8) ^ table[(state ^ column) & 0xFF]
        crc = 0
        matrix_step = {}
        for value in state:
            for bit in range(32):
                if crc >> bit & 1 and bit not in matrix_step:
                    matrix_step[bit] = _advance(1 << bit, length)
            moved = 0
            for bit in range(32):
                if crc >> bit & 1:
                    moved ^= matrix_step[bit]
            crc = moved ^ int(value)
        view = view[strands * length:]
    for byte in view.tolist():
        crc = (crc >> 8) ^ _FIRST[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def read_document(path):
    """A JSON object whose first member is the checksum of what follows it."""
    raw = path.read_bytes()
    if raw[:11] != b'{"crc32c":"' or raw[19:21] != b'",' or raw[11:19].decode() != f"{crc32c(raw[21:]):08x}":
        raise Damaged(f"{path}: checksum")
    return json.loads(raw)


def decode_name(components):
    """Path components, all but the last without their '+', as the name they encode."""
    raw, text = bytearray(), "".join(components)
    at = 0
    while at < len(text):
        if text[at] == "%":
            raw.append(int(text[at + 1:at + 3], 16))
            at += 3
        else:
            raw.append(ord(text[at]))
            at += 1
    return raw.decode()


class DataFile:
    """Sections of a .vsec file, by name."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        data = self._map
        (magic, major, _, size, header, entry, count, table_crc, table_at, table_count, _) = struct.unpack_from(
            "<8sIIQIIIIQQQ", data, 0)
        if magic != b"VICSECT\n" or major != 1:
            raise Damaged(f"{path}: not a section file of format 1")
        if size != len(data) or entry < 128 or count > 1024 or header != 64 + entry * count + 4 or header > size:
            raise Damaged(f"{path}: sizes in the header")
        if struct.unpack_from("<I", data, header - 4)[0] != crc32c(data[:header - 4]):
            raise Damaged(f"{path}: checksum of the header")
        self.summary = (size, crc32c(data[:header - 4]))
        if table_at + 4 * table_count > size or crc32c(data[table_at:table_at + 4 * table_count]) != table_crc:
            raise Damaged(f"{path}: checksum table")
        self._checksums = numpy.frombuffer(data, "<u4", table_count, table_at)
        self.sections = {}
        end = header
        for i in range(count):
            name, kind, rank, *rest = struct.unpack_from("<64sII4QQQQ", data, 64 + entry * i)
            shape, (offset, size_of, first) = tuple(rest[:4][:rank]), rest[4:]
            if kind not in TYPES or offset < end or offset % ALIGNMENT or offset + size_of > table_at:
                raise Damaged(f"{path}: entry {i}")
            self.sections[name.rstrip(b"\0").decode()] = (TYPES[kind], shape, offset, size_of, first)
            end = offset + size_of

    def read(self, name):
        """The array, verified."""
        kind, shape, offset, size, first = self.sections[name]
        for index, at in enumerate(range(0, size, CHUNK)):
            if crc32c(self._map[offset + at:offset + min(at + CHUNK, size)]) != self._checksums[first + index]:
                raise Damaged(f"{self.path}: section {name}, byte {at}")
        return numpy.frombuffer(self._map, kind, size // numpy.dtype(kind).itemsize, offset).reshape(shape)


class Version:
    """One published version."""

    def __init__(self, path):
        self.path = path
        self.manifest = read_document(path / "manifest.json")
        if self.manifest["major"] != 1 or self.manifest["version"] != int(path.name):
            raise Damaged(f"{path}: manifest")

    def file(self, name):
        data = DataFile(self.path / name)
        listed = next(f for f in self.manifest["files"] if f["name"] == name)
        if data.summary != (listed["bytes"], listed.get("identity", data.summary[1])):
            raise Damaged(f"{data.path}: another file than the manifest's")
        return data

    def read(self, file, section):
        return self.file(file).read(section)

    def tuning(self):
        """The tuning decisions: a list of records by device."""
        documents = [read_document(path) for path in sorted(self.path.glob("documents/tuning-*.json"))]
        for document in documents:
            place = (self.manifest["name"], self.manifest["version"])
            if document["major"] != 1 or (document["graph"], document["version"]) != place:
                raise Damaged(f"{self.path}: tuning of another version")
        return {document["device"]: document["records"] for document in documents}

    def layouts(self):
        """The stored layouts: by device a list of what is said of each; layout_file opens one's arrays."""
        documents = [read_document(path) for path in sorted(self.path.glob("documents/layouts-*.json"))]
        for document in documents:
            place = (self.manifest["name"], self.manifest["version"])
            if document["major"] != 1 or (document["graph"], document["version"]) != place:
                raise Damaged(f"{self.path}: layouts of another version")
        return {document["device"]: document["layouts"] for document in documents}

    def layout_file(self, layout):
        data = DataFile(self.path / "layouts" / layout["file"])
        if data.summary != (layout["bytes"], layout["checksum"]):
            raise Damaged(f"{data.path}: another file than the list's")
        return data


def _named(directory, components=()):
    """(name, path) of all names below a store's directory."""
    if not directory.is_dir():
        return
    for entry in sorted(directory.iterdir()):
        if entry.is_dir() and entry.name.endswith("+"):
            yield from _named(entry, (*components, entry.name[:-1]))
        elif entry.is_dir():
            yield decode_name((*components, entry.name)), entry


def _store(directory):
    for name, path in _named(directory):
        for version in sorted((p for p in path.iterdir() if p.name.isdigit()), key=lambda p: int(p.name)):
            if not (version / "manifest.json").exists():
                continue
            found = Version(version)
            if found.manifest["name"] != name:
                raise Damaged(f"{version}: manifest of {found.manifest['name']}")
            yield found
            yield from _store(version / "features")
            yield from _store(version / "edge_features")


def versions(directory):
    """All published versions; a graph version comes before its feature sets."""
    root = pathlib.Path(directory)
    if read_document(root / "FORMAT")["major"] != 1:
        raise Damaged("a newer format")
    yield from _store(root / "graphs")
    yield from _store(root / "models")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--check", action="store_true", help="read and verify all contents")
    arguments = parser.parse_args()
    for version in versions(arguments.directory):
        manifest = version.manifest
        print(manifest["store"], manifest["name"], manifest["version"], json.dumps(manifest["metadata"]))
        for listed in manifest["files"]:
            data = version.file(listed["name"])
            for name, (kind, shape, *_) in data.sections.items():
                print("   ", listed["name"], name, kind, shape)
                if arguments.check:
                    data.read(name)
        for device, layouts in version.layouts().items():
            print("    layouts on", device)
            for layout in layouts:
                data = version.layout_file(layout)
                print("       ", layout["kernel"], f"({layout['layout']})", *(f"{name}: {shape[0]} bytes" for name, (_, shape, *_) in data.sections.items()))
                if arguments.check:
                    for name in data.sections:
                        data.read(name)
        for device, records in version.tuning().items():
            print("    tuning on", device)
            for record in records:
                choice = record["candidates"][record["chosen"]]["kernel"] if record["candidates"] else "-"
                print("       ", record["operation"], record["kind"], record["width"], record["state"], choice)
    return 0


if __name__ == "__main__":
    sys.exit(main())
