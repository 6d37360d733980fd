# SPDX-License-Identifier: Apache-2.0
"""Recorded calls to layers. Goes through the calls in order and emits layers; what has no counterpart becomes a Problem and the walk goes on,
so that one export names all problems."""

from __future__ import annotations

import operator
from typing import Any, Callable, Optional

import torch
import torch.fx
import torch.nn.functional as F

from vicinal.exporting._dgl import ATTENTION, dgl_layer, is_dgl
from vicinal.exporting._modules import ACTIVATIONS, WEIGHTED, Layer, Unsupported, activation, is_pyg, mlp_parts, pyg_layer, reads_edge_features, rowwise
from vicinal.exporting._result import Problem
from vicinal.exporting._trace import POOLS, is_ready_made, line_of

_ACTIVATIONS = {torch.relu: "ReLU", F.relu: "ReLU", torch.relu_: "ReLU", F.elu: "ELU", F.leaky_relu: "LeakyReLU", torch.sigmoid: "Sigmoid",
                F.sigmoid: "Sigmoid", torch.tanh: "Tanh", F.tanh: "Tanh", "relu": "ReLU", "relu_": "ReLU", "sigmoid": "Sigmoid", "tanh": "Tanh",
                F.relu6: "ReLU6", F.celu: "CELU", F.selu: "SELU", F.gelu: "GELU", F.silu: "SiLU", F.mish: "Mish", F.softplus: "Softplus",
                F.softsign: "Softsign", F.logsigmoid: "LogSigmoid", F.tanhshrink: "Tanhshrink", F.hardtanh: "Hardtanh",
                F.hardsigmoid: "Hardsigmoid", F.hardswish: "Hardswish", F.hardshrink: "Hardshrink", F.softshrink: "Softshrink"}
_SUMS = (operator.add, operator.iadd, torch.add, "add", "add_")
_CONCATENATIONS = (torch.cat, torch.concat, torch.concatenate)
_NOTHING = (F.dropout, torch.dropout, torch.clone, "clone", "contiguous", "detach", "float", "to", "double")
_FINAL = {F.log_softmax: "log_softmax", torch.log_softmax: "log_softmax", F.softmax: "softmax", torch.softmax: "softmax",
          "log_softmax": "log_softmax", "softmax": "softmax", torch.sigmoid: "sigmoid", F.sigmoid: "sigmoid", "sigmoid": "sigmoid"}
_FINAL_MODULES = {"LogSoftmax": "log_softmax", "Softmax": "softmax", "Sigmoid": "sigmoid"}


