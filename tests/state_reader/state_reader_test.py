#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/state.md is enough to read what the C++ code writes: state_reader_test.py WRITE_EXAMPLE"""

import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import state_reader  # noqa: E402

WRITER = sys.argv.pop()


class StateReaderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = pathlib.Path(folder.name) / "state"
        subprocess.run([WRITER, str(self.state)], check=True)

    def test_crc(self):
        self.assertEqual(state_reader.crc32c(b"123456789"), 0xE3069283)
        self.assertEqual(state_reader.crc32c(bytes(32)), 0x8A9136AA)
        data = bytes(range(256)) * 1000 + b"tail"  # in strands and not
        crc = 0xFFFFFFFF
        for byte in data:
            crc = (crc >> 8) ^ state_reader._FIRST[(crc ^ byte) & 0xFF]
        self.assertEqual(state_reader.crc32c(data), crc ^ 0xFFFFFFFF)

    def test_contents(self):
        graph, features, edges, model = state_reader.versions(self.state)
        self.assertEqual(graph.manifest["name"], "g" * 250 + "/é")
        self.assertEqual((graph.manifest["version"], graph.manifest["metadata"]), (7, {"nodes": 200000}))
        row_ptr = graph.read("topology.vsec", "row_ptr")
        numpy.testing.assert_array_equal(row_ptr, numpy.arange(200001) + (5 << 33))
        numpy.testing.assert_array_equal(graph.read("topology.vsec", "col"), numpy.arange(300) - 100)
        self.assertEqual(graph.read("topology.vsec", "none").shape, (0, 4))
        self.assertEqual((features.manifest["graph"], features.manifest["graph_version"]), ("g" * 250 + "/é", 7))
        self.assertEqual(model.manifest["name"], "../m")
        self.assertEqual((edges.manifest["store"], edges.manifest["name"]), ("edge_features", "daily"))
        for version in (features, edges, model):
            expected = (numpy.arange(60, dtype=numpy.float32) / 8).reshape(4, 15)
            numpy.testing.assert_array_equal(version.read("matrix.vsec", "x"), expected)

    def test_tuning(self):
        graph, features, *_ = state_reader.versions(self.state)
        self.assertEqual(graph.tuning(), {"one": [{"width": 16}], "two": [{"width": 32}]})
        self.assertEqual(features.tuning(), {})
        name = f"tuning-{state_reader.crc32c(b'one'):08x}.json"
        document = next(self.state.rglob(name))
        raw = document.read_bytes()
        document.write_bytes(raw.replace(b'"width":16', b'"width":17'))
        with self.assertRaises(state_reader.Damaged):
            graph.tuning()

    def test_layouts(self):
        graph, features, *_ = state_reader.versions(self.state)
        (layout,) = graph.layouts()["one"]
        self.assertEqual((layout["kernel"], layout["layout"]), ("partition_dual", "theta 80/1000"))
        file = graph.layout_file(layout)
        self.assertEqual(file.read("masks").tobytes(), b"m" * 300)
        self.assertEqual(file.read("none").size, 0)
        self.assertEqual(features.layouts(), {})
        path = next(self.state.rglob("layouts/tiles.vsec"))
        raw = bytearray(path.read_bytes())
        raw[2 << 20] ^= 1
        path.write_bytes(raw)
        with self.assertRaises(state_reader.Damaged):
            graph.layout_file(layout).read("masks")

    def test_damage(self):
        path = next(self.state.glob("models/*/3/matrix.vsec"))
        raw = bytearray(path.read_bytes())
        for at in (3, 40, 100, 2 << 20, len(raw) - 1):
            damaged = bytearray(raw)
            damaged[at] ^= 4
            path.write_bytes(damaged)
            with self.assertRaises(state_reader.Damaged):
                model = list(state_reader.versions(self.state))[-1]
                model.read("matrix.vsec", "x")

    def test_exchanged(self):
        """Files of the same shape, but not the same."""
        path = next(self.state.glob("models/*/3/matrix.vsec"))
        raw = bytearray(path.read_bytes())
        header, table = struct.unpack_from("<I", raw, 24)[0], struct.unpack_from("<Q", raw, 40)[0]
        raw[2 << 20] ^= 4
        raw[table:table + 4] = struct.pack("<I", state_reader.crc32c(bytes(raw[2 << 20:(2 << 20) + 240])))
        raw[36:40] = struct.pack("<I", state_reader.crc32c(bytes(raw[table:table + 4])))
        raw[header - 4:header] = struct.pack("<I", state_reader.crc32c(bytes(raw[:header - 4])))
        path.write_bytes(raw)
        state_reader.DataFile(path).read("x")  # a file of its own
        with self.assertRaises(state_reader.Damaged):
            list(state_reader.versions(self.state))[-1].read("matrix.vsec", "x")

    def test_unpublished_is_ignored(self):
        next(self.state.glob("models/*/3/manifest.json")).unlink()
        self.assertEqual(len(list(state_reader.versions(self.state))), 3)


if __name__ == "__main__":
    unittest.main()
