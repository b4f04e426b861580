"""Merges linear layers with the same input (q, k and v; gate and up) in a traced graph of any model family.

    a = x Wa^T, b = x Wb^T   ->   y = x [Wa; Wb]^T, a = y[..., :n], b = y[..., n:]

One large product takes less time than two small ones. The model's weights become views of the merged weight, so no
weight is stored twice. The merged weight has the layout of its parts: panels (`packed_linears`), that of `cpu_layout`,
or rows on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, fx, nn

from engine.model.native import KINDS
from engine.model.packed_linears import PACKED, PANEL

LINEAR = torch.ops.aten.linear.default
SLICE = torch.ops.aten.slice.Tensor
PLAIN = (torch.float32,)  # dtypes of plain weights and of biases on the CPU


class MergedWeights:
    """Merged weights of a model by the names of their parts, shared by the model's graphs."""

    def __init__(self) -> None:
        self._weights: dict[tuple[str, ...], Tensor] = {}
        self._biases: dict[tuple[str, ...], Tensor] = {}

    def merged(self) -> Iterable[tuple[tuple[str, ...], Tensor]]:
        """Return every merged weight with the names of its parts."""
        return self._weights.items()

    def merged_biases(self) -> Iterable[tuple[tuple[str, ...], Tensor]]:
        """Return every merged bias with the names of its parts."""
        return self._biases.items()

    def bias_of(self, root: nn.Module, names: tuple[str, ...]) -> Tensor:
        """Return a concatenated copy of these biases."""
        if names not in self._biases:
            self._biases[names] = torch.cat([root.get_parameter(name).detach() for name in names])
        return self._biases[names]

    def of(self, root: nn.Module, names: tuple[str, ...]) -> Tensor:
        """Merge the parameters of these names, which become views of the result: panels [N / 16, K, 16], or a plain
        weight [N, K], on the CPU with strides (1, N).
        """
        weight = self._weights.get(names)
        if weight is None:
            parts = [root.get_parameter(name).detach() for name in names]
            by_rows = parts[0].dim() == 3 or parts[0].device.type != "cpu"
            weight = torch.cat(parts) if by_rows else torch.cat([part.t() for part in parts], dim=1).t()
            begin = 0
            for name, part in zip(names, parts, strict=True):
                owner, _, attribute = name.rpartition(".")
                view = weight[begin : begin + part.shape[0]]
                # The parameter is replaced, because another thread may still compute with the old tensor.
                setattr(root.get_submodule(owner), attribute, nn.Parameter(view, requires_grad=False))
                begin += part.shape[0]
            self._weights[names] = weight
        return weight


def merge_linears(program: fx.GraphModule, root: nn.Module, weights: MergedWeights) -> int:
    """Merge linear layers with the same input in a graph of `root`, in place; return the number of saved products."""
    graph = program.graph
    groups: dict[tuple[fx.Node, Any, bool, torch.dtype], list[fx.Node]] = {}
    parameters = dict(root.named_parameters())
    for node in graph.nodes:
        if node.op == "call_function" and node.target in (LINEAR, PACKED) and _is_mergeable(node, parameters):
            dtype = parameters[str(node.args[1].target)].dtype
            groups.setdefault((node.args[0], node.target, _bias(node) is not None, dtype), []).append(node)
    num_removed, replaced = 0, set[str]()
    for (x, product, has_bias, _), nodes in groups.items():
        if len(nodes) < 2:
            continue
        parts: list[Any] = [node.args[1] for node in nodes]
        constants: list[Any] = [constant for node in nodes for constant in node.args[1:]]
        replaced |= {str(constant.target) for constant in constants if constant is not None}
        weight = weights.of(root, tuple(part.target for part in parts))
        arguments = [x, _constant(program, f"merged_weight_{num_removed}", weight, nodes[0])]
        if has_bias:
            biases = weights.bias_of(root, tuple(str(_bias(node).target) for node in nodes))
            arguments.append(_constant(program, f"merged_bias_{num_removed}", biases, nodes[0]))
        with graph.inserting_before(nodes[0]):
            y = graph.call_function(product, tuple(arguments))
        begin = 0
        for node, part in zip(nodes, parts, strict=True):
            end = begin + root.get_parameter(part.target).shape[0] * (PANEL if product is PACKED else 1)
            with graph.inserting_before(node):
                node.replace_all_uses_with(graph.call_function(SLICE, (y, -1, begin, end)))
            graph.erase_node(node)
            begin = end
        num_removed += len(nodes) - 1
    graph.eliminate_dead_code()
    for name in replaced:  # compiled code would retain the old tensors of the graph
        owner, _, attribute = name.rpartition(".")
        delattr(program.get_submodule(owner), attribute)
    program.recompile()
    return num_removed


def _bias(node: fx.Node) -> Any:
    return node.args[2] if len(node.args) > 2 else None


def _is_mergeable(node: fx.Node, parameters: dict[str, nn.Parameter]) -> bool:
    """Return whether weight and bias are parameters that no other node reads, on the CPU in a supported dtype."""
    for constant, dtypes in ((node.args[1], KINDS if node.target is PACKED else PLAIN), (_bias(node), PLAIN)):
        if constant is None:
            continue
        if not isinstance(constant, fx.Node) or constant.op != "get_attr" or len(constant.users) > 1:
            return False
        found = parameters.get(str(constant.target))
        if found is None or (found.device.type == "cpu" and found.dtype not in dtypes):
            return False
    return True


def _constant(program: fx.GraphModule, name: str, value: Tensor, before: fx.Node) -> fx.Node:
    program.register_buffer(name, value)
    with program.graph.inserting_before(before):
        return program.graph.get_attr(name)
