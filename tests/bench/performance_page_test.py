#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/performance.md holds no figure that is not in bench/results, and every file there has what its README says.

A table is preceded by a comment that says where its figures are from:

  <!-- figures: FILE; label; [name=value; ...] column; column; ... -->

The row whose field `label` equals the table's first cell, and whose fields equal the name=value filters, must have the
numbers of the other cells. A column is [FILE] [name=value ...] field [field ...], one field per number; field/1000
divides."""

import glob
import json
import os
import re
import shlex
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
RESULTS = os.path.join(ROOT, "bench", "results")
TABLE = re.compile(r"(?:<!-- figures: ([^>]*) -->\n)?((?:^\|.*\|\n)+)", re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?(?![\w]*-)")
# Figures in sentences: a number with a unit, or in brackets after one.
FIGURE = re.compile(r"(\d[\d,]*(?:\.\d+)?)(?= (?:to \d[\d,]*(?:\.\d+)? )?(?:us|ms|times|TB/s|cells)\b)|\b(\d+\.\d\d)\b")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def result(name):
    return json.loads(read(os.path.join(RESULTS, name)))


def split_cells(line):
    return [cell.strip() for cell in line.strip()[1:-1].split("|")]


def same(text, value):
    """Whether `text` is `value` as printed with as many decimals as `text` has."""
    text = text.replace(",", "")
    decimals = len(text.partition(".")[2])
    return isinstance(value, (int, float)) and abs(float(text) - value) <= 0.5001 * 10**-decimals


def parse_columns(marker, count):
    """'FILE; label; filter; column...' -> (label, [(file, {filter}, [(field, divisor)])])"""
    name, label, *rest = [part.strip() for part in marker.split(";")]
    shared = dict(part.split("=", 1) for part in rest[: len(rest) - count])
    columns = []
    for part in rest[len(rest) - count:]:
        file, filters, fields = name, dict(shared), []
        for token in shlex.split(part):
            if token.endswith(".json"):
                file = token
            elif "=" in token:
                filters.update([token.split("=", 1)])
            else:
                field, _, divisor = token.partition("/")
                fields.append((field, float(divisor or 1)))
        columns.append((file, filters, fields))
    return label, columns


def check_table(marker, lines):
    """What is wrong with the table: one line per cell."""
    header, rows = split_cells(lines[0]), [split_cells(line) for line in lines[2:]]
    label, columns = parse_columns(marker, len(header) - 1)
    problems = []
    for row in rows:
        for title, cell, (file, filters, fields) in zip(header[1:], row[1:], columns):
            numbers = NUMBER.findall(cell)
            if not numbers:
                continue
            wanted = {label: row[0], **filters}
            found = [one for one in result(file)["rows"] if all(str(one.get(k)) == v for k, v in wanted.items())]
            found = [[one.get(field) for field, _ in fields] for one in found if fields[0][0] in one]
            expected = [[v and v / d for v, (_, d) in zip(values, fields)] for values in found]
            if not any(len(numbers) == len(e) and all(map(same, numbers, e)) for e in expected):
                problems.append(f"{row[0]}, {title}: {cell!r}; {file} has {expected} where {wanted}")
    return problems


def recorded_numbers():
    """Every number of the results, and those of their machines and notes."""
    numbers = set()
    for path in glob.glob(os.path.join(RESULTS, "*.json")):
        document = json.loads(read(path))
        numbers.update(float(n.replace(",", "")) for n in NUMBER.findall(document["machine"] + document.get("notes", "")))
        for row in document["rows"]:
            numbers.update(float(v) for v in row.values() if isinstance(v, (int, float)))
    return numbers


class PerformancePageTest(unittest.TestCase):
    def setUp(self):
        self.page = read(os.path.join(ROOT, "docs", "performance.md"))

    def test_every_figure_of_a_table_is_a_result(self):
        tables = TABLE.findall(self.page)
        self.assertGreater(len(tables), 5)
        for marker, text in tables:
            with self.subTest(table=text.split("\n", 1)[0]):
                self.assertTrue(marker, "no comment says where the figures are from")
                self.assertEqual(check_table(marker, text.splitlines()), [])

    def test_a_wrong_figure_is_found(self):
        for marker, text in TABLE.findall(self.page):
            lines = text.splitlines()
            cells = split_cells(lines[2])
            cells[1] = NUMBER.sub(lambda match: str(float(match.group().replace(",", "")) + 7), cells[1], count=1)
            wrong = [*lines[:2], "| " + " | ".join(cells) + " |"]
            self.assertEqual(len(check_table(marker, wrong)), 1, wrong)

    def test_every_figure_of_a_sentence_is_a_result(self):
        prose = TABLE.sub("", re.sub(r"`[^`]*`|^    .*$|\]\([^)]*\)", "", self.page, flags=re.MULTILINE))
        prose = re.sub(r"(PyTorch|Geometric|DGL|CUDA|torch) \d+(\.\d+)+", "", prose)
        figures = [a or b for a, b in FIGURE.findall(prose)]
        self.assertGreater(len(figures), 5)
        recorded = recorded_numbers()
        self.assertEqual([f for f in figures if float(f.replace(",", "")) not in recorded], [])

    def test_the_page_is_short(self):
        self.assertLessEqual(len(re.sub(r"<!--.*?-->|\|", " ", self.page).split()), 1200)


class ResultFilesTest(unittest.TestCase):
    def test_every_file_has_the_fields_of_the_schema(self):
        paths = glob.glob(os.path.join(RESULTS, "*.json"))
        self.assertGreater(len(paths), 10)
        for path in paths:
            with self.subTest(file=os.path.basename(path)):
                document = json.loads(read(path))
                self.assertEqual(document["schema"], "vicinal.bench/1")
                for field in ("machine", "command", "commit"):
                    self.assertTrue(document[field])
                self.assertRegex(document["date"], r"^\d{4}-\d\d-\d\d$")
                self.assertTrue(document["rows"])
                for row in document["rows"]:
                    self.assertIsInstance(row, dict)
                self.assertLessEqual(set(document), {"schema", "source", "machine", "date", "command", "commit", "notes", "rows"})


if __name__ == "__main__":
    unittest.main()
