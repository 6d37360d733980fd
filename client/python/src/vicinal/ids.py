# SPDX-License-Identifier: Apache-2.0
"""Node ids of the user's own. The server knows row numbers 0..N-1 only; a map from ids to rows stays with the client. Its digest travels with
the graph, so that ids are never taken for those of another upload. Digest and file are those of the command line (docs/formats.md, "Ids of
your own"): a graph uploaded here is queried there, and the other way round."""

from __future__ import annotations

import csv
import io
import os
from typing import Any, Iterable, Sequence, Union

import numpy as np

from vicinal._crc32c import crc32c
from vicinal.errors import IdsError, InputError

_HEADER = "# vicinal ids: "


class Ids:
    """Row i of the graph is the node with the id `ids[i]`. Ids are compared as text: 7 and "7" are the same node."""

    def __init__(self, ids: Iterable[Any]) -> None:
        self._ids: list[Any] = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
        texts = [str(one) for one in self._ids]
        self._rows = dict(zip(texts, range(len(texts))))
        for row, text in enumerate(texts):
            if not text or "\n" in text or "\r" in text:
                raise InputError(f"the id of row {row} is empty or contains a line break: {text!r}")
            if len(self._rows) != len(texts) and self._rows[text] != row:
                raise InputError(f"the id {text!r} occurs twice, for row {row} and for row {self._rows[text]}")
        self.digest = f"crc32c:{crc32c(''.join(text + chr(10) for text in texts).encode()):08x}"

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, row: int) -> Any:
        return self._ids[row]

    def __repr__(self) -> str:
        return f"<Ids of {len(self)} nodes, {self.digest}>"

    def rows(self, nodes: Iterable[Any]) -> np.ndarray:
        """The row numbers of nodes, int64 [n]. IdsError: an id that is not in the map."""
        listed = nodes.tolist() if isinstance(nodes, np.ndarray) else list(nodes)
        try:
            return np.fromiter((self._rows[str(node)] for node in listed), dtype=np.int64, count=len(listed))
        except KeyError as error:
            raise IdsError(f"{error.args[0]!r} is not among the {len(self)} ids of the graph") from None

    def nodes(self, rows: Iterable[int]) -> list[Any]:
        """The ids of row numbers."""
        return [self._ids[row] for row in rows]

    def save(self, path: Union[str, os.PathLike[str]], graph: str = "") -> None:
        """Writes the file that `vicinal classify --ids FILE` and `Ids.load` read."""
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(f"{_HEADER}{f'graph {graph}, ' if graph else ''}{len(self)} nodes; line i of what follows (from 0) is node i\n")
            file.writelines(_quoted(str(one)) + "\n" for one in self._ids)

    @staticmethod
    def load(path: Union[str, os.PathLike[str]]) -> "Ids":
        """Reads such a file, or any file with an id per line. InputError: an empty line, several columns, an id that occurs twice."""
        with open(path, encoding="utf-8", newline="") as file:
            lines = file.read().splitlines()
        if lines and lines[0].startswith(_HEADER):
            lines = lines[1:]
        return Ids([_unquoted(line, path, number) for number, line in enumerate(lines, 1)])


def _quoted(text: str) -> str:
    if "," not in text and not text.startswith('"') and text == text.strip(" \t"):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _unquoted(line: str, path: Any, number: int) -> str:
    if "," not in line and '"' not in line:
        values = [line.strip(" \t")]
    else:
        values = next(csv.reader(io.StringIO(line.strip(" \t")), strict=True), [])
    if len(values) != 1 or not values[0]:
        raise InputError(f"{path}, id {number}: {line!r} is not one id; an id with a comma is in double quotes, empty lines are not allowed")
    return values[0]


def rows_or_ids(labels: Sequence[Any]) -> Union[Ids, None]:
    """The map of node labels in order of row; None where they are 0..N-1 already, as the command line has it."""
    if all(isinstance(label, (int, np.integer)) for label in labels) and all(label == row for row, label in enumerate(labels)):
        return None
    return Ids(labels)
