#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links and paths in the documentation lead somewhere: links of pages with their anchors, `paths` of the repository in
pages, and pages that comments in sources name. Needs no build."""

import glob
import os
import re
import subprocess
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
FOLDERS = ("bench", "client", "cmake", "deploy", "docs", "engine", "proto", "server", "tests")
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(rf"(?:{'|'.join(FOLDERS)})/[\w./*{{}},-]+")
PAGE_IN_SOURCE = re.compile(r"\bdocs/[\w/-]+\.md\b")
# Build outputs, and folders inside a bundle.
NOT_OURS = re.compile(r"^(build|vicinal)/|/build/")


def tracked(*patterns):
    listing = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns], cwd=ROOT,
                             capture_output=True, text=True, check=True).stdout.split("\n")
    return [path for path in listing if path and os.path.exists(os.path.join(ROOT, path))]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text):
    """The anchors that GitHub gives the headings of a page."""
    found, seen = set(), {}
    for heading in re.findall(r"^#+ +(.*)$", without_code(text), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.strip())
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = seen.get(anchor, 0)
        seen[anchor] = number + 1
        found.add(anchor if number == 0 else f"{anchor}-{number}")
    return found


def expand(pattern):
    """'a/{b,c}.h' -> ['a/b.h', 'a/c.h']"""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if not match:
        return [pattern]
    return [path for part in match.group(1).split(",")
            for path in expand(pattern[: match.start()] + part + pattern[match.end():])]


def broken_links(page, text):
    problems = []
    for target, anchor in LINK.findall(without_code(text)):
        if "://" in target or target.startswith("mailto:"):
            continue
        path = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
        if not os.path.exists(os.path.join(ROOT, path)):
            problems.append(f"{page}: link to {target}")
        elif anchor and path.endswith(".md") and anchor[1:] not in anchors(read(path)):
            problems.append(f"{page}: {path} has no heading {anchor}")
    return problems


def broken_paths(page, text):
    """Paths in backticks; '<name>' stands for something that the reader chooses."""
    problems = []
    for code in CODE.findall(without_code(text)):
        for path in PATH.findall(code):
            starts = code.index(path)
            if "<" in code or (starts and code[starts - 1] not in " '\"(=") or NOT_OURS.search(path):
                continue
            for one in expand(path.rstrip(".,")):
                if not glob.glob(os.path.join(ROOT, one)):
                    problems.append(f"{page}: `{one}`")
    return problems


class LinksTest(unittest.TestCase):
    def test_links_and_paths_of_pages_lead_to_files(self):
        pages = tracked("*.md")
        self.assertIn("README.md", pages)
        self.assertGreater(len(pages), 30)
        problems = [problem for page in pages
                    for problem in broken_links(page, read(page)) + broken_paths(page, read(page))]
        self.assertEqual(problems, [])

    def test_pages_named_in_sources_are_there(self):
        sources = tracked("*.cc", "*.h", "*.cu", "*.cuh", "*.py", "*.sh", "*.txt", "*.proto", "*.cmake", "*.yaml", "*.yml")
        self.assertGreater(len(sources), 500)
        missing = {f"{source}: {page}" for source in sources if source != "tests/deploy/links_test.py"
                   for page in PAGE_IN_SOURCE.findall(read(source)) if not os.path.exists(os.path.join(ROOT, page))}
        self.assertEqual(missing, set())

    def test_what_leads_nowhere_is_found(self):
        page = "[a](docs/none.md) [b](docs/errors.md#no-such-heading) [c](docs/errors.md) [d](https://example.org/x)"
        self.assertEqual(broken_links("README.md", page),
                         ["README.md: link to docs/none.md", "README.md: docs/errors.md has no heading #no-such-heading"])
        self.assertEqual(broken_links("docs/errors.md", "[a](../README.md) [b](README.md)"), ["docs/errors.md: link to README.md"])
        page = "`engine/base/{status,none}.h`, `bench/*.cc`, `engine/<name>.cc`, `docs/errors.md --flag`"
        self.assertEqual(broken_paths("README.md", page), ["README.md: `engine/base/none.h`"])
        self.assertEqual(anchors("# A `b` c\n```\n# not\n```\n## A b-c, d\n## A b-c, d"), {"a-b-c", "a-b-c-d", "a-b-c-d-1"})


if __name__ == "__main__":
    unittest.main()
