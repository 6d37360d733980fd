# SPDX-License-Identifier: Apache-2.0
"""Exports trained modules of PyTorch Geometric and DGL (docs/python.md, "Export a model"). Needs torch; works offline. The order: trace
forward, lower its calls to layers, run the traced calls for reference answers, check that they are the module's."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Optional

import numpy as np
import torch
import torch.fx

from vicinal._arguments import check_target
from vicinal.errors import InputError
from vicinal.exporting._given import given_inputs
from vicinal.exporting._link_predictors import embeddings_of, whole_model_problem
from vicinal.exporting._lower import Lowering
from vicinal.exporting._result import Exported, ExportError, Problem, as_text, safetensors
from vicinal.exporting._trace import Wrapper, trace

__all__ = ["ExportError", "Exported", "Problem", "as_text", "export"]

_REFERENCE_NODES = 2000  # larger graphs: answers on a part, so that the reference stays a few MB


def export(module: torch.nn.Module, data: Any, *, x: Any = None, edge_weight: Any = None, multi_label: Optional[bool] = None,
           target: Optional[str] = None) -> Exported:
    """The module as architecture, weights and reference answers: `client.upload_model(name, vicinal.export(module, data))`.

    `data`: a graph to answer for: PyTorch Geometric's `Data` or `Batch`, or a DGL graph. `x`: its features, or the name of the field or
    node attribute; by default `x`, for DGL `feat` or `x`. `edge_weight`: weights [E], or the name of a field of the data; default
    `data.edge_weight`. Features of edges are `data.edge_attr`, unless that is the weights. `multi_label`: classes do not exclude each other;
    default: forward ends in a sigmoid. `target`: what an answer is, "multi_class", "multi_label" or "regression" (numbers, asked for with
    `embed(..., output="logits")`). ExportError: names everything that the server has no layer for. InputError: the data
    does not fit together, or the module has no weights yet.
    """
    if not isinstance(module, torch.nn.Module):
        what = f"the class {module.__name__}" if isinstance(module, type) else f"a {type(module).__name__}"
        raise InputError(f"module is {what}; a trained torch.nn.Module is needed, with its weights loaded")
    target = _target(target, multi_label)
    module = _unwrapped(module)
    if (problem := whole_model_problem(module)) is not None:
        raise ExportError([problem])
    if (encoder := embeddings_of(module)) is not None:
        return _embeddings(module, encoder, data, x, edge_weight, target)
    inputs, graph = given_inputs(data, x, edge_weight)
    ignored = [] if edge_weight is not None else _ignored(module, inputs)
    for name in ignored:
        del inputs[name]
    module = _copied(module)
    wrapper = Wrapper(module, tuple(inputs))
    traced = trace(wrapper)
    lowering = Lowering(wrapper, traced, graph, inputs["edge_attr"].shape[1] if "edge_attr" in inputs else 0,
                        keep_final=target == "regression")
    lowering.problems += wrapper.problems
    lowering.run()
    if not lowering.problems and not lowering.layers:
        lowering.problems.append(Problem("forward", "has no layers", "a model has at least one"))
    if lowering.problems:
        raise ExportError(lowering.problems)
    architecture = {"format": "vicinal.model/1", "in_channels": int(inputs["x"].shape[1]),
                    "task": "graph" if lowering.graph_level else "node",
                    **({"target": target} if target else {"multi_label": lowering.multi_label}), "layers": lowering.layers}
    reference = _reference(wrapper, traced, lowering, inputs)
    weights = safetensors({name: value.float().numpy() for name, value in lowering.weights.items()})
    notes = [f"{type(module).__name__} does not read the data's {name}" for name in ignored]
    return Exported(architecture, weights, reference, (*notes, *lowering.notes, *_unused(module, lowering)))


def _target(target: Optional[str], multi_label: Optional[bool]) -> Optional[str]:
    """What an answer is; None: as forward's end says."""
    check_target(target)
    if target is not None and multi_label is not None and multi_label != (target == "multi_label"):
        raise InputError(f"multi_label={multi_label} contradicts target={target!r}; leave multi_label out")
    return target if multi_label is None or target is not None else "multi_label" if multi_label else "multi_class"


def _ignored(module: torch.nn.Module, inputs: dict[str, Any]) -> list[str]:
    """What a ready-made model of PyTorch Geometric takes and leaves unread: its class says so, or no convolution was made for it."""
    convs = list(getattr(module, "convs", []))
    ignored = [name for name in ("edge_weight", "edge_attr") if name in inputs and getattr(module, f"supports_{name}", True) is False]
    if "edge_attr" in inputs and "edge_attr" not in ignored and getattr(module, "supports_edge_attr", False) is True and convs and all(
            hasattr(conv, "edge_dim") and conv.edge_dim is None for conv in convs):
        ignored.append("edge_attr")
    return ignored


def _embeddings(module: Any, encoder: torch.nn.Module, data: Any, x: Any, edge_weight: Any, target: Optional[str]) -> Exported:
    """LightGCN as its encoder, with the decoder that its forward has. Its table is the graph's features."""
    exported = export(encoder, data, x=module.embedding.weight.detach() if x is None else x, edge_weight=edge_weight,
                      target=target)
    note = "the table embedding.weight is the graph's x, to be uploaded with it; scores of links are dot products"
    return replace(exported.with_decoder({"type": "dot"}, {}), notes=(*exported.notes, note))


