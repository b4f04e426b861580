"""Products with packed weights, compiled as the engine compiles them, against float64."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch import Tensor, nn

from engine.model.compiled import OPTIONS
from engine.model.cpu_layout import store_linear_weights_transposed
from engine.model.native import build_native
from engine.model.packed_linears import PACKED, pack_linears


class _Layers(nn.Module):
    """K of one register and of several; 16 and 48 columns; a bias; 40 columns, which fill no panels."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(24, 48, bias=True)
        self.down = nn.Linear(48, 16, bias=False)
        self.odd = nn.Linear(16, 40, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        up = self.up(x)
        part = self.down(torch.cat([x, x], dim=-1))
        return up, part, self.odd(part)


def _graph(layers: nn.Module) -> torch.fx.GraphModule:
    tokens = torch.export.Dim("tokens", min=2, max=1 << 20)
    with torch.no_grad():
        exported = torch.export.export(layers, (torch.randn(1, 6, 24),), dynamic_shapes=({1: tokens},), strict=False)
    program = exported.module(check_guards=False)
    graph = torch.fx.GraphModule(program, program.graph)
    graph.graph.set_codegen(torch.fx.graph.CodeGen())
    return graph


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_every_number_of_rows() -> None:
    """Groups of up to 4, 8, 12 and 16 rows, several of them, and more than are multiplied in panels."""
    if not build_native().multiplies:
        pytest.skip("MKL multiplies on this processor")
    torch.manual_seed(0)
    layers = _Layers().requires_grad_(False)
    store_linear_weights_transposed(layers)
    graph = _graph(layers)
    assert pack_linears(graph) == 2
    assert [node.target for node in graph.graph.nodes].count(PACKED) == 2
    inputs = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    with torch.no_grad():
        compiled = torch._inductor.compile(graph, inputs, options=OPTIONS["cpu"])
    exact = _Layers().double()
    exact.load_state_dict(layers.state_dict())
    for rows in (2, 4, 5, 9, 13, 16, 17, 31, 128, 129):
        x = torch.randn(1, rows, 24)
        with torch.inference_mode():
            for found, expected in zip(compiled(x), exact(x.double()), strict=True):
                torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=2e-6)


def test_the_plain_operation_is_the_same_product() -> None:
    """A graph that is run without a compiler multiplies too."""
    torch.manual_seed(0)
    layers = _Layers().requires_grad_(False)
    store_linear_weights_transposed(layers)
    x = torch.randn(1, 7, 24)
    expected = layers(x)
    graph = _graph(layers)
    pack_linears(graph)
    for found, wanted in zip(graph(x), expected, strict=True):
        torch.testing.assert_close(found, wanted)


def test_a_large_model_is_not_held_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.model.packed_linears.MOST_BYTES", 4 * (24 * 48 + 48 * 16) - 1)
    layers = _Layers().requires_grad_(False)
    store_linear_weights_transposed(layers)
    assert pack_linears(_graph(layers)) == 0
