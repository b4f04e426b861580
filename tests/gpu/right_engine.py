"""Checks of the engine on the device: its tokens against transformers' `generate`, and under other settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from engine.accounting.memory import stored_bytes_per_token
from engine.config import MAX_POOL_SLOTS, EngineConfig, SamplingParams
from engine.connector.offloading import OffloadingConnector
from engine.connector.tiers.tiers import Tiers
from engine.engine import Engine
from engine.model.capture import CaptureRequest
from engine.model.device import ALLOCATOR, size
from engine.model.errors import ModelError
from engine.model.loaded import LoadedModel
from engine.model.loader import from_module, load_model
from engine.model.shipped import SHIPPED
from tests.gpu.results import Run, Skipped
from tests.gpu.variants import VARIANTS, overrides
from tests.hybrid_types import hybrid_model
from tests.tiny_models import VOCAB_SIZE

PROMPTS = [
    "春江潮水连海平，海上明月共潮生。",
    "床前明月光，",
    "Once upon a time, there was",
    "Who has seen the wind?\n",
]
HYBRID = ("qwen3_5_text", "bamba", "lfm2")  # gated delta rule, selective scan, short convolution
GREEDY = SamplingParams(max_tokens=24, ignore_eos=True)
Outputs = list[list[int]]


def checks(run: Run) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield every check of the engine, in float32, where greedy tokens must be equal."""
    model = load_model(dtype="float32", device=run.device)
    expected = outputs(model, EngineConfig(num_blocks=128, enforce_eager=True))
    settings: dict[str, dict[str, Any]] = {
        "chunks": {"max_num_batched_tokens": 7},
        "a block a token": {"block_size": 1, "num_blocks": 2048},
        "preemption": {"num_blocks": 9},
        "swap": {"num_blocks": 9, "preemption_mode": "swap"},
        "contiguous": {"strategy": "contiguous", "max_model_len": 64},
    }
    yield "tokens of generate", lambda: _generated(run, model, expected)
    for name, given in settings.items():
        yield f"tokens under {name}", lambda more=given: _equal(model, expected, **more)  # type: ignore[misc]
    for name in VARIANTS:
        yield f"tokens with {name}", lambda of=name: _variant(model, expected, of)  # type: ignore[misc]
    yield "tokens while captured", lambda: _equal(model, expected, capture=CaptureRequest())
    for kind in HYBRID:
        yield f"tokens of {kind}", lambda of=kind: _hybrid(run, of)  # type: ignore[misc]
    yield "blocks to CPU memory and back", lambda: _tiers(model, expected)
    yield "blocks bit by bit", lambda: _round_trip(model)
    yield "a pool by the device's memory", lambda: _pool_by_memory(model, expected)
    yield "a pool that does not fit", lambda: _too_large(model)


def outputs(
    model: LoadedModel, config: EngineConfig, capture: CaptureRequest | None = None, connector: Any = None
) -> Outputs:
    """Return the greedy tokens of all prompts, served together."""
    with Engine(model, config, capture=capture, connector=connector, keep_log=capture is not None) as engine:
        requests = [engine.add_request(prompt, GREEDY) for prompt in PROMPTS]
        while engine.has_unfinished():
            engine.step()
        engine.check_integrity()
        return [list(request.outputs[0].output_token_ids) for request in requests]


def _equal(model: LoadedModel, expected: Outputs, capture: CaptureRequest | None = None, **settings: Any) -> str:
    found = outputs(model, EngineConfig(**{"num_blocks": 128, "enforce_eager": True, **settings}), capture)
    return _compared(found, expected)


def _compared(found: Outputs, expected: Outputs) -> str:
    wrong = [index for index, (one, other) in enumerate(zip(found, expected, strict=True)) if one != other]
    if wrong:
        one, other = found[wrong[0]], expected[wrong[0]]
        at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        raise AssertionError(f"prompt {wrong[0]} differs from token {at} on: {one} instead of {other}")
    return f"{sum(map(len, found))} tokens equal"


def _generated(run: Run, model: LoadedModel, expected: Outputs) -> str:
    assert model.tokenizer is not None
    module: Any = AutoModelForCausalLM.from_pretrained(SHIPPED["bundled"].folder, dtype=torch.float32).to(run.device)
    module.generation_config.eos_token_id = None
    found = []
    for prompt in PROMPTS:
        ids = torch.tensor([model.tokenizer.encode(prompt)], device=run.device)
        made = module.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=GREEDY.max_tokens, pad_token_id=0
        )
        found.append(made[0, ids.shape[1] :].tolist())
    return _compared(expected, found)


