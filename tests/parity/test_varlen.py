"""Attention by torch's `varlen_attn`. Its kernel is for GPUs: here torch's own function calls one that does on the CPU
what `varlen_attn` documents, put where FlashAttention 3 puts itself.
"""

from collections.abc import Iterator
from inspect import signature
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

from engine.cache.attention_span import AttentionSpan, WindowPolicy
from engine.cache.kv_store import KVStore, LayerShape
from engine.model.attention_backend import AttentionCall
from engine.model.attention_gather import GatherAttention
from engine.model.attention_reference import ReferenceAttention
from engine.model.attention_varlen import VarlenAttention, activate, reads_block_tables
from engine.model.batch import SequenceSlice, SlotTable, StepBatch
from engine.model.runner import default_backend
from engine.trace.operations import RELEASED
from tests.parity.harness import Blocks

NUM_HEADS, SHAPE = 4, LayerShape(2, 8, 8)
STEPS = {"decode": [(9, 1), (0, 1), (22, 1)], "prefill": [(0, 7), (0, 2)], "mixed": [(9, 1), (6, 5), (0, 3), (17, 1)]}


class Flash:
    """`aten::_flash_attention_forward` on the CPU: FA3's computation with block tables, and its requirements."""

    def __init__(self) -> None:
        self.calls = 0
        self.broken = False  # reads the first block of every sequence twice, and never the second
        self.refuses = False

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, cu_seq_q: Tensor, cu_seq_k: Tensor | None, max_q: int, max_k: int,
        dropout_p: float, is_causal: bool, return_debug_mask: bool, *, scale: float, window_size_left: int,
        window_size_right: int, seqused_k: Tensor, block_table: Tensor, **_: Any,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        self.calls += 1
        if self.refuses:
            raise RuntimeError("block_table is not supported")
        assert q.dtype == k.dtype == v.dtype and q.dtype in (torch.float16, torch.bfloat16)
        assert cu_seq_q.dtype == seqused_k.dtype == block_table.dtype == torch.int32
        assert cu_seq_k is None and dropout_p == 0 and not return_debug_mask
        assert is_causal == ((window_size_left, window_size_right) == (-1, 0)) and window_size_right == 0
        assert block_table.is_contiguous() and k.is_contiguous() and v.is_contiguous() and (block_table >= 0).all()
        begins, group = cu_seq_q.tolist(), q.shape[1] // k.shape[2]
        assert max_q == int(cu_seq_q.diff().max()) and max_k == int(seqused_k.max())
        out = torch.empty_like(q)
        for row, length in enumerate(seqused_k.tolist()):
            table = block_table[row].tolist()
            if self.broken:
                table[1:] = table[:1] * len(table[1:])
            keys, values = (torch.cat([pool[i] for i in table])[:length].double() for pool in (k, v))
            count = begins[row + 1] - begins[row]
            for i in range(count):
                position = length - count + i
                first = 0 if window_size_left < 0 else max(0, position - window_size_left)
                for head in range(q.shape[1]):
                    seen = keys[first : position + 1, head // group]
                    weights = torch.softmax(seen @ q[begins[row] + i, head].double() * scale, 0)
                    out[begins[row] + i, head] = (weights @ values[first : position + 1, head // group]).to(q.dtype)
        empty = torch.empty(0)
        return out, empty, empty, empty, empty


@pytest.fixture
def flash() -> Iterator[Flash]:
    if "block_table" not in signature(varlen_attn).parameters:
        pytest.skip(f"varlen_attn of torch {torch.__version__} takes no block tables")
    kernel = Flash()
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    library.impl("_flash_attention_forward", kernel.forward, "CPU")  # type: ignore[no-untyped-call]
    reads_block_tables.cache_clear()
    yield kernel
    library._destroy()  # type: ignore[no-untyped-call]
    reads_block_tables.cache_clear()


def stored(dtype: torch.dtype, block_size: int, shape: LayerShape = SHAPE) -> KVStore:
    store = KVStore([shape], 100, block_size, dtype, torch.device("cpu"))
    for pool in store.pools([0]):
        pool.copy_(torch.randn(pool.shape, generator=torch.Generator().manual_seed(1)))
    return store


def packed(step: str, block_size: int, policy: WindowPolicy | None = None) -> StepBatch:
    blocks = Blocks(100, block_size)
    slices = [
        SequenceSlice(seq, [0] * count, start, [blocks.table(seq, start + count)], True)
        for seq, (start, count) in enumerate(STEPS[step])
    ]
    return StepBatch(slices, SlotTable(block_size, 32), torch.device("cpu"), policy)


def queries(batch: StepBatch, dtype: torch.dtype) -> Tensor:
    return torch.randn((batch.num_tokens, NUM_HEADS, 8), generator=torch.Generator().manual_seed(2)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("step", sorted(STEPS))
@pytest.mark.parametrize("window", [None, 5])
def test_agrees_with_the_reference(
    flash: Flash, dtype: torch.dtype, block_size: int, step: str, window: int | None
) -> None:
    """A single call covers prefills and decodes, bottom right aligned: a chunk's queries see the earlier tokens."""
    store, batch = stored(dtype, block_size), packed(step, block_size)
    q, call = queries(batch, dtype), AttentionCall(0, 0.4, window, None, None)
    backend = VarlenAttention(GatherAttention())
    expected = ReferenceAttention().forward(call, q, store, batch, False).out
    found = backend.forward(call, q, store, batch, False)
    torch.testing.assert_close(found.out, expected, atol=0.01, rtol=0.01)
    assert found.decode is None and found.prefills == []
    assert flash.calls == 3, "two to find out whether it can, one to do it"
    backend.forward(call, q, store, batch, False)
    assert flash.calls == 4


def test_weights_change_no_output(flash: Flash) -> None:
    """The weights come from the other backend, and the output still from the kernel."""
    store, batch = stored(torch.bfloat16, 4), packed("mixed", 4)
    q, call = queries(batch, torch.bfloat16), AttentionCall(0, 0.4, None, None, None)
    backend = VarlenAttention(GatherAttention())
    plain, watched = (backend.forward(call, q, store, batch, wanted) for wanted in (False, True))
    assert torch.equal(plain.out, watched.out)
    expected = GatherAttention().forward(call, q, store, batch, True)
    assert watched.decode is not None and expected.decode is not None
    assert torch.equal(watched.decode.weights, expected.decode.weights)
    assert [w.span for w in watched.prefills] == batch.prefills


def test_released_blocks_are_never_named(flash: Flash) -> None:
    """A window of 5 over 23 tokens in blocks of 4 sees keys 18..22, so four blocks are released."""
    store = stored(torch.bfloat16, 4)
    table = [RELEASED] * 4 + [7, 8]
    batch = StepBatch([SequenceSlice(0, [0], 22, [table], True)], SlotTable(4, 32), torch.device("cpu"))
    assert batch.step_tables(AttentionSpan(5)).block_tables.tolist() == [[0, 0, 0, 0, 7, 8]]
    q, call = queries(batch, torch.bfloat16), AttentionCall(0, 0.4, 5, None, None)
    found = VarlenAttention(GatherAttention()).forward(call, q, store, batch, False).out
    expected = GatherAttention().forward(call, q, store, batch, False).out
    torch.testing.assert_close(found, expected, atol=0.01, rtol=0.01)


@pytest.mark.parametrize("why", ["softcap", "sinks", "policy", "float32", "quantized", "widths"])
def test_unsupported_shapes_use_another_kernel(flash: Flash, why: str) -> None:
    dtype = torch.float32 if why == "float32" else torch.bfloat16
    shape = LayerShape(2, 8, 6) if why == "widths" else SHAPE
    store = stored(dtype, 4, shape)
    if why == "quantized":
        store = KVStore([shape], 100, 4, "int8", torch.device("cpu"), torch.bfloat16)
    batch = packed("mixed", 4, WindowPolicy(4, 1) if why == "policy" else None)
    sinks = torch.zeros(NUM_HEADS) if why == "sinks" else None
    call = AttentionCall(0, 0.4, None, 2.0 if why == "softcap" else None, sinks)
    q = queries(batch, dtype)
    found = VarlenAttention(GatherAttention()).forward(call, q, store, batch, False)
    assert flash.calls == 0
    assert torch.equal(found.out, GatherAttention().forward(call, q, store, batch, False).out)


@pytest.mark.parametrize("how", ["refuses", "broken"])
def test_a_failed_build_is_not_retried(flash: Flash, how: str) -> None:
    """A refusal or wrong keys are detected on a small step, before any answer depends on it."""
    setattr(flash, how, True)
    store, batch = stored(torch.bfloat16, 4), packed("mixed", 4)
    q, call = queries(batch, torch.bfloat16), AttentionCall(0, 0.4, None, None, None)
    backend = VarlenAttention(GatherAttention())
    for _ in range(2):
        found = backend.forward(call, q, store, batch, False)
        assert torch.equal(found.out, GatherAttention().forward(call, q, store, batch, False).out)
    assert flash.calls == 1


def test_a_gpu_without_the_package_has_the_other_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """The project installs neither flash-attn-3 nor flash-attn-4."""
    for capability in ((9, 0), (10, 0)):
        activate.cache_clear()
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, found=capability: found)
        assert activate(torch.device("cuda")) == ""
        assert not isinstance(default_backend(torch.device("cuda")), VarlenAttention)
    activate.cache_clear()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("window", [None, 5])
def test_on_a_gpu(window: int | None) -> None:
    device = torch.device("cuda")
    if not activate(device) or not reads_block_tables(device, torch.bfloat16, 4, LayerShape(2, 64, 64), 16):
        pytest.skip("torch has no attention by block table here")
    store = KVStore([LayerShape(2, 64, 64)], 100, 16, torch.bfloat16, device)
    for pool in store.pools([0]):
        pool.normal_()
    blocks = Blocks(100, 16)
    slices = [
        SequenceSlice(seq, [0] * count, start, [blocks.table(seq, start + count)], True)
        for seq, (start, count) in enumerate([(300, 1), (100, 80), (0, 50)])
    ]
    batch = StepBatch(slices, SlotTable(16, 512), device)
    q = torch.randn((batch.num_tokens, 4, 64), device=device, dtype=torch.bfloat16)
    call = AttentionCall(0, 0.125, window, None, None)
    found = VarlenAttention(GatherAttention()).forward(call, q, store, batch, False).out
    expected = GatherAttention().forward(call, q, store, batch, False).out
    torch.testing.assert_close(found, expected, atol=0.02, rtol=0.02)
