"""Attention backends against the plain formula, on random tensors."""

import importlib.util
import shutil
from collections.abc import Callable, Iterator

import pytest
import torch

from engine.cache.attention_span import WindowPolicy
from engine.cache.kv_store import KVStore, LayerShape
from engine.model import attention_gather
from engine.model.attention_backend import AttentionBackend, AttentionCall, AttentionOutput
from engine.model.attention_gather import GatherAttention
from engine.model.attention_native import NativeAttention
from engine.model.attention_reference import ReferenceAttention
from engine.model.batch import SequenceSlice, SlotTable, StepBatch
from engine.model.native import build_native
from engine.trace.operations import RELEASED
from tests.parity.harness import Blocks

BACKENDS: dict[str, Callable[[], AttentionBackend]] = {"gather": GatherAttention}
if importlib.util.find_spec("triton") is not None:
    from engine.model.attention_triton import TritonAttention

    BACKENDS["triton"] = TritonAttention
if shutil.which("cc") is not None:
    BACKENDS["native"] = lambda: NativeAttention(build_native())
# A kernel that looks every block up does not care whether they follow each other; the gather has a path for it.
LAYOUTS = [("gather", True), *((backend, False) for backend in BACKENDS)]
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
NUM_HEADS = 4
# (start, tokens) of each slice
STEPS = {
    "decode": [(9, 1), (0, 1), (22, 1)],
    "one_decode": [(13, 1)],
    "prefill": [(0, 7), (0, 2)],
    "mixed": [(9, 1), (6, 5), (0, 3), (17, 1)],
}
CALLS = [(None, None, False), (5, None, False), (None, 2.0, False), (4, 3.0, True)]  # window, softcap, sinks
BLOCK_SIZES = (1, 4, 16)


