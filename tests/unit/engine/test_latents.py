"""Engines with latent attention: greedy tokens equal the module's under every treatment of blocks."""

import math
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from app.cli.layer_bytes import cache_by_layer
from engine.accounting.memory import kv_bytes_per_token, stored_bytes_per_token
from engine.config import ConfigError
from engine.connector.offloading import OffloadingConnector
from engine.connector.tiers.tiers import Tiers
from engine.engine import Engine
from engine.model.attention_latent import LatentAttention
from engine.model.attention_reference import ReferenceAttention
from engine.model.capture import CaptureRequest
from engine.model.compiled import compile_model
from engine.model.loader import from_module, load_model
from engine.model.recompute import recompute_sequence
from engine.model.runner import ModelRunner
from engine.model.served_check import KINDS, check_kv_cache_dtype
from engine.trace.operations import Copy, Load, Lookup, Op, Preempt, SwapIn
from tests.causal_types import causal_config, causal_model
from tests.hybrid_types import hybrid_model
from tests.quick_tiers import QuickTiers
from tests.tiny_models import tiny_tokenizer
from tests.unit.engine.answered import BEAMS, SAMPLING, Case, answered, config, handed_over, prompts, run, search, serve

COMPRESSED, ROTATED, HEADS, KEY, VALUE = 16, 4, 4, 12, 8  # of every layer of these models


FAMILIES = ["deepseek_v2", "deepseek_v3", "minicpm3", "glm4_moe_lite"]


@pytest.fixture(scope="module", params=FAMILIES)
def case(request: Any) -> Iterator[Case]:
    yield from answered(causal_model(causal_config(request.param)))


def contains(ops: list[Op], kind: type) -> bool:
    return any(isinstance(op, kind) for op in ops)


