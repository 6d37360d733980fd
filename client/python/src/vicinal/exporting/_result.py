# SPDX-License-Identifier: Apache-2.0
"""What an export gives, and what it raises."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from typing import Any, Mapping, Optional, Union

import numpy as np

from vicinal.errors import Error


class Unsupported(Exception):
    """A module, argument or call without counterpart: what it is, and a suggestion."""

    def __init__(self, what: str, suggestion: str) -> None:
        super().__init__(what)
        self.what, self.suggestion = what, suggestion


@dataclass(frozen=True)
class Problem:
    """Something that the server has no layer for. `module`: its path, or "forward". `line`: FILE:LINE of the call."""

    module: str
    what: str
    suggestion: str
    line: str = ""

    def __str__(self) -> str:
        where = f"{self.module} ({self.line})" if self.line else self.module
        return f"{where}: {self.what}\n    {self.suggestion}"


class ExportError(Error):
    """The module cannot be exported. `problems` are all of them, not the first; equal ones once."""

    def __init__(self, problems: list[Problem]) -> None:
        problems = list(dict.fromkeys(problems))
        super().__init__("\n".join([f"the module cannot be exported, {len(problems)} problem{'s' * (len(problems) > 1)}:",
                                    *(f"  {problem}" for problem in problems)]))
        self.problems = problems


@dataclass(frozen=True)
class Exported:
    """A model as the server takes it: `client.upload_model(name, exported)`. `weights`, `reference`: safetensors files. `notes`: what was
    left out or changed, for people."""

    architecture: dict[str, Any]
    weights: bytes = field(repr=False)
    reference: bytes = field(repr=False)
    notes: tuple[str, ...]

    def with_decoder(self, decoder: Mapping[str, Any], tensors: Mapping[str, Any]) -> "Exported":
        """The same with a section `decoder` (docs/formats.md, "Decoders of links") and its tensors by their names there, such as the
        `state_dict()` of a torch.nn.Bilinear."""
        prefix = decoder.get("prefix", "decoder.")
        values = {prefix + name: value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value) for name, value in tensors.items()}
        both = {**read_safetensors(self.weights), **{name: value.astype(np.float32) for name, value in values.items()}}
        return replace(self, architecture={**self.architecture, "decoder": dict(decoder)}, weights=safetensors(both))

    def save(self, path: Union[str, os.PathLike[str]]) -> list[str]:
        """Writes PATH.json, PATH.safetensors and PATH.reference.safetensors; returns their names."""
        files = {f"{path}.json": as_text(self.architecture).encode(), f"{path}.safetensors": self.weights,
                 f"{path}.reference.safetensors": self.reference}
        for name, data in files.items():
            with open(name, "wb") as file:
                file.write(data)
        return list(files)


def as_text(architecture: dict[str, Any]) -> str:
    """JSON with a layer on each line."""
    keys = [f'  {json.dumps(key)}: {json.dumps(value)}' for key, value in architecture.items() if key != "layers"]
    layers = ",\n    ".join(json.dumps(layer) for layer in architecture["layers"])
    return "{\n" + ",\n".join([*keys, f'  "layers": [\n    {layers}\n  ]']) + "\n}\n"


_TYPES = {"float32": "F32", "float64": "F64", "int64": "I64"}


def safetensors(tensors: dict[str, Optional[np.ndarray]]) -> bytes:
    """A safetensors file. None is left out."""
    header, data, end = {}, [], 0
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        raw = np.ascontiguousarray(tensor).tobytes()
        header[name] = {"dtype": _TYPES[str(tensor.dtype)], "shape": list(tensor.shape), "data_offsets": [end, end + len(raw)]}
        data.append(raw)
        end += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *data])


def read_safetensors(data: bytes) -> dict[str, np.ndarray]:
    """The float32 tensors of a file that `safetensors` made."""
    begin = 8 + int.from_bytes(data[:8], "little")
    found = {}
    for name, entry in json.loads(data[8:begin]).items():
        first, end = entry["data_offsets"]
        found[name] = np.frombuffer(data[begin + first:begin + end], np.float32).reshape(entry["shape"])
    return found
