# SPDX-License-Identifier: Apache-2.0
"""Records what `forward` calls, with torch.fx: modules that are layers stay whole, everything else is traced through. Each recorded call
knows the line of `forward` that made it."""

from __future__ import annotations

import inspect
import re
import types
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Iterator, Optional
from unittest import mock

import torch
import torch.fx

from vicinal.exporting._dgl import is_dgl
from vicinal.exporting._link_predictors import DECODER, LINKS
from vicinal.exporting._modules import is_own_messages, is_pyg
from vicinal.exporting._result import ExportError, Problem

_TRACED = ("Sequential", "DeepGCNLayer")  # of PyTorch Geometric: they call layers and functions
READY_MADE = ("GCN", "GraphSAGE", "GIN", "GAT", "EdgeCNN")
POOLS = ("global_add_pool", "global_mean_pool", "global_max_pool")
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\w+)')
_ROLES = {"x": ("x", "feat", "feats", "features", "h", "in_feat", "inputs", "input"), "edge_index": ("edge_index", "edges", "adj"),
          "edge_attr": ("edge_attr", "edge_attrs", "edge_features", "edge_feat"),
          "edge_weight": ("edge_weight", "edge_weights", "edge_attr", "weight"), "batch": ("batch", "batch_index"),
          "graph": ("g", "graph", "blocks")}


def is_ready_made(module: Any) -> bool:
    return is_pyg(module) and any(base.__name__ == "BasicGNN" for base in type(module).__mro__)


class _Tracer(torch.fx.Tracer):
    record_stack_traces = True

    def is_leaf_module(self, module: torch.nn.Module, path: str) -> bool:
        if is_pyg(module):
            return type(module).__name__ not in _TRACED and not type(module).__name__.startswith("Sequential_")
        return is_dgl(module) or is_own_messages(module) or super().is_leaf_module(module, path)


class Wrapper(torch.nn.Module):
    """Calls the module with what its forward's parameters ask for by name, or with one object that has x, edge_index, ..."""

    def __init__(self, module: torch.nn.Module, given: tuple[str, ...]) -> None:
        super().__init__()
        self.module = module
        self.given = given
        self.plan, self.problems = _plan(module, given)

    def forward(self, x: Any, edge_index: Any, edge_weight: Any, edge_attr: Any, batch: Any, graph: Any, unknown: Any) -> Any:
        values = {"x": x, "edge_index": edge_index, "edge_weight": edge_weight, "edge_attr": edge_attr, "batch": batch, "graph": graph}
        values = {"unknown": unknown, **{name: value for name, value in values.items() if name in self.given}}
        if self.plan is None:
            del values["unknown"]
            data = types.SimpleNamespace(**{**{"edge_weight": None, "edge_attr": None, "batch": None}, **values})
            return self.module(data)
        return self.module(**{parameter: values[role] for parameter, role in self.plan.items()})


def _plan(module: torch.nn.Module, given: tuple[str, ...]) -> tuple[Optional[dict[str, str]], list[Problem]]:
    """Parameters of forward and their roles, or None: one parameter takes all. A parameter that cannot be given is a problem and gets the
    role "unknown", so that the rest is looked at, too."""
    parameters = _parameters(module)
    if len(parameters) == 1 and next(iter(parameters)) not in (*_ROLES["x"], "edge_index"):
        return None, []
    plan: dict[str, str] = {}
    problems = []
    for number, (name, needed) in enumerate(parameters.items()):
        roles = [role for role, names in _ROLES.items() if name in names]
        role = next((role for role in roles if role in given), roles[0] if roles else None)
        if role is None and number == 0:
            role = "x"
        if role in given:
            plan[name] = role
        elif needed:
            plan[name] = "unknown"
            problems.append(_missing(name, role, given))
    return plan, problems


def _parameters(module: torch.nn.Module) -> dict[str, bool]:
    """Names of forward's parameters, and whether they must be given."""
    signature = getattr(module, "signature", None)
    if is_pyg(module) and hasattr(signature, "param_dict"):  # Sequential, whose forward may take anything
        return dict.fromkeys(signature.param_dict, True)
    parameters = inspect.signature(module.forward).parameters.values()
    return {one.name: one.default is inspect.Parameter.empty for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}


def _missing(name: str, role: Optional[str], given: tuple[str, ...]) -> Problem:
    if role is not None:
        return Problem("forward", f"needs {name}, and the data has no {role}", f"add it to the data, which has {', '.join(given)}")
    if name in LINKS:
        return Problem("forward", f"needs {name}, links to score", DECODER)
    return Problem("forward", f"needs {name}, which has no known meaning",
                   f"parameters are recognised by name: {', '.join(names[0] for names in _ROLES.values())}; give others a default")


@contextmanager
def _pools_as_calls() -> Iterator[None]:
    """PyTorch Geometric's pooling functions compute with sizes, and its aggregations look at them, which cannot be traced: they become one
    call each."""
    try:
        import torch_geometric.nn as pyg
        from torch_geometric.nn.aggr import Aggregation
        from torch_geometric.nn.pool import glob
    except ImportError:
        yield
        return

    def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(x: Any, *args: Any, **kwargs: Any) -> Any:
            return x.tracer.create_proxy("call_function", function, (x, *args), kwargs) if isinstance(x, torch.fx.Proxy) else function(
                x, *args, **kwargs)

        return call

    def whole(module: Any, *args: Any, **kwargs: Any) -> Any:
        return torch.nn.Module.__call__(module, *args, **kwargs)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(Aggregation, "__call__", whole))
        for name in POOLS:
            for home in (pyg, pyg.pool, glob):
                if hasattr(home, name):
                    stack.enter_context(mock.patch.object(home, name, recorded(getattr(home, name))))
        yield


def _pool_functions() -> tuple[Callable[..., Any], ...]:
    try:
        import torch_geometric.nn as pyg
    except ImportError:
        return ()
    return tuple(getattr(pyg, name) for name in POOLS)


def trace(wrapper: Wrapper) -> torch.fx.Graph:
    """The calls of forward. ExportError: forward decides by values, which a model that is served cannot."""
    tracer = _Tracer(autowrap_functions=_pool_functions())
    try:
        with _pools_as_calls():
            graph = tracer.trace(wrapper)
    except Exception as error:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ExportError([*wrapper.problems, Problem("forward", f"cannot be traced: {what}",
                                   "forward must be a fixed sequence of layers: it may not decide by values of tensors, look at sizes, or "
                                   "call code that does; what changes edge_index belongs to the data, before the upload",
                                   _line_of(error))]) from error
    for node in reversed(graph.nodes):
        if not node.users and node.op not in ("placeholder", "output"):
            graph.erase_node(node)
    return graph


def _ours(path: str) -> bool:
    return re.search(r"/(torch|torch_geometric|dgl)/|/vicinal/exporting/|<eval_with_key>", path) is None


def _line_of(error: Exception) -> str:
    found = ""
    trail = error.__traceback__
    while trail is not None:
        path = trail.tb_frame.f_code.co_filename
        if _ours(path):
            found = f"{path}:{trail.tb_lineno}"
        trail = trail.tb_next
    return found


def line_of(node: torch.fx.Node) -> str:
    """FILE:LINE of the innermost frame that is the user's."""
    frames = [(path, line) for path, line, _ in _FRAME.findall(node.stack_trace or "") if _ours(path)]
    return "{}:{}".format(*frames[-1]) if frames else ""