class Lowering:
    def __init__(self, root: torch.nn.Module, graph: torch.fx.Graph, dgl_graph: Any) -> None:
        self.modules = dict(root.named_modules())
        self.dgl_graph = dgl_graph
        self.layers: list[dict[str, Any]] = []
        self.weights: dict[str, torch.Tensor] = {}
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self.values: dict[torch.fx.Node, str] = {}
        self.names: set[str] = {"x", "logits", "last_conv_input"}
        self.multi_label = self.graph_level = False
        self.pre_output: Any = None
        self.nodes = list(graph.nodes)

    def run(self) -> None:
        for node in self.nodes:
            try:
                if node.op == "placeholder":
                    self.values[node] = node.name
                elif node.op == "output":
                    self._output(node)
                else:
                    self.values[node] = self._call(node)
            except Unsupported as error:
                self.problems.append(Problem(self._path(node), error.what, error.suggestion, line_of(node)))
                self.values[node] = "x"

    def _path(self, node: torch.fx.Node) -> str:
        return str(node.target)[len("module."):] if node.op in ("call_module", "get_attr") and node.target != "module" else "forward"

    # --- emitting ---

    def emit(self, name: str, layer: Layer, inputs: list[str], prefix: Optional[str] = None) -> str:
        name = "".join(one if one.isalnum() or one in "._-" else "_" for one in name) or layer.type.lower()
        unique, count = name, 2
        while unique in self.names:
            unique, count = f"{name}_{count}", count + 1
        self.names.add(unique)
        entry: dict[str, Any] = {"name": unique, "type": layer.type}
        if layer.args:
            entry["args"] = layer.args
        if inputs != [self.layers[-1]["name"] if self.layers else "x"]:
            entry["inputs"] = inputs
        prefix = f"{name}." if prefix is None else prefix
        if layer.tensors and prefix != f"{unique}.":
            entry["prefix"] = prefix
        if layer.edge_weight:
            entry["edge_weight"] = True
        self.layers.append(entry)
        for tensor, value in layer.tensors.items():
            self.weights[prefix + tensor] = value.detach()
        return unique

    def input(self, node: Any) -> str:
        if not isinstance(node, torch.fx.Node):
            raise Unsupported(f"a constant {node!r} in place of a tensor", "fold it into the weights of a Linear")
        value = self.values[node]
        if value in ("edge_index", "edge_weight", "edge_attr", "batch", "graph"):
            raise Unsupported(f"computes with {value}", "layers take the graph as it was uploaded: change it before the upload")
        return value

    # --- calls ---

    def _call(self, node: torch.fx.Node) -> str:
        if node.op == "call_module":
            return self._module(node)
        if node.op == "get_attr":
            raise Unsupported(f"uses the tensor {self._path(node)} directly", "put it into a Linear or another module")
        target = node.target
        final = _FINAL.get(target)  # type: ignore[arg-type]
        if final and self._ends(node):
            return self._drop(node, final)
        if target in _ACTIVATIONS:
            return self._activation(node, _ACTIVATIONS[target])
        if target in _SUMS:
            self._no_scale(node)
            return self.emit(node.name, Layer("Add"), [self.input(one) for one in self._arguments(node)[:2]])
        if target in _CONCATENATIONS:
            return self._concatenate(node)
        if target in (torch.max, torch.maximum) and len(node.args) == 2 and isinstance(node.args[1], torch.fx.Node):
            return self.emit(node.name, Layer("JumpingKnowledge", {"mode": "max"}), [self.input(one) for one in node.args])
        if target in _NOTHING:
            return self.input(node.args[0])
        if target is F.normalize:
            return self._normalize(node)
        if getattr(target, "__name__", "") in POOLS:
            return self._pool(node, target.__name__)  # type: ignore[union-attr]
        if target in ("flatten", "mean", "squeeze", "view", "reshape", torch.flatten, torch.mean, torch.squeeze):
            return self._heads(node)
        name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        raise Unsupported(f"{name}() has no counterpart", "docs/layers.md lists the layers; activations, +, torch.cat, dropout, "
                          "F.normalize and global pooling may be called as functions")

    @staticmethod
    def _arguments(node: torch.fx.Node) -> list[Any]:
        return [*node.args, *(node.kwargs[name] for name in ("other",) if name in node.kwargs)]

    @staticmethod
    def _no_scale(node: torch.fx.Node) -> None:
        if node.kwargs.get("alpha", 1) != 1:
            raise Unsupported(f"torch.add(alpha={node.kwargs['alpha']})", "fold the factor into the weights of a Linear")

    def _ends(self, node: torch.fx.Node) -> bool:
        return all(user.op == "output" for user in node.users)

    def _drop(self, node: torch.fx.Node, final: str) -> str:
        if final == "sigmoid":
            self.multi_label = True
            self.notes.append("the final sigmoid was dropped, and the model is multi_label: ask for probabilities")
        else:
            self.notes.append(f"the final {final} was dropped: the server's logits are its input, and scores are the softmax")
        self.pre_output = node.args[0]
        return self.input(node.args[0])

    def _activation(self, node: torch.fx.Node, kind: str) -> str:
        names = ACTIVATIONS[kind]
        given = dict(zip(names, node.args[1:])) | {name: node.kwargs[name] for name in names if name in node.kwargs}
        return self.emit(node.name, Layer(kind, given), [self.input(node.args[0])])

    def _concatenate(self, node: torch.fx.Node) -> str:
        dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", node.kwargs.get("axis", 0))
        if dim not in (-1, 1):
            raise Unsupported(f"torch.cat(dim={dim})", "columns can be joined: dim=-1")
        parts = node.args[0] if node.args else node.kwargs["tensors"]
        return self.emit(node.name, Layer("JumpingKnowledge", {"mode": "cat"}), [self.input(one) for one in parts])  # type: ignore[union-attr]

    def _normalize(self, node: torch.fx.Node) -> str:
        names = dict(zip(("p", "dim", "eps"), node.args[1:])) | node.kwargs
        if names.get("p", 2) != 2 or names.get("dim", 1) not in (-1, 1):
            raise Unsupported(f"F.normalize({names})", "rows of length 1 in the Euclidean norm: F.normalize(x, dim=-1)")
        return self.emit(node.name, Layer("Normalize"), [self.input(node.args[0])])

    def _pool(self, node: torch.fx.Node, kind: str, prefix: str = "") -> str:
        self.graph_level = True
        return self.emit(prefix or node.name, Layer(kind), [self.input(node.args[0])])

    def _heads(self, node: torch.fx.Node) -> str:
        """After a convolution of DGL: its heads, which the layer has concatenated or averaged already. At the end: one column."""
        source = node.args[0]
        squeezes = node.target in ("squeeze", torch.squeeze)
        if isinstance(source, torch.fx.Node) and self._is_attention(source):
            return self.input(source)
        if squeezes and self._ends(node) and node.args[1:] in ((-1,), (1,)):
            self.notes.append("the final squeeze was dropped: logits have the shape [n, 1]")
            self.pre_output = source
            return self.input(source)
        raise Unsupported(f"{getattr(node.target, '__name__', node.target)}() has no counterpart",
                          "rows keep their shape; mean(1) and flatten(1) may follow DGL's GATConv")

    def _is_attention(self, node: torch.fx.Node) -> bool:
        module = self.modules.get(str(node.target)) if node.op == "call_module" else None
        return module is not None and is_dgl(module) and type(module).__name__ in ATTENTION

    # --- modules ---

    def _module(self, node: torch.fx.Node) -> str:
        module, path = self.modules[str(node.target)], self._path(node)
        final = _FINAL_MODULES.get(type(module).__name__)
        if final and self._ends(node):
            return self._drop(node, final)
        if is_dgl(module):
            return self._dgl(node, module, path)
        if is_ready_made(module):
            return self._ready_made(node, module, "" if path == "forward" else path + ".")
        if is_pyg(module) and type(module).__name__ == "MLP":
            value = self.input(node.args[0])
            for name, child in mlp_parts(module):
                value = self.emit(f"{path}.{name}", activation(child) if name.startswith("act") else self._row(child), [value])
            return value
        layer = pyg_layer(module) if is_pyg(module) else rowwise(module)
        self.graph_level = self.graph_level or layer.type.endswith("Aggregation")
        if layer.type == "JumpingKnowledge":
            return self.emit(path, layer, [self.input(one) for one in node.args[0]])  # type: ignore[union-attr]
        first = node.args[0] if node.args else node.kwargs.get("x")
        if isinstance(first, (tuple, list)):
            raise Unsupported("a pair of inputs: the layer was called on a sampled, bipartite graph",
                              "export the module as called on the whole graph: conv(x, edge_index)")
        layer.edge_weight = self._weighted(node, layer)
        return self.emit(path, layer, [self.input(first)])

    def _row(self, module: Any) -> Layer:
        return pyg_layer(module) if is_pyg(module) else rowwise(module)

    def _weighted(self, node: torch.fx.Node, layer: Layer) -> bool:
        given = [one for one in [*node.args[1:], *node.kwargs.values()] if isinstance(one, torch.fx.Node)]
        weighted = any(self.values[one] == "edge_weight" for one in given)
        if weighted and layer.type not in WEIGHTED:
            raise Unsupported(f"{layer.type} with edge weights", f"edge weights are for {', '.join(WEIGHTED)}")
        featured = any(self.values[one] == "edge_attr" for one in given)
        if featured and not reads_edge_features(layer) and layer.type != "GATConv":  # which ignores them without edge_dim
            raise Unsupported(f"{layer.type} with features of edges", "they are for GINEConv, and with edge_dim for GATConv, GATv2Conv and "
                              "TransformerConv; weights are called edge_weight")
        if reads_edge_features(layer) and not featured:
            raise Unsupported("reads features of edges, but is called without edge_attr", "pass edge_attr, as the data has it")
        strange = [one.name for one in given if self.values[one] not in ("x", "edge_index", "edge_weight", "edge_attr", "batch", "graph")
                   and one is not (node.args[0] if node.args else node.kwargs.get("x"))]
        if strange:
            raise Unsupported(f"is called with {', '.join(strange)}, which forward computes", "layers take the edges as uploaded")
        return weighted

    def _dgl(self, node: torch.fx.Node, module: Any, path: str) -> str:
        if len(node.args) + len(node.kwargs) > 2:
            raise Unsupported("is called with edge weights", "train without edge weights, or use PyTorch Geometric's layers")
        users = list(node.users)
        averages = [user.target in ("mean", torch.mean) for user in users]
        if type(module).__name__ in ATTENTION and not all(self._takes_heads(user) for user in users):
            raise Unsupported("its heads are used as a third dimension", "follow it by flatten(1) or mean(1)")
        value = self.emit(path, dgl_layer(module, self.dgl_graph, not any(averages)), [self.input(node.args[1])])
        act = getattr(module, "activation", None) or getattr(module, "_activation", None)
        return value if act is None else self.emit(f"{path}.activation", activation(act), [value])

    @staticmethod
    def _takes_heads(user: torch.fx.Node) -> bool:
        return user.target in ("flatten", "mean", "squeeze", "view", "reshape", torch.flatten, torch.mean, torch.squeeze)

    def _ready_made(self, node: torch.fx.Node, model: Any, prefix: str) -> str:
        """GCN, GraphSAGE, GIN, GAT and EdgeCNN, as their common forward calls their parts."""
        value, collected = self.input(node.args[0] if node.args else node.kwargs["x"]), []
        for i, conv in enumerate(model.convs):
            layer = pyg_layer(conv)
            layer.edge_weight = self._weighted(node, layer)
            value = self.emit(f"{prefix}convs.{i}", layer, [value])
            if i < model.num_layers - 1 or model.jk_mode is not None:
                steps: list[Callable[[str], str]] = [lambda v, i=i: self._norm(f"{prefix}norms.{i}", model.norms, i, v),
                                                     lambda v, i=i: self._act(f"{prefix}acts.{i}", model.act, v)]
                for step in reversed(steps) if model.act_first else steps:
                    value = step(value)
            collected.append(value)
        if model.jk_mode is not None and hasattr(model, "jk"):
            value = self.emit(f"{prefix}jk", pyg_layer(model.jk), collected)
        return self.emit(f"{prefix}lin", self._row(model.lin), [value]) if hasattr(model, "lin") else value

    def _norm(self, name: str, norms: Any, i: int, value: str) -> str:
        norm = norms[i] if norms is not None else None
        return value if norm is None or isinstance(norm, torch.nn.Identity) else self.emit(name, self._row(norm), [value])

    def _act(self, name: str, act: Any, value: str) -> str:
        return value if act is None else self.emit(name, activation(act), [value])

    # --- the end ---

    def _output(self, node: torch.fx.Node) -> None:
        result = node.args[0]
        if not isinstance(result, torch.fx.Node):
            raise Unsupported(f"forward returns {type(result).__name__}, not one tensor", "return the logits alone; embed returns the others by name")
        value = self.input(result)
        self.pre_output = result if self.pre_output is None else self.pre_output
        if self.layers and value != self.layers[-1]["name"]:
            self.emit("output", Layer("Identity"), [value])
