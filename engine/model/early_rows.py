"""Moves the selection of sampled rows from before the output head to right after the last attention.

    attend -> [T, H * Dv] -> output projection, MLP, norm -> index [K] -> head        as traced
    attend -> index [K]   -> output projection, MLP, norm -> head                     if these operations are by row

The last layer needs only the keys and values of the other tokens.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from engine.model.merge_linears import LINEAR, SLICE
from engine.model.packed_linears import PACKED

aten = torch.ops.aten
INDEX, ASSERT, SIZE = aten.index.Tensor, aten._assert_tensor_metadata.default, aten.sym_size.int
ELEMENTWISE = {aten.to.dtype, aten.dropout.default, operator.getitem}  # in addition to those with torch's tag
PRODUCTS = {LINEAR, PACKED, aten.addmm.default, aten.layer_norm.default}  # over the last dimension
DIM_ARGUMENT: dict[Any, int] = {  # operations along one dimension, and the index of that argument
    SLICE: 1, aten.chunk.default: 2, aten.split.Tensor: 2, aten.sum.dim_IntList: 1, aten.mean.dim: 1,
}  # fmt: skip
SHAPED = {aten.reshape.default, aten.view.default, aten.unsqueeze.default, aten.select.int}


def select_rows_early(program: fx.GraphModule, attend: Any, keep: str = "keep") -> int:
    """Rewrite a graph in place. Return the number of weights that are then multiplied with selected rows only; 0 if the
    graph is unchanged, because some operation after the last `attend` may combine tokens.

    Args:
        attend: the attention operation, with results [T, H, Dv].
        keep: name of the input with the indices of the rows.
    """
    nodes = list(program.graph.nodes)
    rows = next((node for node in nodes if node.op == "placeholder" and node.name == keep), None)
    last = next((node for node in reversed(nodes) if node.target is attend), None)
    if rows is None or last is None or [user.target for user in rows.users] != [INDEX]:
        return 0
    (index,) = rows.users
    left = _needed_by(index.args[0]) - _needed_by(last)
    tail = [node for node in nodes if node in left and _symbolic(node)]
    inputs = list(dict.fromkeys(source for node in tail for source in node.all_input_nodes if source not in tail))
    tokens = str(last.meta["val"].shape[0])
    if not all(_is_by_row(node, tokens) and _is_internal(node, {*tail, index}) for node in tail):
        return 0
    for source in inputs:
        with program.graph.inserting_after(source):
            if isinstance(source.meta.get("val"), torch.SymInt):
                selected = program.graph.call_function(SIZE, (rows, 0))
            elif dims := _symbolic(source):
                selected = program.graph.call_function(INDEX, (source, [*[None] * dims[0], rows]))
            else:
                continue
        for node in tail:
            node.replace_input_with(source, selected)
    index.replace_all_uses_with(index.args[0])
    program.graph.erase_node(index)
    program.recompile()
    return sum(_num_weights(node) for node in tail)


def _needed_by(node: Any) -> set[fx.Node]:
    """Return `node` and all nodes that it depends on."""
    found, open_ends = {node}, [node]
    while open_ends:
        new = set(open_ends.pop().all_input_nodes) - found
        found |= new
        open_ends += new
    return found


def _is_internal(node: fx.Node, inside: set[fx.Node]) -> bool:
    return all(user in inside or user.target is ASSERT for user in node.users)


def _is_by_row(node: fx.Node, tokens: str) -> bool:
    """Return whether each token's part of the result depends only on that token's part of the inputs."""
    target, inputs = node.target, [one for one in node.all_input_nodes if _symbolic(one)]
    for one in (node, *node.all_input_nodes):
        dims = _symbolic(one)
        size = one.meta.get("val") if not dims else _tensor(one).shape[dims[0]]
        if len(dims) > 1 or (isinstance(size, torch.SymInt) and str(size) != tokens):
            return False
    if not _symbolic(node) or not inputs:
        return False
    from_right = {_tensor(one).dim() - _symbolic(one)[0] for one in (node, *inputs)}  # 1: tokens are the last dimension
    if target in SHAPED:
        return all(set(_tensor(one).shape[: _symbolic(one)[0]]) <= {1} for one in (node, *inputs))
    if target in ELEMENTWISE or torch.Tag.pointwise in getattr(target, "tags", ()):
        return len(from_right) == 1
    dim = node.args[DIM_ARGUMENT[target]] if target in DIM_ARGUMENT else -1
    return (target in PRODUCTS or dim in (-1, [-1])) and target in PRODUCTS | DIM_ARGUMENT.keys() and from_right != {1}


def _num_weights(node: fx.Node) -> int:
    if node.target not in (LINEAR, PACKED, aten.addmm.default):
        return 0
    x: Any = node.args[1 if node.target is aten.addmm.default else 0]
    return int(_tensor(x).shape[-1] * _tensor(node).shape[-1])


def _tensor(node: fx.Node) -> Any:
    value = node.meta.get("val")
    return value[0] if isinstance(value, list | tuple) else value


def _symbolic(node: fx.Node) -> list[int]:
    """Return the dimensions of a node's tensor whose size is not a constant."""
    shape = getattr(_tensor(node), "shape", ())
    return [dim for dim, size in enumerate(shape) if isinstance(size, torch.SymInt)]
