"""Products with weights packed in panels of 16 columns: a step of few tokens reads each weight once, in order.

    W^T [K, N]   ->   panels [N / 16, K, 16]        `linear_panels` in linear.c; MKL multiplies longer steps

From the plain layout MKL reads each row of W^T from another page, at half of the memory's bandwidth. The panels are a
second copy of the weights, so a model over `MOST_BYTES` goes without.

Compiled code calls the C function directly, by the name of the operation's C shim, without Python or torch's dispatcher
in between.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn

LINEAR = torch.ops.aten.linear.default
PANEL = 16  # columns; LANES in kernels/vectors.h
MOST_BYTES = 1 << 29

torch.library.define("kvtheater::linear", "(Tensor x, Tensor panels, Tensor weight) -> Tensor")


@torch.library.impl("kvtheater::linear", "CPU")
def _linear(x: Tensor, panels: Tensor, weight: Tensor) -> Tensor:
    """x [M, K] times weight [K, N], which `panels` holds too."""
    return x @ weight


@torch.library.register_fake("kvtheater::linear")  # type: ignore[untyped-decorator]
def _linear_shape(x: Tensor, panels: Tensor, weight: Tensor) -> Tensor:
    return x.new_empty((x.shape[0], weight.shape[1]))


PACKED = torch.ops.kvtheater.linear.default
OPTIONS: dict[str, Any] = {
    "aot_inductor.custom_ops_to_c_shims": {
        PACKED: [
            "AOTITorchError aoti_torch_cpu_linear(AtenTensorHandle x, AtenTensorHandle panels, "
            "AtenTensorHandle weight, AtenTensorHandle* out)"
        ]
    }
}


def pack_linears(program: fx.GraphModule) -> int:
    """Replace in place the products of a graph of [1, T, ...] tensors that can be packed; returns how many."""
    graph = program.graph
    nodes: list[Any] = [
        node
        for node in graph.nodes
        if node.op == "call_function" and node.target is LINEAR and _is_packable(program, node)
    ]
    weights = {node.args[1].target: _attribute(program, node.args[1].target) for node in nodes}
    if sum(weight.nbytes for weight in weights.values()) > MOST_BYTES:
        return 0
    for index, node in enumerate(nodes):
        x, name = node.args[0], node.args[1].target
        weight = weights[name].detach().t()  # [K, N]
        width, columns = weight.shape
        panels = weight.reshape(width, columns // PANEL, PANEL).transpose(0, 1).contiguous()
        program.register_buffer(f"panels_{index}", panels)
        program.register_buffer(f"plain_{index}", weight)
        with graph.inserting_before(node):
            constants = [graph.get_attr(f"panels_{index}"), graph.get_attr(f"plain_{index}")]
            rows = graph.call_function(torch.ops.aten.reshape.default, (x, [-1, width]))
            y = graph.call_function(PACKED, (rows, *constants))
            y = graph.call_function(torch.ops.aten.reshape.default, (y, [1, -1, columns]))
            if len(node.args) > 2 and node.args[2] is not None:
                y = graph.call_function(torch.ops.aten.add.Tensor, (y, node.args[2]))
        node.replace_all_uses_with(y)
        graph.erase_node(node)
    graph.eliminate_dead_code()
    program.recompile()
    return len(nodes)


def _is_packable(program: fx.GraphModule, node: fx.Node) -> bool:
    x, weight = node.args[0], node.args[1]
    if not isinstance(x, fx.Node) or not isinstance(weight, fx.Node) or weight.op != "get_attr":
        return False
    shape, found = x.meta["val"].shape, _attribute(program, weight.target)
    return bool(
        len(shape) == 3
        and shape[0] == 1
        and found.dtype == torch.float32
        and found.device.type == "cpu"
        and found.stride(0) == 1
        and found.shape[0] % PANEL == 0
    )


def _attribute(program: nn.Module, name: Any) -> Any:
    owner, _, attribute = str(name).rpartition(".")
    return getattr(program.get_submodule(owner), attribute)
