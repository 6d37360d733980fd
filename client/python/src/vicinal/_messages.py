# SPDX-License-Identifier: Apache-2.0
"""The messages of package vicinal.v1, made from descriptors in a pool of their own.

No generated module is shipped. Generated modules register their files in protobuf's default pool, where a second copy of a file, or of a
google.rpc message, is an error for the whole process; and they need a runtime not older than their generator. A FileDescriptorSet has
neither problem: any protobuf from 4.21 on reads it.
"""

from __future__ import annotations

import pkgutil
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_POOL = descriptor_pool.DescriptorPool()


def _load() -> None:
    data = pkgutil.get_data("vicinal", "api.binpb")
    assert data is not None
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        _POOL.AddSerializedFile(file.SerializeToString())


_load()


def message(name: str) -> Any:
    """The class of the message `name` of package vicinal.v1."""
    descriptor = _POOL.FindMessageTypeByName("vicinal.v1." + name)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(_POOL).GetPrototype(descriptor)  # protobuf 4.21


def enum_values(name: str) -> dict[str, int]:
    """The values of the enum `name` of package vicinal.v1."""
    return {value.name: value.number for value in _POOL.FindEnumTypeByName("vicinal.v1." + name).values}


class Method:
    """A method of a service: its path on the wire, and how its messages become bytes."""

    def __init__(self, service: str, name: str) -> None:
        method = _POOL.FindServiceByName("vicinal.v1." + service).FindMethodByName(name)
        self.path = f"/vicinal.v1.{service}/{name}"
        self.request = message(method.input_type.full_name.rpartition("vicinal.v1.")[2])
        self.reply = message(method.output_type.full_name.rpartition("vicinal.v1.")[2])


_SERVICES = {
    "GraphService": ("GetUpload", "GetGraph", "ListGraphs", "DeleteGraph", "TuneGraph", "GetTuning", "ListFeatures", "DeleteFeatures",
                     "UploadGraph", "UploadFeatures", "WatchGraph"),
    "ModelService": ("GetModel", "ListModels", "DeleteModel", "UploadModel"),
    "InferenceService": ("Classify", "Embed", "ClassifyGraphs", "ClassifyStream", "EmbedStream", "InferStream", "PredictLinks",
                         "PredictLinksStream", "TopLinks", "TopLinksStream"),
    "ServerService": ("GetCapabilities", "Explain"),
}
METHODS = {name: Method(service, name) for service, names in _SERVICES.items() for name in names}
