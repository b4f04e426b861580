"""Selection of rows directly after the last attention, which gives the same logits with fewer products."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.model.compiled import MANY, _export
from engine.model.compiled_forward import ATTEND
from engine.model.early_rows import select_rows_early
from engine.model.loader import from_module
from tests.tiny_models import tiny_model

# including addmm, parallel layers, chunk and layer_norm
BY_ROW = ["llama", "gemma2", "gpt2", "gpt_neox", "phi3", "opt"]
KEEP = torch.tensor([1, 6, 3, 3])


def attend(q: Tensor, k: Tensor, v: Tensor, *_: Any, noted: list[int]) -> Tensor:
    """Replace attention by a causal function in which each token's result depends on its query."""
    noted.clear()
    past = torch.cumsum(v, 0) / torch.arange(1, len(v) + 1)[:, None, None]
    return past.repeat_interleave(q.shape[1] // v.shape[1], 1) * (1 + q.mean(-1, keepdim=True))


def computed(exported: Any, is_early: bool, *inputs: Tensor) -> tuple[Tensor, int]:
    """Return the result of a graph and the largest number of rows of a product after the last attention."""
    graph = torch.fx.GraphModule(program := exported.module(check_guards=False), program.graph)
    graph.graph.set_codegen(torch.fx.graph.CodeGen())
    if is_early:
        assert select_rows_early(graph, ATTEND) > 0
    rows = list[int]()
    for node in graph.graph.nodes:
        if node.target is ATTEND:
            node.target = lambda *arguments: attend(*arguments, noted=rows)
        elif "linear" in str(node.target) or "addmm" in str(node.target):
            node.target = lambda x, *more, product=node.target: _noted(product(x, *more), rows)
    graph.recompile()
    with torch.no_grad():
        return graph(*inputs)[0], max(rows)


def _noted(result: Tensor, rows: list[int]) -> Tensor:
    rows.append(result.shape[-2])
    return result


@pytest.mark.parametrize("family", BY_ROW)
def test_selecting_rows_early_gives_the_same_logits(family: str) -> None:
    (exported,) = _export(from_module(tiny_model(family)), [MANY])
    ids = torch.arange(7)[None]
    (usual, all_rows), (early, kept) = (computed(exported, is_early, ids, ids, KEEP) for is_early in (False, True))
    assert (all_rows, kept) == (7, 4)
    torch.testing.assert_close(early, usual, atol=1e-5, rtol=0)


class _Layer(nn.Module):
    """Attention, followed by an operation and the selection of rows."""

    def __init__(self, operation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.operation = operation

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        heads = x[0].reshape(x.shape[1], 2, 8)
        attended: Tensor = torch.ops.kvtheater.attend(heads, heads, heads, 0, 1.0, None, None, None)
        return self.operation(attended.reshape(1, x.shape[1], 16) + x)[:, keep]


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x.cumsum(1), lambda x: x.softmax(1), lambda x: x.flip(1), lambda x: x - x.mean(1, keepdim=True),
        lambda x: x - x.sum([1, 2], keepdim=True), lambda x: x @ (x.transpose(1, 2) @ x), lambda x: x + x.sum(),
        lambda x: torch.cat([x[:, 1:], x[:, :1]], 1), lambda x: x + x[:, -1:], lambda x: x.reshape(1, 16, -1).mT,
        lambda x: x.reshape(1, 2, -1, 16).reshape(1, -1, 16),
    ],
)  # fmt: skip
def test_operations_that_mix_tokens_prevent_the_early_row_selection(operation: Callable[[Tensor], Tensor]) -> None:
    """Unknown operations count as mixing tokens, and the graph stays unchanged."""
    tokens, kept = torch.export.Dim("tokens", min=4, max=64), torch.export.Dim("kept", min=2, max=64)
    inputs, shapes = (torch.randn(1, 8, 16), KEEP), ({1: 2 * tokens}, {0: kept})
    exported = torch.export.export(_Layer(operation), inputs, dynamic_shapes=shapes, strict=False)
    program = exported.module(check_guards=False)
    before = str(program.graph)
    assert not select_rows_early(program, ATTEND) and str(program.graph) == before
