# SPDX-License-Identifier: Apache-2.0
"""Arguments of predict_links and top_links, checked before anything is sent."""

from __future__ import annotations

import operator
from typing import Any, Optional

import numpy as np

from vicinal._messages import enum_values
from vicinal.errors import InputError

_DECODERS = enum_values("LinkDecoder")
_MOST_RELATION = (1 << 31) - 1


def link_decoder(name: str) -> int:
    wanted = "LINK_DECODER_" + (name.upper() or "UNSPECIFIED") if isinstance(name, str) else name
    if wanted not in _DECODERS:
        raise InputError(f"decoder is {name!r}, but must be one of ['cosine', 'dot', 'model'], or \"\"")
    return _DECODERS[wanted]


def one_relation(relation: Any) -> Optional[int]:
    """`relation`, a number; None stands for the first."""
    if relation is None:
        return None
    try:
        number = -1 if isinstance(relation, (bool, np.bool_)) else operator.index(relation)
    except TypeError:
        number = -1
    if not 0 <= number <= _MOST_RELATION:
        raise InputError(f"relation is {relation!r}, but must be a relation's number, 0 to R - 1 of the model's decoder")
    return number


def relation_of_each(relations: Any, links: int) -> list[int]:
    """`relations`, a number per link."""
    try:
        array = np.asarray(relations)
    except (TypeError, ValueError) as error:
        raise InputError(f"relations is {type(relations).__name__}, but must be a list of relations' numbers: {error}") from None
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        shown = f"{relations!r}" if array.ndim == 0 else f"{array.dtype} {list(array.shape)}"
        raise InputError(f"relations is {shown}, but must be a list of relations' numbers, one per link; relation=R is of all links")
    if array.size and not 0 <= int(array.min()) <= int(array.max()) <= _MOST_RELATION:
        place = int(np.argmax((array < 0) | (array > _MOST_RELATION)))
        raise InputError(f"relations[{place}] is {array[place]}, but must be a relation's number, 0 to R - 1 of the model's decoder")
    if len(array) != links:
        raise InputError(f"there are {len(array)} relations and {links} links; give one relation per link, or relation=R for all")
    return array.tolist()


def check_relations(relations: Any, relation: Optional[int], all_edges: bool) -> None:
    if relations is None:
        return
    if relation is not None:
        raise InputError("relations and relation are given: relations has one per link, relation is of all; leave one out")
    if all_edges:
        raise InputError("relations are of pairs; for all edges give relation=R")