def _steps(block_size: int, contiguous: bool, steps: list[tuple[int, int]]) -> Iterator[SequenceSlice]:
    blocks = Blocks(100, block_size)
    for seq_id, (start, count) in enumerate(steps):
        needed = -(-(start + count) // block_size)
        table = list(range(seq_id * 24, seq_id * 24 + needed)) if contiguous else blocks.table(seq_id, start + count)
        yield SequenceSlice(seq_id, list(range(count)), start, [table], True)


def assert_agrees(found: AttentionOutput, expected: AttentionOutput) -> None:
    """Check that outputs and weights are equal, and of the same keys."""
    torch.testing.assert_close(found.out, expected.out, atol=2e-6, rtol=1e-5)
    assert (found.decode is None) == (expected.decode is None)
    if found.decode is not None and expected.decode is not None:
        assert found.decode.key_starts == expected.decode.key_starts
        torch.testing.assert_close(found.decode.weights, expected.decode.weights, atol=2e-6, rtol=1e-5)
    for one, other in zip(found.prefills, expected.prefills, strict=True):
        assert one.span == other.span and one.key_start == other.key_start
        torch.testing.assert_close(one.weights, other.weights, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("backend", "contiguous"), LAYOUTS)
@pytest.mark.parametrize("step", sorted(STEPS))
@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
@pytest.mark.parametrize(("window", "softcap", "sinks"), CALLS)
def test_agrees_with_the_reference(
    device: str,
    backend: str,
    step: str,
    contiguous: bool,
    num_kv_heads: int,
    window: int | None,
    softcap: float | None,
    sinks: bool,
) -> None:
    """A Latin square covers a third of all combinations: each block size with each step, number of KV heads and kind of
    call.
    """
    square = sorted(STEPS).index(step) + num_kv_heads.bit_length() + CALLS.index((window, softcap, sinks))
    block_size = BLOCK_SIZES[square % len(BLOCK_SIZES)]
    generator = torch.Generator().manual_seed(len(step) + block_size)
    store = KVStore([LayerShape(num_kv_heads, 8, 6)], 100, block_size, torch.float32, torch.device(device))
    for pool in store.pools([0]):
        pool.copy_(torch.randn(pool.shape, generator=generator))
    slices = list(_steps(block_size, contiguous, STEPS[step]))
    batch = StepBatch(slices, SlotTable(block_size, 32), torch.device(device))
    q = torch.randn((batch.num_tokens, NUM_HEADS, 8), generator=generator).to(device)
    extra = torch.randn(NUM_HEADS, generator=generator).to(device) if sinks else None
    call = AttentionCall(0, 0.4, window, softcap, extra)

    expected = ReferenceAttention().forward(call, q, store, batch, True)
    found = BACKENDS[backend]().forward(call, q, store, batch, True)

    assert_agrees(found, expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("step", sorted(STEPS))
@pytest.mark.parametrize(("window", "softcap", "sinks"), [(None, None, False), (9, 2.0, True), (3, None, False)])
def test_agrees_with_the_reference_under_a_policy(
    backend: str, step: str, window: int | None, softcap: float | None, sinks: bool
) -> None:
    """Blocks between the sinks and the window are released; unused slots hold NaN. Each policy meets each kind of call
    and each step, in a Latin square.
    """
    square = sorted(STEPS).index(step) + {None: 0, 9: 1, 3: 2}[window]
    policy = [WindowPolicy(4, 3), WindowPolicy(4), WindowPolicy(1, 2)][square % 3]
    generator = torch.Generator().manual_seed(len(step))
    store = KVStore([LayerShape(2, 8, 6)], 100, 2, torch.float32, torch.device("cpu"))
    slices = []
    for piece in _steps(2, False, STEPS[step]):
        table = list(piece.block_tables[0])
        for logical in range(-(-policy.sinks // 2), max(0, piece.start - (policy.window or 0) + 1) // 2):
            table[logical] = RELEASED
        slices.append(piece._replace(block_tables=[table]))
    held = sorted({i for piece in slices for i in piece.block_tables[0]} - {RELEASED})
    for pool in store.pools([0]):
        pool.fill_(float("nan"))
        pool[held] = torch.randn(pool[held].shape, generator=generator)
    batch = StepBatch(slices, SlotTable(2, 32), torch.device("cpu"), policy)
    q = torch.randn((batch.num_tokens, NUM_HEADS, 8), generator=generator)
    extra = torch.randn(NUM_HEADS, generator=generator) if sinks else None
    call = AttentionCall(0, 0.4, window, softcap, extra)
    expected = ReferenceAttention().forward(call, q, store, batch, True)
    found = BACKENDS[backend]().forward(call, q, store, batch, True)
    assert_agrees(found, expected)


@pytest.mark.parametrize("step", sorted(STEPS))
@pytest.mark.parametrize(("window", "softcap", "sinks"), [(None, None, False), (4, 3.0, True)])
def test_a_prefill_in_pieces_agrees_with_the_reference_and_weights_change_no_output(
    monkeypatch: pytest.MonkeyPatch, step: str, window: int | None, softcap: float | None, sinks: bool
) -> None:
    """Pieces have 2 queries; the last of 5 queries is alone."""
    monkeypatch.setattr(attention_gather, "PIECE", 2)
    generator = torch.Generator().manual_seed(len(step))
    store = KVStore([LayerShape(2, 8, 6)], 100, 4, torch.float32, torch.device("cpu"))
    for pool in store.pools([0]):
        pool.copy_(torch.randn(pool.shape, generator=generator))
    batch = StepBatch(list(_steps(4, False, STEPS[step])), SlotTable(4, 32), torch.device("cpu"))
    q = torch.randn((batch.num_tokens, NUM_HEADS, 8), generator=generator)
    extra = torch.randn(NUM_HEADS, generator=generator) if sinks else None
    call = AttentionCall(0, 0.4, window, softcap, extra)
    expected = ReferenceAttention().forward(call, q, store, batch, True)
    found = GatherAttention().forward(call, q, store, batch, True)
    assert_agrees(found, expected)
    unseen = GatherAttention().forward(call, q, store, batch, False)
    assert torch.equal(unseen.out, found.out)
    assert len(found.prefills) == sum(len(piece.token_ids) > 1 for piece in batch.slices)
    assert {one.span for one in unseen.prefills} <= {one.span for one in found.prefills}


@pytest.mark.skipif("triton" not in BACKENDS, reason="triton is not installed")
def test_a_kernel_that_cannot_be_compiled_is_found_out_before_a_model_needs_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from engine.model import attention_triton

    cpu = torch.device("cpu")
    assert attention_triton.runs.__wrapped__(cpu)

    def fails(*_: object) -> None:
        raise RuntimeError("Failed to find C compiler. Please specify via CC environment variable.")

    monkeypatch.setattr(attention_triton, "_decode", fails)
    assert not attention_triton.runs.__wrapped__(cpu)
    assert "C compiler" in caplog.text


@pytest.mark.skipif("triton" not in BACKENDS, reason="triton is not installed")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("needs_weights", [False, True])
@pytest.mark.parametrize(("window", "sinks"), [(None, False), (1090, True)])
def test_long_sequences_are_split_and_joined(device: str, needs_weights: bool, window: int | None, sinks: bool) -> None:
    """A sequence of 1,100 keys takes two programs per KV head; for one of 40 keys the second has no work."""
    generator = torch.Generator().manual_seed(0)
    store = KVStore([LayerShape(2, 8, 6)], 80, 16, torch.float32, torch.device(device))
    for pool in store.pools([0]):
        pool.copy_(torch.randn(pool.shape, generator=generator))
    blocks = Blocks(80, 16)
    counts = {0: 1100, 1: 40}
    slices = [SequenceSlice(seq, [1], count - 1, [blocks.table(seq, count)], True) for seq, count in counts.items()]
    batch = StepBatch(slices, SlotTable(16, 1200), torch.device(device))
    q = torch.randn((2, NUM_HEADS, 8), generator=generator).to(device)
    extra = torch.randn(NUM_HEADS, generator=generator).to(device) if sinks else None
    call = AttentionCall(0, 0.4, window, None, extra)
    expected = GatherAttention().forward(call, q, store, batch, True)
    found = BACKENDS["triton"]().forward(call, q, store, batch, needs_weights)
    torch.testing.assert_close(found.out, expected.out, atol=2e-6, rtol=1e-5)
    assert (found.decode is not None) == needs_weights
    if found.decode is not None and expected.decode is not None:
        torch.testing.assert_close(found.decode.weights, expected.decode.weights, atol=2e-6, rtol=1e-5)
