"""Check the correctness of everything computed on the device.

Attention is compared with the formula in float32 on the CPU over the content of the device's KV store, whole models
with transformers' forward pass of the same module, and the engine's tokens with `generate`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from engine.cache.kv_store import KVStore, LayerShape
from engine.model.attention_backend import AttentionBackend, AttentionCall
from engine.model.attention_gather import GatherAttention
from engine.model.attention_reference import ReferenceAttention
from engine.model.batch import SequenceSlice, SlotTable, StepBatch
from tests.gpu import right_engine, right_features, right_model
from tests.gpu.results import Run, Skipped
from tests.parity.harness import Blocks

# largest |difference| / (1 + |expected|): sums are added in another order, and in half precision outputs are rounded
TOLERANCES = {torch.float32: 2e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}
# (first position, number of tokens) per sequence of a step
STEPS = {
    "decode": [(9, 1), (0, 1), (22, 1)],
    "mixed": [(9, 1), (6, 5), (0, 3), (17, 1)],
    "prefill": [(0, 37), (0, 2)],
    "long": [(4095, 1), (39, 1), (1099, 1)],  # reduced over several splits
}
NUM_BLOCKS = 340  # the longest step needs 328
# layer shapes of production models, followed by head sizes that are no multiple of a tile
SHAPES = {
    "llama": (LayerShape(8, 128, 128), 4),
    "qwen": (LayerShape(8, 128, 128), 2),
    "odd": (LayerShape(2, 80, 48), 3),
}
CALLS = {  # window, softcap, sinks
    "plain": (None, None, False),
    "window": (5, None, False),
    "softcap, sinks": (4, 3.0, True),
}
KINDS: list[str | torch.dtype] = ["fp8", "int8", "int4"]


def run(run: Run) -> None:
    """Run every check, most important first."""
    torch.manual_seed(0)
    kinds = (right_engine.checks, right_features.checks, stores, right_model.checks, attention)
    for name, made in itertools.chain.from_iterable(checks(run) for checks in kinds):
        with run.trying(name):
            began = time.perf_counter()
            run.add(name, "right", made(), seconds=round(time.perf_counter() - began, 2))


Check = tuple[str, Callable[[], str]]


def dtypes(run: Run) -> list[torch.dtype]:
    """Return the dtypes to test. float16 is not tested on CPUs, many of which barely support it."""
    return [torch.float32, torch.bfloat16] if run.device == "cpu" else list(TOLERANCES)


def backend_of(name: str, device: torch.device, shape: LayerShape, heads: int, dtype: torch.dtype) -> AttentionBackend:
    """Return a backend by name.

    Raises:
        Skipped: the backend is unavailable on this device or installation.
    """
    if name == "gather":
        return GatherAttention()
    if name == "native":
        from engine.model.attention_native import NativeAttention
        from engine.model.native import build_native

        if device.type != "cpu" or dtype != torch.float32:
            raise Skipped("the engine's C functions are for float32 on the CPU")
        return NativeAttention(build_native())
    try:
        from engine.model.attention_triton import TritonAttention
    except ImportError as error:
        raise Skipped(str(error)) from error
    if name == "triton":
        return TritonAttention()
    from engine.model.attention_varlen import VarlenAttention, activate, reads_block_tables

    if device.type != "cuda" or not activate(device):
        raise Skipped("torch finds no implementation of varlen_attn that reads block tables")
    if not reads_block_tables(device, dtype, heads, shape, 16):
        raise Skipped(f"varlen_attn does not read block tables of {shape} in {dtype}")
    return VarlenAttention(TritonAttention())


def attention(run: Run) -> Iterator[Check]:
    """Check each backend on each kind of step, with unquantized stores."""
    backends = ("triton", "varlen", "gather", "native")
    shapes = ["odd"] if run.tiny else list(SHAPES)
    steps = {"mixed": STEPS["mixed"]} if run.tiny else STEPS
    for dtype, shape, call, name in itertools.product(dtypes(run), shapes, CALLS, backends):
        label = f"{name}, {str(dtype)[6:]}, {shape} heads, {call}"
        yield label, lambda d=dtype, s=shape, c=call, n=name, at=label: _steps(run, n, d, d, s, c, steps, at)  # type: ignore[misc]


def stores(run: Run) -> Iterator[Check]:
    """Check attention over quantized stores against the formula over the dequantized content."""
    dtype = torch.float32 if run.device == "cpu" else torch.bfloat16
    steps = {"mixed": STEPS["mixed"]}
    for kind, name in itertools.product(KINDS, ("triton", "gather")):
        label = f"{name} over {kind}"
        yield label, lambda k=kind, n=name, at=label: _steps(run, n, dtype, k, "odd", "plain", steps, at)  # type: ignore[misc]


def _steps(
    run: Run,
    name: str,
    dtype: torch.dtype,
    kind: str | torch.dtype,
    shape_name: str,
    call_name: str,
    steps: dict[str, list[tuple[int, int]]],
    label: str,
) -> str:
    """Compare on each step, with and without returned weights; return the largest difference as text.

    Raises:
        AssertionError: a difference exceeds the tolerance; inputs and outputs were written.
    """
    device = torch.device(run.device)
    (shape, group), (window, softcap, has_sinks) = SHAPES[shape_name], CALLS[call_name]
    heads = shape.num_kv_heads * group
    backend, worst = backend_of(name, device, shape, heads, dtype), 0.0
    for step, needs_weights in itertools.product(steps, (False, True)):
        generator = torch.Generator().manual_seed(len(step))
        blocks = Blocks(NUM_BLOCKS, 16)
        slices = [
            SequenceSlice(seq, [0] * count, start, [blocks.table(seq, start + count)], True)
            for seq, (start, count) in enumerate(steps[step])
        ]
        store = KVStore([shape], NUM_BLOCKS, 16, kind, device, dtype)
        slots = torch.arange(NUM_BLOCKS * 16)
        k = torch.randn((len(slots), shape.num_kv_heads, shape.head_dim), generator=generator).to(dtype)
        v = torch.randn((len(slots), shape.num_kv_heads, shape.v_head_dim), generator=generator).to(dtype)
        store.write(0, slots.to(device), k.to(device), v.to(device))
        held = KVStore([shape], NUM_BLOCKS, 16, torch.float32, torch.device("cpu"))
        held.write(0, slots, *(part.float().cpu() for part in store.gather(0, slots.to(device))))
        num_tokens = sum(count for _, count in steps[step])
        q = torch.randn((num_tokens, heads, shape.head_dim), generator=generator).to(dtype)
        sinks = torch.randn(heads, generator=generator).to(dtype) if has_sinks else None
        call = AttentionCall(0, shape.head_dim**-0.5, window, softcap, None)
        on_cpu = call._replace(sinks=None if sinks is None else sinks.float())
        expected = ReferenceAttention().forward(
            on_cpu, q.float(), held, StepBatch(slices, SlotTable(16, 4100), torch.device("cpu")), True
        )
        found = backend.forward(
            call._replace(sinks=None if sinks is None else sinks.to(device)),
            q.to(device),
            store,
            StepBatch(slices, SlotTable(16, 4100), device),
            needs_weights,
        )
        pairs: list[tuple[str, Tensor, Tensor]] = [("out", found.out, expected.out)]
        if needs_weights and found.decode is not None and expected.decode is not None:
            pairs.append(("decode weights", found.decode.weights, expected.decode.weights))
        if needs_weights:
            pairs += [
                ("prefill weights", mine.weights, other.weights)
                for mine, other in zip(found.prefills, expected.prefills, strict=True)
            ]
        for what, mine, other in pairs:
            mine = mine.float().cpu()
            difference = float(((mine - other).abs() / (1 + other.abs())).max())
            if not difference <= TOLERANCES[dtype]:  # NaN too
                inputs = {"q": q, "k": k, "v": v, "found": mine, "expected": other}
                inputs |= {"sinks": sinks} if sinks is not None else {}
                facts = {"step": steps[step], "window": window, "softcap": softcap, "kind": str(kind), "shape": shape}
                run.mismatch(f"{label}, {step}, {what}", inputs, {**facts, "block_tables": blocks.tables})
                raise AssertionError(f"{step}, {what}: off by {difference:.2g}, allowed {TOLERANCES[dtype]:.0e}")
            worst = max(worst, difference)
    return f"off by {worst:.1e}"