def test_latents_store_the_compressed_and_rotated_numbers_per_token(case: Case) -> None:
    """A layer stores 16 + 4 numbers per token. Keys and values of four heads would be 4 * (12 + 8)."""
    facts = case.model.facts
    assert (facts.latent_dim, facts.rope_dim) == (COMPRESSED + ROTATED, ROTATED)
    assert (facts.num_kv_heads, facts.head_dim, facts.v_head_dim) == (HEADS, KEY, VALUE)
    for kind in ("auto", "fp8", "int8", "int4"):
        store = ModelRunner(case.model, 8, 4, 32, kind).kv_store
        assert store.bytes_per_token == stored_bytes_per_token(facts, kind)
        assert sum(pool.nbytes for pool in store.pools(range(3))) == 8 * 4 * store.bytes_per_token
    sizes = list[int]()

    def new_pool(shape: tuple[int, ...], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        sizes.append(math.prod(shape))
        return torch.zeros(shape, dtype=dtype, device=device)

    ModelRunner(case.model, 8, 4, 32, new_pool=new_pool)
    assert sizes == [8 * 4 * (COMPRESSED + ROTATED)] * facts.num_layers
    assert stored_bytes_per_token(facts) == facts.num_layers * (COMPRESSED + ROTATED) * 4


def parametrize_families(name: str, *values: object) -> pytest.MarkDecorator:
    """Parametrize over all values and all families, but not over all pairs."""
    count = max(len(values), len(FAMILIES))
    pairs = list(islice(zip(cycle(FAMILIES), cycle(values), strict=False), count))
    return pytest.mark.parametrize(("case", name), pairs, indirect=["case"])


def test_prefix_hits_change_no_token(case: Case, tmp_path: Path) -> None:
    ops = run(case, tmp_path / "a.kvtrace")
    assert any(op.num_hit_tokens for op in ops if isinstance(op, Lookup))


@parametrize_families("settings", {"max_num_batched_tokens": 256}, {"block_size": 16}, {"num_blocks": 128})
def test_chunk_and_block_sizes_change_no_token(case: Case, tmp_path: Path, settings: dict[str, int]) -> None:
    ops = run(case, tmp_path / "a.kvtrace", **settings)
    assert any(op.num_hit_tokens for op in ops if isinstance(op, Lookup))


@parametrize_families("mode", "recompute", "swap")
def test_preempted_sequences_resume_with_the_same_tokens(case: Case, tmp_path: Path, mode: str) -> None:
    ops = run(case, tmp_path / "a.kvtrace", num_blocks=22, preemption_mode=mode)
    assert contains(ops, Preempt) and contains(ops, SwapIn) == (mode == "swap")


@parametrize_families("strategy", "contiguous", "first_fit", "none")
def test_other_pool_layouts_serve_latents(case: Case, tmp_path: Path, strategy: str) -> None:
    run(case, tmp_path / "a.kvtrace", strategy=strategy, num_blocks=96)


@parametrize_families("strategy", "concat", "dynamic", "static")
def test_per_sequence_caches_refuse_latents(case: Case, strategy: str) -> None:
    with pytest.raises(ConfigError, match="caches latents: use strategy paged"):
        Engine(case.model, config(strategy=strategy, max_model_len=None))


def test_a_fork_copies_its_shared_latent_block(case: Case) -> None:
    with Engine(case.model, config(max_num_seqs=BEAMS)) as engine:
        assert contains(search(engine, case), Copy)


def test_latents_are_stored_in_a_tier_and_loaded(case: Case) -> None:
    tiers, settings = Tiers(cpu_bytes=1 << 26, speeds=QuickTiers()), config(num_blocks=24, max_num_seqs=2)
    for turn in range(2):
        with Engine(case.model, settings, connector=OffloadingConnector(tiers, case.model, settings)) as engine:
            assert contains(serve(engine, case), Load) or not turn


@parametrize_families("roles", {"prefill": 1, "decode": 1}, {"mixed": 2})
def test_latents_are_transferred_between_instances(case: Case, roles: dict[str, int]) -> None:
    handed_over(case, **roles)


@pytest.mark.parametrize("kind", KINDS)
def test_attention_over_rounded_latents_equals_the_formula_over_expanded_ones(case: Case, kind: str) -> None:
    check_kv_cache_dtype(case.model, kind)
    assert case.model.differences[kind].is_rounding
    assert isinstance(ModelRunner(case.model, 1, 4, 4).backend, LatentAttention)
    assert isinstance(ModelRunner(case.model, 1, 4, 4, backend=ReferenceAttention()).backend, ReferenceAttention)


def test_latents_are_recorded_as_keys_and_values_per_head(case: Case) -> None:
    """The arrays of all steps equal those of one pass over the sequence."""
    prompt = prompts()[1]
    with Engine(case.model, config()) as engine:
        engine.capture = CaptureRequest(layers=None, heads=list(range(HEADS)), dtype="float32")
        request = engine.add_request(prompt, SAMPLING)
        records = [engine.step() for _ in range(4)]
        assert engine.log is not None
        found = [engine.log.capture(record.index) for record in records]
        steps = [capture.layers for capture in found if capture is not None]
    recomputed = recompute_sequence(case.model, 0, [*prompt, *request.output_token_ids[:3]], None, None)
    for number, expected in enumerate(recomputed.layers):
        k, v = (np.concatenate([getattr(step[number], name) for step in steps]) for name in ("k", "v"))
        assert k.shape == (len(prompt) + 3, HEADS, KEY) and v.shape[-1] == VALUE
        np.testing.assert_allclose(k, expected.k, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(v, expected.v, rtol=1e-4, atol=1e-5)


def test_latent_models_are_not_compiled(case: Case) -> None:
    with pytest.raises(ValueError, match="attention over latents has no compiled form"):
        compile_model(case.model)


@pytest.mark.parametrize("dtype", ["auto", "bfloat16", "int8-weights", "int4-weights"])
def test_latent_models_run_with_reduced_precision_weights(dtype: str, tmp_path: Path) -> None:
    """Linear layers with packed weights are multiplied by rows of float32."""
    settings = {"hidden_size": 64, "kv_lora_rank": 32, "intermediate_size": 96}
    causal_model(causal_config("deepseek_v2", **settings)).bfloat16().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    model = load_model(str(tmp_path), dtype, "cpu")
    assert model.facts.latent_dim == 32 + ROTATED and model.differences["auto"].is_rounding


@pytest.mark.parametrize("family", ["kimi_linear", "bailing_hybrid"])
def test_models_may_have_latent_and_state_layers(family: str) -> None:
    facts = from_module(hybrid_model(family)).facts
    assert facts.latent_dim and facts.state_bytes and "state" in facts.layer_kinds


def test_the_start_reports_the_bytes_of_latents(case: Case) -> None:
    facts = case.model.facts
    text = cache_by_layer(facts, kv_bytes_per_token(facts))
    each, expanded = (facts.num_layers * 4 * numbers for numbers in (20, 4 * 20))
    assert f"keep latents of 20 numbers, {each:,} bytes a token" in text and text.endswith(f"would be {expanded:,}")
