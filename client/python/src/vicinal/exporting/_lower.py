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
from vicinal.exporting._calls import ROLES, arguments_of, edge_inputs
from vicinal.exporting._link_predictors import DECODER, only_indexes, takes_ends
from vicinal.exporting._modules import ACTIVATIONS, EMBEDDING, Layer, activation, is_pyg, mlp_parts, pyg_layer, rowwise
from vicinal.exporting._own_messages import input_rows
from vicinal.exporting._result import Problem, Unsupported
from vicinal.exporting._trace import POOLS, is_ready_made, line_of

_ACTIVATIONS = {torch.relu: "ReLU", F.relu: "ReLU", torch.relu_: "ReLU", F.elu: "ELU", F.leaky_relu: "LeakyReLU", torch.sigmoid: "Sigmoid",
                F.sigmoid: "Sigmoid", torch.tanh: "Tanh", F.tanh: "Tanh", "relu": "ReLU", "relu_": "ReLU", "sigmoid": "Sigmoid", "tanh": "Tanh",
                F.relu6: "ReLU6", F.celu: "CELU", F.selu: "SELU", F.gelu: "GELU", F.silu: "SiLU", F.mish: "Mish", F.softplus: "Softplus",
                F.softsign: "Softsign", F.logsigmoid: "LogSigmoid", F.tanhshrink: "Tanhshrink", F.hardtanh: "Hardtanh",
                F.hardsigmoid: "Hardsigmoid", F.hardswish: "Hardswish", F.hardshrink: "Hardshrink", F.softshrink: "Softshrink"}
# Functions of two values: rows of nodes, or rows and a number.
_ARITHMETIC = {operator.add: "add", operator.iadd: "add", torch.add: "add", "add": "add", "add_": "add",
               operator.sub: "sub", operator.isub: "sub", torch.sub: "sub", "sub": "sub", "sub_": "sub",
               operator.mul: "mul", operator.imul: "mul", torch.mul: "mul", torch.multiply: "mul", "mul": "mul", "mul_": "mul",
               operator.truediv: "div", operator.itruediv: "div", torch.div: "div", "div": "div", "div_": "div"}
_NEGATIONS = (operator.neg, torch.neg, "neg")
_OVER_COLUMNS = {F.softmax: "Softmax", torch.softmax: "Softmax", "softmax": "Softmax", F.log_softmax: "LogSoftmax",
                 torch.log_softmax: "LogSoftmax", "log_softmax": "LogSoftmax", F.softmin: "Softmin", F.glu: "GLU"}
# Layers of several inputs, by the names of their arguments.
_PAIRS = {"GCN2Conv": ("x", "x_0"), "FAConv": ("x", "x_0"), "MessageNorm": ("x", "msg")}
_PARTS = (operator.getitem, torch.narrow, torch.split, torch.chunk, torch.select, torch.index_select, torch.masked_select, "narrow", "split",
          "chunk", "select", "index_select", "masked_select")
_CONCATENATIONS = (torch.cat, torch.concat, torch.concatenate)
_NOTHING = (F.dropout, torch.dropout, torch.clone, "clone", "contiguous", "detach", "float", "to", "double")
_FINAL = {F.log_softmax: "log_softmax", torch.log_softmax: "log_softmax", F.softmax: "softmax", torch.softmax: "softmax",
          "log_softmax": "log_softmax", "softmax": "softmax", torch.sigmoid: "sigmoid", F.sigmoid: "sigmoid", "sigmoid": "sigmoid"}
_FINAL_MODULES = {"LogSoftmax": "log_softmax", "Softmax": "softmax", "Sigmoid": "sigmoid"}