def _variant(model: LoadedModel, expected: Outputs, name: str) -> str:
    settings, missing = overrides(name)
    if missing:
        raise Skipped(missing)
    return _equal(model, expected, **settings)


def _hybrid(run: Run, kind: str) -> str:
    """Compare a small hybrid model on the device with the same model on the CPU."""
    found = []
    for device in ("cpu", run.device):
        try:
            model = from_module(hybrid_model(kind).to(device))
        except ModelError as error:
            if device == run.device != "cpu":
                raise
            raise Skipped(str(error)) from error  # this version of transformers stores states differently
        config = EngineConfig(num_blocks=64, max_num_batched_tokens=16, num_logprobs=0, enforce_eager=True)
        with Engine(model, config, keep_log=False) as engine:
            prompts = [[3 + (7 * index + 5 * at) % (VOCAB_SIZE - 3) for at in range(23)] for index in range(3)]
            requests = [engine.add_request(prompt, GREEDY) for prompt in prompts]
            while engine.has_unfinished():
                engine.step()
            found.append([list(request.outputs[0].output_token_ids) for request in requests])
    return _compared(found[1], found[0])


def _tiers(model: LoadedModel, expected: Outputs) -> str:
    """Run two engines in sequence: the second must hit the blocks that the first offloaded."""
    config = EngineConfig(num_blocks=128, block_size=4, enforce_eager=True)
    tiers = Tiers(64 << 20, None)
    try:
        for _ in range(2):
            _compared(outputs(model, config, connector=OffloadingConnector(tiers, model, config)), expected)
        return "tokens equal"
    finally:
        tiers.close()


def _pool_by_memory(model: LoadedModel, expected: Outputs) -> str:
    if not ALLOCATOR.has_own_memory(model.device):
        raise Skipped("on a CPU the pool follows from the model")
    config = EngineConfig(enforce_eager=True, gpu_memory_utilization=0.5)
    with Engine(model, config, keep_log=False) as engine:
        room, num_blocks = ALLOCATOR.memory(model.device), engine.config.num_blocks
        if room.free < 0.45 * room.total:
            raise AssertionError(f"half of the memory was to stay free, {size(room.free)} of {size(room.total)} are")
    difference = _compared(outputs(model, config), expected)
    return f"{num_blocks} blocks, {size(room.free)} of {size(room.total)} stay free, {difference}"


def _too_large(model: LoadedModel) -> str:
    """Check that a pool that is too large is refused with one sentence, and that the next engine works."""
    if not ALLOCATOR.has_own_memory(model.device):
        raise Skipped("a CPU hands out memory that it does not have")
    try:
        tokens = ALLOCATOR.memory(model.device).total // stored_bytes_per_token(model.facts, "float32")
        if tokens >= MAX_POOL_SLOTS:
            raise Skipped("the largest pool of a model as small as this fits")
        Engine(model, EngineConfig(block_size=1024, num_blocks=tokens // 1024 + 1), keep_log=False)
    except ModelError as error:
        return f"refused: {error}"
    raise AssertionError(f"it fits: {size(ALLOCATOR.memory(model.device).free)} are left")


def _round_trip(model: LoadedModel) -> str:
    """Check that `take` and `put` of each kind of cache are lossless."""
    from engine.cache.block_tiers import BlockTiers
    from engine.cache.kv_store import KVStore
    from engine.model.loaded import DTYPES

    kinds = ["float32", "bfloat16", "fp8", "int8", "int4"]
    for kind in kinds:
        store = KVStore(model.layer_shapes[:2], 8, 4, DTYPES.get(kind, kind), model.device, model.dtype)
        shape = model.layer_shapes[0]
        slots = torch.arange(32, device=model.device)
        for layer in range(2):
            k = torch.randn((32, shape.num_kv_heads, shape.head_dim), device=model.device)
            store.write(layer, slots, k, k[..., : shape.v_head_dim])
        tiers = BlockTiers(store, [0, 1])
        before = [bytes(content) for content in tiers.read([1, 5])]
        tiers.write([(6, before[0]), (2, before[1])])
        if [bytes(content) for content in tiers.read([6, 2])] != before:
            raise AssertionError(f"blocks of {kind} change on their way to CPU memory and back")
    return ", ".join(kinds)
