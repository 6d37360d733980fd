#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/results/record.py makes of the outputs of benchmarks."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

from bench.results import record

RUN = {"machine": "a machine", "command": "a command", "date": "2026-01-02", "commit": "abc1234"}


class RecordTest(unittest.TestCase):
    def test_cases_become_rows_without_samples(self):
        output = {"device": "cpu", "cells": [{"graph": "cora", "us": 4.5, "widths": [16, 64], "samples": [1.0, 2, 3, 4],
                                              "peers": {"dgl": {"us": 9.0, "rounds": [[1], [2], [3], [4]]}}}]}
        result = record.record(output, **RUN)
        self.assertEqual(result["rows"], [{"graph": "cora", "us": 4.5, "widths": [16, 64], "peers": {"dgl": {"us": 9.0}}}])
        self.assertEqual({name: result[name] for name in RUN}, RUN)
        self.assertEqual(result["schema"], "vicinal.bench/1")
        self.assertEqual(json.loads(record.to_text(result)), result)

    def test_an_output_without_one_list_of_cases_is_an_error(self):
        for output in ({"device": "cpu"}, {"cells": [], "results": []}):
            with self.assertRaisesRegex(ValueError, "expected one list"):
                record.record(output, **RUN)
        for output in ({"cells": []}, {"cells": [4]}):
            with self.assertRaisesRegex(ValueError, "empty"):
                record.record(output, **RUN)

    def test_the_program_writes_the_file_and_reports_a_bad_one(self):
        script = os.path.join(ROOT, "bench", "results", "record.py")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            arguments = [sys.executable, script, file.name, "--machine", "m", "--command", "c", "--commit", "abc"]
            bad = subprocess.run(arguments, capture_output=True, text=True, check=False)
            self.assertEqual((bad.returncode, bad.stdout), (1, ""))
            file.write('{"cases": [{"us": 1}]}')
            file.flush()
            good = subprocess.run(arguments, capture_output=True, text=True, check=False)
            self.assertEqual(good.returncode, 0, good.stderr)
            self.assertEqual(json.loads(good.stdout)["rows"], [{"us": 1}])


if __name__ == "__main__":
    unittest.main()
