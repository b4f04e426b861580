"""Products with packed weights, eager and compiled, compared with float64."""

import copy
import ctypes
import shutil
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.model import packed_linears
from engine.model.compiled import cpu_options
from engine.model.native import KINDS, LinearKernel, linear_kernel
from engine.model.packed_linears import (
    PACKED,
    PackedEmbedding,
    PackedLinear,
    bytes_per_weight,
    pack_linears,
    packed,
    packed_bytes,
    plain_products,
    unpacked,
)
from tests.tiny_models import tiny_model

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
# Rows on both sides of every change of method: none, few rows, and groups of up to 3, 4, 6, 8, 12 and 16.
ROWS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 31, 128, 129)


class _Layers(nn.Module):
    """Layers with odd widths, 16 and 48 columns, a bias, and 40 columns, which fill no panels."""

    def __init__(self, width: int = 25) -> None:
        super().__init__()
        self.up = nn.Linear(width, 48, bias=True)
        self.down = nn.Linear(2 * width, 16, bias=False)
        self.odd = nn.Linear(16, 40, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        up = self.up(x)
        part = self.down(torch.cat([x, x], dim=-1))
        return up, part, self.odd(part)


def _layers(weights: torch.dtype) -> tuple[nn.Module, nn.Module]:
    """Return packed layers, and the same layers in float64."""
    torch.manual_seed(0)
    layers = _Layers(_width(weights)).requires_grad_(False)
    exact = copy.deepcopy(layers)
    assert pack_linears(layers, weights) == 2
    exact.load_state_dict(layers.state_dict())
    return layers, exact.double()


def _width(weights: torch.dtype) -> int:
    """Return a width for `_Layers`, which is a multiple of 32 for int4."""
    return 96 if weights == torch.uint8 else 25


def _check(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    for one, reference in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), reference, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("weights", KINDS, ids=str)
@pytest.mark.parametrize("rows", ROWS)
def test_products_of_any_number_of_rows_equal_float64(rows: int, weights: torch.dtype) -> None:
    layers, exact = _layers(weights)
    width = _width(weights)
    x = torch.randn(1, rows, width)
    _check(layers(x), exact(x.double()))
    scattered = torch.randn(width, rows).t()
    _check(layers(scattered), exact(scattered.double()))


@pytest.mark.parametrize("weights", KINDS, ids=str)
def test_large_products_do_not_depend_on_the_number_of_threads(weights: torch.dtype) -> None:
    """1024 x 800 weights are enough for several threads. 200 rows are computed in slices of columns and 600 rows in
    several blocks. Sums of floating-point weights do not depend on the other rows either.
    """
    torch.manual_seed(0)
    panels, max_threads = packed(torch.randn(1024, 800), weights), torch.get_num_threads()
    for rows in (1, 3, 20, 200, 300, 600):
        x = torch.randn(rows, 800)
        found = torch.ops.kvtheater.linear(x, panels)
        torch.testing.assert_close(found.double(), x.double() @ unpacked(panels).t().double(), rtol=1e-5, atol=2e-4)
        if rows > 3 and weights.is_floating_point:
            assert torch.equal(found[-4:], torch.ops.kvtheater.linear(x[-4:], panels))
        for threads in (1, 3, 4, max_threads):
            torch.set_num_threads(threads)
            assert torch.equal(found, torch.ops.kvtheater.linear(x, panels))


def test_bfloat16_weights_give_the_sums_of_float32_weights() -> None:
    """Products with bfloat16 weights sum in the order of float32 weights, so every bit is equal."""
    torch.manual_seed(0)
    weight = torch.randn(64, 70).bfloat16().float()
    half = packed(weight, torch.bfloat16)
    assert torch.equal(unpacked(half), weight)
    for rows in ROWS[1:]:
        x = torch.randn(rows, 70)
        assert torch.equal(PACKED(x, half), PACKED(x, packed(weight)))


def test_int8_rounds_within_half_a_step() -> None:
    """A step is the largest number of the column divided by 127. A column of zeros stays zero."""
    torch.manual_seed(0)
    weight = torch.randn(32, 70) * torch.logspace(-3, 3, 32)[:, None]
    weight[5] = 0
    panels = packed(weight, torch.int8)
    step = weight.abs().amax(dim=1, keepdim=True) / 127
    assert panels.shape == (2, 4 + 70, 16) and panels.dtype == torch.int8
    assert ((unpacked(panels) - weight).abs() <= step * 0.5001).all()
    assert torch.equal(unpacked(packed(unpacked(panels), torch.int8))[5], weight[5])


def test_int4_rounds_within_half_a_step() -> None:
    """A step is the largest of 32 numbers divided by 8, rounded to bfloat16. Values of 8 steps are clamped to 7."""
    torch.manual_seed(0)
    weight = torch.randn(32, 96) * torch.logspace(-3, 3, 32)[:, None]
    weight[5, 32:64] = 0
    panels = packed(weight, torch.uint8)
    assert panels.shape == (2, 3 * 18, 16) and panels.dtype == torch.uint8
    groups = weight.view(32, 3, 32)
    step = groups.abs().amax(dim=-1, keepdim=True) / 8
    error = (unpacked(panels).view_as(groups) - groups).abs()
    assert (error <= step * 1.05).all() and ((error <= step * 0.55) | (groups.abs() > step * 7)).all()
    assert torch.equal(unpacked(packed(unpacked(panels), torch.uint8)), unpacked(panels))


def test_rows_without_full_groups_use_int8() -> None:
    layers = nn.Sequential(nn.Linear(32, 16), nn.Linear(48, 16)).requires_grad_(False)
    before = sum(parameter.nbytes for parameter in layers.parameters())
    difference = packed_bytes(layers, torch.uint8)
    assert pack_linears(layers, torch.uint8) == 2
    assert [part.panels.dtype for part in layers] == [torch.uint8, torch.int8]
    assert sum(parameter.nbytes for parameter in layers.parameters()) == before + difference


def test_auto_dtype_is_bfloat16_if_that_is_lossless() -> None:
    layers = _Layers().bfloat16().float().requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in layers.state_dict().items()}
    assert pack_linears(layers) == 2 and layers.up.panels.dtype == torch.bfloat16
    assert all(torch.equal(before[name], tensor) for name, tensor in layers.state_dict().items())
    other = _Layers().bfloat16().float().requires_grad_(False)
    other.down.weight[0, 0] = 0.1  # needs more bits
    assert pack_linears(other) == 2 and other.up.panels.dtype == torch.float32
    assert bytes_per_weight(other, torch.float32) is None
    # 25 * 48 + 50 * 16 weights of 2 bytes, and 16 * 40 weights and 48 biases of 4
    assert bytes_per_weight(layers, torch.float32) == (2 * 2000 + 4 * 688) / 2688


