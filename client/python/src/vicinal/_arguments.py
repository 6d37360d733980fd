# SPDX-License-Identifier: Apache-2.0
"""Arguments of the clients that stand for files and for messages."""

from __future__ import annotations

import json
import os
from numbers import Real
from typing import Any, Mapping, Optional

from vicinal._messages import enum_values, message
from vicinal.errors import InputError

_ENUMS = {"receptive_field": "ReceptiveField", "precision": "Precision", "product_precision": "ProductPrecision",
          "priority": "Priority"}


_MOST_SECONDS = 1_000_000_000  # 31 years: as milliseconds they fit in any message

TARGETS = ("multi_class", "multi_label", "regression")  # of an exported model
NO_TENSORS = (8).to_bytes(8, "little") + b"{}      "  # a safetensors file without any


def check_target(target: Optional[str]) -> None:
    """None: as the module's forward ends."""
    if target is not None and target not in TARGETS:
        raise InputError(f"target is {target!r}, but must be one of {list(TARGETS)}")


def milliseconds(timeout: Optional[float]) -> int:
    """Of a time in seconds, at least 1; 0 of None, which is no bound."""
    if timeout is None:
        return 0
    if isinstance(timeout, bool) or not isinstance(timeout, Real) or not 0 < timeout <= _MOST_SECONDS:
        raise InputError(f"timeout is {timeout!r}, but must be a number of seconds above 0 and up to {_MOST_SECONDS:,}, or None for no bound")
    return max(1, round(float(timeout) * 1e3))


def file_bytes(value: Any, what: str) -> bytes:
    """A path, or what a file holds."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if not isinstance(value, (str, os.PathLike)):
        if hasattr(value, "state_dict"):
            hint = "; for a module: upload_model(name, vicinal.export(module, data))"
        elif isinstance(value, Mapping):
            hint = "; of tensors safetensors.torch.save(...) makes bytes"
        else:
            hint = ""
        raise InputError(f"{what} is {type(value).__name__}; a path or bytes are needed{hint}")
    with open(value, "rb") as file:
        return file.read()


def architecture_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return json.dumps(value)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return value
    try:
        return file_bytes(value, "the architecture").decode("utf-8")
    except UnicodeDecodeError:
        what = "the architecture" if isinstance(value, (bytes, bytearray, memoryview)) else str(value)
        raise InputError(f"{what} is not UTF-8 text: the architecture (JSON) comes first, then the weights") from None


def execution(options: Optional[Mapping[str, Any]]) -> Any:
    """ExecutionOptions, enums by the last words of their values: {"precision": "bfloat16", "kernels": {"aggregate": "reference"}}."""
    if not options:
        return None
    found = message("ExecutionOptions")()
    for name, value in options.items():
        if name == "kernels":
            found.kernels.update(value)
            continue
        if name not in _ENUMS:
            raise InputError(f"there is no option {name!r}, only {['kernels', *_ENUMS]}")
        names = {key.lower(): number for key, number in enum_values(_ENUMS[name]).items()}
        if f"{name}_{value}" not in names:
            raise InputError(f"options[{name!r}] is {value!r}, but must be one of {[key[len(name) + 1:] for key in names]}")
        setattr(found, name, names[f"{name}_{value}"])
    return found