class Lowering:
    def __init__(self, root: torch.nn.Module, graph: torch.fx.Graph, dgl_graph: Any, edge_width: int, keep_final: bool = False) -> None:
        """`edge_width`: number of features per edge of the data, 0: none. `keep_final`: a sigmoid or softmax at the end is a layer, as the
        server adds none."""
        self.keep_final = keep_final
        self.modules = dict(root.named_modules())
        self.root, self.edge_width = root, edge_width
        self.constants: dict[torch.fx.Node, float] = {}  # parameters that are one number
        self.dgl_graph = dgl_graph
        self.layers: list[dict[str, Any]] = []
        self.weights: dict[str, torch.Tensor] = {}
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self.left_out: set[int] = set()  # addresses of tensors that a note names already
        self.values: dict[torch.fx.Node, str] = {}
        self.names: set[str] = {"x", "logits", "last_conv_input"}
        self.of_links: set[torch.fx.Node] = set()
        self.multi_label = self.graph_level = False
        self.pre_output: Any = None
        self.nodes = list(graph.nodes)

    def run(self) -> None:
        for node in self.nodes:
            if self.of_links & set(node.all_input_nodes):
                self.of_links.add(node)  # what a decoder of links does is one problem, told already
                continue
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
        if node in self.constants:
            raise Unsupported(f"a number, {self._path(node)}, in place of a tensor", "multiply features of nodes by it")
        value = self.values[node]
        if value in ROLES and value != "unknown":
            raise Unsupported(f"computes with {value}", "layers take the graph as it was uploaded: change it before the upload")
        return value

    # --- calls ---

    def _call(self, node: torch.fx.Node) -> str:
        if node.op == "call_module":
            return self._module(node)
        if node.op == "get_attr":
            return self._own_tensor(node)
        target = node.target
        if takes_ends(node, lambda one: self.values.get(one) in ("edge_index", "unknown") and one.op == "placeholder"):
            self.of_links.add(node)
            raise Unsupported("takes rows of the ends of edges, to score links", DECODER)
        if only_indexes(node) and self.values.get(node.args[0]) in ("edge_index", "unknown"):  # type: ignore[arg-type]
            return "unknown"
        final = _FINAL.get(target)  # type: ignore[arg-type]
        if final and not self.keep_final and self._ends(node):
            return self._drop(node, final)
        if target in _ACTIVATIONS:
            return self._activation(node, _ACTIVATIONS[target])
        if target in _ARITHMETIC:
            return self._arithmetic(node, _ARITHMETIC[target])  # type: ignore[index]
        if target in _NEGATIONS:
            return self._scaled(node, node.args[0], -1.0)
        if target in _OVER_COLUMNS:
            return self._over_columns(node, _OVER_COLUMNS[target])  # type: ignore[index]
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
        if target in _PARTS and node.args and isinstance(node.args[0], torch.fx.Node) and self.values.get(node.args[0]) not in ROLES:
            raise Unsupported(f"{name}() takes a part of a tensor", "columns [:, a:b]: a Linear(width, b - a, bias=False) with the weight "
                              "torch.eye(width)[a:b]; a layer whose output is parted: one layer for each part; rows [a:b]: leave it out, and "
                              "ask for those nodes")
        raise Unsupported(f"{name}() has no counterpart", "docs/layers.md lists the layers; activations, + - * /, torch.cat, dropout, "
                          "F.normalize and global pooling may be called as functions")

    def _own_tensor(self, node: torch.fx.Node) -> str:
        owner = value = self.root
        for name in str(node.target).split("."):
            owner, value = value, getattr(value, name)
        if isinstance(owner, torch.nn.Embedding):
            raise Unsupported(f"uses the embedding {self._path(node)}", EMBEDDING)
        if value.numel() != 1 or not value.is_floating_point():
            raise Unsupported(f"uses the tensor {self._path(node)} directly", "put it into a Linear or another module; a single number may "
                              "be a factor")
        self.constants[node] = float(value.detach())
        return "unknown"

    def _number(self, value: Any) -> Optional[float]:
        if isinstance(value, torch.fx.Node):
            return self.constants.get(value)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def _scaled(self, node: torch.fx.Node, value: Any, factor: float) -> str:
        return self.input(value) if factor == 1 else self.emit(node.name, Layer("Scale", {"factor": factor}), [self.input(value)])

    def _arithmetic(self, node: torch.fx.Node, kind: str) -> str:
        """Sums, products and differences of rows; multiples of them."""
        unknown = set(node.kwargs) - {"other", "alpha"}
        operands = [*node.args, *([node.kwargs["other"]] if "other" in node.kwargs else [])]
        if unknown or len(operands) != 2:
            raise Unsupported(f"{kind}() with {', '.join(sorted(unknown)) or 'other arguments'}", "write it as an operator: + - * /")
        a, b = operands
        number_a, number_b = self._number(a), self._number(b)
        if kind in ("mul", "div") and number_b is not None:
            if kind == "div" and number_b == 0:
                raise Unsupported("divides by 0", "leave it out")
            return self._scaled(node, a, number_b if kind == "mul" else 1 / number_b)
        if kind == "mul" and number_a is not None:
            return self._scaled(node, b, number_a)
        if kind == "mul":
            return self.emit(node.name, Layer("Mul"), [self.input(a), self.input(b)])
        if kind == "div":
            raise Unsupported("a division by a tensor has no counterpart", "divide by a number")
        if kind == "add" and 0 in (number_a, number_b):  # sum() begins so
            return self.input(b if number_a == 0 else a)
        factor = float(node.kwargs.get("alpha", 1)) * (1 if kind == "add" else -1)
        other = self.input(b) if factor == 1 else self.emit(f"{node.name}.scaled", Layer("Scale", {"factor": factor}), [self.input(b)])
        return self.emit(node.name, Layer("Add"), [self.input(a), other])

    def _over_columns(self, node: torch.fx.Node, kind: str) -> str:
        dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", -1 if kind == "GLU" else None)
        if dim not in (-1, 1):
            raise Unsupported(f"{kind}(dim={dim})", "the columns of a row take part: dim=-1")
        return self.emit(node.name, Layer(kind), [self.input(node.args[0])])

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
        if final and not self.keep_final and self._ends(node):
            return self._drop(node, final)
        if is_dgl(module):
            return self._dgl(node, module, path)
        if is_ready_made(module):
            return self._ready_made(node, module, "" if path == "forward" else path + ".")
        given = arguments_of(module, node)
        first = next(iter(given.values()), None)
        if is_pyg(module) and type(module).__name__ == "MLP":
            value = self.input(first)
            for name, child in mlp_parts(module):
                value = self.emit(f"{path}.{name}", activation(child) if name.startswith("act") else self._row(child), [value])
            return value
        layer = self._row(module)
        if layer.type == "MessagePassing":
            return self._own_messages(path, layer, given)
        self.graph_level = self.graph_level or layer.type.endswith("Aggregation")
        if layer.type == "JumpingKnowledge":
            return self.emit(path, layer, [self.input(one) for one in first])  # type: ignore[union-attr]
        if isinstance(first, (tuple, list)):
            raise Unsupported("a pair of inputs: the layer was called on a sampled, bipartite graph",
                              "export the module as called on the whole graph: conv(x, edge_index)")
        rows = _PAIRS.get(layer.type, (next(iter(given), ""),))
        edge_inputs(layer, given, self.values, self.edge_width, rows)
        missing = [name for name in rows if name not in given]
        if missing:
            raise Unsupported(f"is called without {', '.join(missing)}", "compare the call with the layer's documentation")
        return self.emit(path, layer, [self.input(given[name]) for name in rows])

    def _row(self, module: Any) -> Layer:
        return pyg_layer(module) if is_pyg(module) else rowwise(module)

    def _own_messages(self, path: str, layer: Layer, given: dict[str, Any]) -> str:
        flat, rows = input_rows(given, lambda value: self.values[value] not in ROLES or self.values[value] == "unknown")
        edge_inputs(layer, flat, self.values, self.edge_width, rows)
        if layer.left_out:
            self.left_out |= {tensor.data_ptr() for tensor in layer.left_out.values()}
            self.notes.append(f"{path}: not exported, as no expression of vicinal_message names them: {', '.join(layer.left_out)}")
        return self.emit(path, layer, [self.input(flat[name]) for name in rows])

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
        """GCN, GraphSAGE, GIN, GAT, PNA and EdgeCNN, as their common forward calls their parts."""
        given = arguments_of(model, node)
        value, collected = self.input(given["x"]), []
        for i, conv in enumerate(model.convs):
            layer = pyg_layer(conv)
            edge_inputs(layer, given, self.values, self.edge_width, ("x",))
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
