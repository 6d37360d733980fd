#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every field of the API says Required, Optional or Output only, and every method, message and enum has a comment."""

import glob
import os
import re
import unittest

PROTO = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "proto"))
FIELD = re.compile(r"^\s+(?:repeated |optional |map<[^>]*> )?[\w.]*\s?\w+ = \d+;$")
DECLARATION = re.compile(r"^(?:  rpc|message|enum|service) (\w+)")
WIRE_COMPATIBLE = "error_details.proto"  # google.rpc documents these


def problems(path, text):
    """One line per field or declaration without the comment it needs."""
    found, comment, scopes = [], "", []
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("//"):
            comment += stripped[2:].strip() + " "
            continue
        declared = DECLARATION.match(line)
        kind = scopes[-1] if scopes else ""
        empty = declared and stripped.endswith("{}")
        if declared and not comment and not empty and not re.search(r"(Request|Response|Spec)$", declared.group(1)):
            found.append(f"{path}:{number}: {declared.group(1)} has no comment")
        elif FIELD.match(line) and kind == "message" and not re.match(r"(Required|Optional|Output only)\b", comment):
            found.append(f"{path}:{number}: {stripped} does not begin with Required, Optional or Output only")
        elif FIELD.match(line) and kind == "oneof" and not comment:
            found.append(f"{path}:{number}: {stripped} has no comment")
        if stripped.endswith("{"):
            scopes.append(stripped.split()[0])
        elif stripped == "}":
            scopes.pop()
        comment = ""
    return found


class CommentsTest(unittest.TestCase):
    def test_every_field_says_who_sets_it(self):
        paths = [path for path in sorted(glob.glob(os.path.join(PROTO, "**", "*.proto"), recursive=True)) if not path.endswith(WIRE_COMPATIBLE)]
        self.assertGreater(len(paths), 6)
        for path in paths:
            with open(path, encoding="utf-8") as file:
                self.assertEqual(problems(os.path.basename(path), file.read()), [])

    def test_a_missing_comment_is_found(self):
        text = "// A.\nmessage A {\n  // Output only.\n  string a = 1;\n  int64 b = 2;\n  oneof c {\n    int64 d = 3;\n  }\n}\nmessage B {\n}\n"
        self.assertEqual([line.split(" ")[0] for line in problems("x", text)], ["x:5:", "x:7:", "x:10:"])


if __name__ == "__main__":
    unittest.main()