def _unwrapped(module: torch.nn.Module) -> torch.nn.Module:
    """The module itself, without torch.compile and wrappers that spread training over devices."""
    if isinstance(module, torch.jit.ScriptModule):
        raise InputError("the module is TorchScript, whose forward cannot be read: pass the module that it was made of")
    if hasattr(module, "_orig_mod"):
        return _unwrapped(module._orig_mod)
    if isinstance(module, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
        return _unwrapped(module.module)
    return module


def _copied(module: torch.nn.Module) -> torch.nn.Module:
    """In evaluation mode on the CPU, and without what is of training: its graph, which `cached=True` keeps, and checkpoints."""
    lazy = [name for name, value in module.named_parameters() if isinstance(value, torch.nn.parameter.UninitializedParameter)]
    if lazy:
        raise InputError(f"the module has no weights yet ({lazy[0]}): its widths are known after the first call")
    copied = copy.deepcopy(module).eval().cpu()
    for layer in copied.modules():
        for name in ("_cached_edge_index", "_cached_adj_t", "_cached_x", "_cached_h"):
            if getattr(layer, name, None) is not None:
                setattr(layer, name, None)
        if getattr(layer, "ckpt_grad", False):  # of DeepGCNLayer: memory of training
            layer.ckpt_grad = False
    return copied


def _part(inputs: dict[str, Any]) -> dict[str, Any]:
    """A graph that is small enough to travel with the model: the subgraph of the first nodes."""
    count = inputs["x"].shape[0]
    if count <= _REFERENCE_NODES or "graph" in inputs or "batch" in inputs:
        return inputs
    kept = (inputs["edge_index"] < _REFERENCE_NODES).all(dim=0)
    part = {"x": inputs["x"][:_REFERENCE_NODES], "edge_index": inputs["edge_index"][:, kept]}
    for name in ("edge_weight", "edge_attr"):
        if name in inputs:
            part[name] = inputs[name][kept]
    return part


def _run(wrapper: Wrapper, graph: Optional[torch.fx.Graph], inputs: dict[str, Any], dtype: torch.dtype) -> torch.Tensor:
    """The traced calls, or without `graph` the module itself."""
    values = [inputs.get(role) for role in ("x", "edge_index", "edge_weight", "edge_attr", "batch", "graph", "unknown")]
    values = [one.to(dtype) if isinstance(one, torch.Tensor) and one.is_floating_point() else one for one in values]
    root = copy.deepcopy(wrapper).to(dtype).eval()
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)  # of tensors that layers make, such as the weights of DGL's APPNPConv
    try:
        with torch.no_grad():
            return torch.fx.GraphModule(root, graph)(*values) if graph is not None else root(*values)
    except (RuntimeError, IndexError, ValueError, TypeError, AssertionError) as error:
        shapes = ", ".join(f"{role} {list(value.shape)}" for role, value in inputs.items() if isinstance(value, torch.Tensor))
        said = str(error) or "an assertion of its own does not hold, perhaps because edge_weight or edge_attr is given, or is not"
        raise InputError(f"the module fails on this data ({shapes}): {said}") from error
    finally:
        torch.set_default_dtype(before)


def _reference(wrapper: Wrapper, traced: torch.fx.Graph, lowering: Lowering, inputs: dict[str, Any]) -> bytes:
    """Answers in float64 on a small graph, with the graph. The traced calls must give what the module gives."""
    part = _part(inputs)
    dtype = torch.float64
    whole = _run(wrapper, traced, part, dtype)
    direct = _run(wrapper, None, part, dtype)
    if not torch.allclose(whole, direct, rtol=1e-6, atol=1e-9, equal_nan=True):
        raise ExportError([Problem("forward", "gives other answers when traced", "forward must be a fixed sequence of layers")])
    output = next(node for node in traced.nodes if node.op == "output")
    output.args = (lowering.pre_output,)
    logits = _run(wrapper, traced, part, dtype)
    tensors: dict[str, Optional[np.ndarray]] = {
        "graph_logits" if lowering.graph_level else "logits": logits.reshape(len(logits), -1).float().numpy(),
        "edge_index": part["edge_index"].numpy().astype(np.int64), "x": part["x"].float().numpy(),
        "edge_weight": part["edge_weight"].float().numpy() if "edge_weight" in part else None,
        "edge_attr": part["edge_attr"].numpy() if "edge_attr" in part else None}
    if lowering.graph_level:
        counts = torch.bincount(part["batch"]) if "batch" in part else torch.tensor([part["x"].shape[0]])
        tensors["ptr"] = np.concatenate([[0], np.cumsum(counts.numpy())]).astype(np.int64)
    return safetensors(tensors)


def _unused(module: torch.nn.Module, lowering: Lowering) -> list[str]:
    """Parameters that no layer took over: heads of training, mostly."""
    kept = {value.data_ptr() for value in lowering.weights.values()} | lowering.left_out
    left = [name for name, value in module.named_parameters() if value.data_ptr() not in kept]
    return [f"not exported, as forward does not use them: {', '.join(left)}"] if left and lowering.dgl_graph is None else []
