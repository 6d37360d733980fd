# SPDX-License-Identifier: Apache-2.0
"""The progress bar of uploads: one line on standard error, rewritten at most once per percent."""

from __future__ import annotations

import sys
from typing import Optional, TextIO, Union

from vicinal._upload import Progress, Report

_WIDTH = 30


class ProgressBar:
    """Draws `Progress`; a callable for the argument `progress` of uploads."""

    def __init__(self, title: str, file: Optional[TextIO] = None) -> None:
        self._title, self._file, self._last = title, file or sys.stderr, ""

    def __call__(self, progress: Progress) -> None:
        share = progress.done / progress.total if progress.total else 1.0
        amount = f" of {progress.total / 1e6:.1f} MB" if progress.stage == "upload" else ""
        bar = "#" * int(share * _WIDTH)
        line = f"{self._title}: {progress.stage:7} [{bar:{_WIDTH}}] {share:4.0%}{amount}"
        if line != self._last:
            self._file.write("\r" + line.ljust(len(self._last)) + ("\n" if share >= 1 else ""))
            self._file.flush()
            self._last = line


def reporter(progress: Union[bool, Report], title: str) -> Report:
    """The function to report to. True: a progress bar. False: nothing."""
    if callable(progress):
        return progress
    return ProgressBar(title) if progress else lambda _: None