@pytest.mark.parametrize("family", ["llama", "llama_tied"])
@pytest.mark.parametrize("weights", [torch.int8, torch.uint8], ids=str)
def test_logits_and_embeddings_are_rounded_less_than_layers(weights: torch.dtype, family: str) -> None:
    """Embeddings and logits use bfloat16 with int8 layers, and int8 with int4 layers, of the predicted size."""
    module = tiny_model(family).requires_grad_(False)
    before = sum(parameter.nbytes for parameter in module.parameters()) + packed_bytes(module, weights)
    plain = module.model.embed_tokens.weight.clone()
    assert pack_linears(module, weights) == 3 * 7 + 1
    outer = torch.bfloat16 if weights == torch.int8 else torch.int8
    embedding = module.model.embed_tokens
    assert module.lm_head.panels.dtype == embedding.panels.dtype == outer
    assert module.model.layers[0].mlp.up_proj.panels.dtype == weights
    assert sum(parameter.nbytes for parameter in module.parameters()) == before
    assert (embedding.num_embeddings, embedding.embedding_dim) == plain.shape
    ids = torch.tensor([[3, 127, 16, 0]])
    assert torch.equal(embedding(ids), unpacked(packed(plain, outer))[ids])


def test_plain_products_do_not_use_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers of the module are computed without the kernel, and those of other modules with it."""
    layers, exact = _layers(torch.uint8)
    others, _ = _layers(torch.uint8)
    x = torch.randn(1, 5, 96)
    monkeypatch.setattr(LinearKernel, "multiply", lambda *_: torch.zeros(1, 5, 48))
    with plain_products(layers):
        _check(layers(x), exact(x.double()))
        assert torch.equal(others.get_submodule("up")(x)[0, 0], others.get_parameter("up.bias"))
    assert torch.equal(layers.get_submodule("up")(x)[0, 0], layers.get_parameter("up.bias"))


def test_panels_of_another_dtype_are_refused() -> None:
    with pytest.raises(ValueError, match="float64"):
        PACKED(torch.randn(2, 10), packed(torch.randn(16, 10)).double())


class _Kinds(nn.Module):
    """Module with a layer for every kind of weight."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(k, n, bias=b) for k, n, b in ((25, 48, True), (48, 80, False), (80, 64, True), (64, 16, False))
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.slow
def test_compiled_products_equal_float64() -> None:
    torch.manual_seed(0)
    layers = _Kinds().requires_grad_(False)
    for i, kind in enumerate(KINDS):
        weight = layers.get_parameter(f"layers.{i}.weight")
        weight.copy_(unpacked(packed(weight, kind)))
    exact = copy.deepcopy(layers).double()
    for i, kind in enumerate(KINDS):
        plain = layers.layers[i]
        assert isinstance(plain, nn.Linear)
        layers.layers[i] = PackedLinear(nn.Parameter(packed(plain.weight, kind), requires_grad=False), plain.bias)
    tokens = torch.export.Dim("tokens", min=2, max=1 << 20)
    with torch.no_grad():
        exported = torch.export.export(layers, (torch.randn(1, 6, 25),), dynamic_shapes=({1: tokens},), strict=False)
        program = exported.module(check_guards=False)
        graph = torch.fx.GraphModule(program, program.graph)
        graph.graph.set_codegen(torch.fx.graph.CodeGen())
        assert [node.target for node in graph.graph.nodes].count(PACKED) == 4
        inputs = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
        compiled = torch._inductor.compile(graph, inputs, options=cpu_options())
    for rows in ROWS[2:]:
        x = torch.randn(1, rows, 25)
        with torch.inference_mode():
            _check(compiled(x), (exact(x.double()),))


def test_panels_unpack_to_the_weight() -> None:
    """Column 3 of panel 2 is row 2 * 16 + 3."""
    weight = torch.randn(64, 10)
    assert torch.equal(packed(weight)[2, :, 3], weight[35])
    assert torch.equal(unpacked(packed(weight)), weight)


def test_packing_keeps_the_state_dict() -> None:
    """Names, order and content are preserved, so a digest of the weights does not depend on their layout."""
    layers = _Layers()
    before = {name: tensor.clone() for name, tensor in layers.state_dict().items()}
    assert pack_linears(layers) == 2
    after = layers.state_dict()
    assert list(after) == ["up.weight", "up.bias", "down.weight", "odd.weight"] == list(before)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_tied_weight_is_stored_once() -> None:
    """The embedding and the head share their panels after packing."""
    module = tiny_model("llama_tied").requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    count = sum(parameter.numel() for parameter in module.parameters())
    ids = torch.tensor([[3, 127, 16, 0]])
    expected = module(ids).logits
    assert pack_linears(module) == 3 * 7 + 1 and pack_linears(module) == 0
    assert isinstance(module.lm_head, PackedLinear) and isinstance(module.model.embed_tokens, PackedEmbedding)
    assert module.lm_head.panels is module.model.embed_tokens.panels
    assert sum(parameter.numel() for parameter in module.parameters()) == count
    after = module.state_dict()
    assert list(before) == list(after) and all(torch.equal(before[name], after[name]) for name in before)
    assert torch.equal(module.model.embed_tokens(ids), before["lm_head.weight"][ids])
    torch.testing.assert_close(module(ids).logits, expected, rtol=1e-5, atol=5e-6)


def _rows(panels: Tensor, ids: Tensor) -> Tensor | None:
    """Call the C function like compiled code, and return its result, or None after an error."""
    assert linear_kernel() is not None
    torch_c: Any = torch._C._aoti  # type: ignore[attr-defined]
    python, out = ctypes.pythonapi, ctypes.c_void_p()
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    python.PyCapsule_New.restype = ctypes.py_object
    python.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    pointers = torch_c.unsafe_alloc_void_ptrs_from_tensors([panels, ids])
    function = ctypes.CDLL(None).aoti_torch_cpu_rows
    failed = function(*(ctypes.c_void_p(python.PyCapsule_GetPointer(one, None)) for one in pointers), ctypes.byref(out))
    torch_c.alloc_tensors_by_stealing_from_void_ptrs(pointers)  # frees them
    if out.value is None:
        return None
    found: Tensor = torch_c.alloc_tensor_by_stealing_from_void_ptr(python.PyCapsule_New(out, None, None))
    return None if failed else found


@pytest.mark.parametrize("weights", [torch.float32, torch.bfloat16, torch.int8], ids=str)
def test_embedding_rows_are_read_from_the_panels(weights: torch.dtype) -> None:
    """Rows are equal for one id, for two dimensions, and over several cores. An invalid id is an error."""
    panels = packed(torch.randn(64, 50), weights)
    weight = unpacked(panels)
    for ids in (torch.tensor([[63]]), torch.tensor([[0, 16, 17], [63, 1, 0]]), torch.arange(5000) % 64):
        found = _rows(panels, ids)
        assert found is not None and torch.equal(found, weight[ids])
        assert torch.equal(PackedEmbedding(nn.Parameter(panels, requires_grad=False))(ids), weight[ids])
    assert _rows(panels, torch.tensor([3, 64])) is None and _rows(panels, torch.tensor([-1])) is None
    assert _rows(panels, torch.tensor([3], dtype=torch.int32)) is None


def test_rows_of_int4_are_refused() -> None:
    assert _rows(packed(torch.randn(64, 64), torch.uint8), torch.tensor([3])) is None


def test_weights_are_not_packed_without_the_c_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_linears, "linear_kernel", lambda: None)
    layers = _Layers()
    assert pack_linears(layers) == 0 and type(layers.up) is nn.Linear


@pytest.mark.parametrize("wrong", [torch.ones(3, 26), torch.ones(3, 25, dtype=torch.float64), torch.tensor(1.0)])
def test_a_different_width_or_dtype_is_an_error(wrong: Tensor) -> None:
    """Lacking the check, the C function would read past the row or misread its numbers."""
    layers, _ = _layers(torch.float32)
    with pytest.raises(ValueError, match=r"float32 \[\.\.\., 25\]"):
        layers.get_submodule("up")(wrong)
