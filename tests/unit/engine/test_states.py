"""Engines with recurrent states: greedy tokens equal the module's under every treatment of blocks."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.cluster.build import local_cluster
from engine.config import ConfigError, SamplingParams
from engine.connector.offloading import OffloadingConnector
from engine.connector.tiers.tiers import Tiers
from engine.engine import Engine
from engine.model.compiled import compile_model
from engine.model.loader import from_module
from engine.trace.check import check
from engine.trace.operations import Copy, Load, Lookup, Op, Preempt, Release, SwapIn
from tests.hybrid_types import hybrid_model
from tests.quick_tiers import QuickTiers
from tests.unit.engine.answered import BEAMS, Case, answered, config, handed_over, prompts, run, search, serve


@pytest.fixture(scope="module", params=["qwen3_5_text", "lfm2", "jamba"])
def case(request: Any) -> Iterator[Case]:
    yield from answered(hybrid_model(request.param))


def kinds(ops: list[Op]) -> Counter[type]:
    return Counter(map(type, ops))


def hits(ops: list[Op]) -> list[int]:
    return [op.num_hit_tokens for op in ops if isinstance(op, Lookup)]


def test_prefixes_hit_up_to_the_last_cached_state(case: Case, tmp_path: Path) -> None:
    """The last full block of each chunk and of each output has a state, which the second round hits."""
    ops = run(case, tmp_path / "a.kvtrace", num_blocks=128)
    assert hits(ops)[4:6] == [20, 28] and all(hit % 4 == 0 for hit in hits(ops))
    assert hits(ops)[6:] == [20, 8, 28, 4, 20, 32]
    assert {op.reason for op in ops if isinstance(op, Release)} == {"state"}


def test_a_hit_without_a_state_has_the_reason_no_state(case: Case) -> None:
    """The keys of three blocks are cached, and the first cached state follows the fourth block."""
    prompt = prompts()[0]
    with Engine(case.model, config(max_num_batched_tokens=32)) as engine:
        for tokens, expected in ((prompt, "nothing_shared"), ([*prompt[:13], 5, 6, 7], "no_state")):
            engine.add_request(tokens, SamplingParams(max_tokens=1, ignore_eos=True))
            (found,) = [op for op in engine.step().ops if isinstance(op, Lookup)]
            assert (found.reason, found.num_hit_tokens) == (expected, 0)
    assert found.num_shared_tokens == 12


def test_no_prefix_hits_without_prefix_caching(case: Case, tmp_path: Path) -> None:
    assert not any(hits(run(case, tmp_path / "a.kvtrace", enable_prefix_caching=False)))


@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_preempted_sequences_resume_with_the_same_tokens(case: Case, tmp_path: Path, mode: str) -> None:
    ops = run(case, tmp_path / "a.kvtrace", num_blocks=22, preemption_mode=mode)
    assert kinds(ops)[Preempt] > 0
    first = 22  # ids of states follow those of keys
    swapped = [op for op in ops if isinstance(op, SwapIn) and op.block_id >= first]
    assert bool(swapped) == (mode == "swap")
    assert all(op.num_bytes == case.model.facts.state_bytes for op in swapped)


@pytest.mark.parametrize("settings", [{"max_num_batched_tokens": 256}, {"mamba_block_size": 4}, {"block_size": 16}])
def test_chunk_checkpoint_and_block_sizes_change_no_token(case: Case, tmp_path: Path, settings: dict[str, int]) -> None:
    run(case, tmp_path / "a.kvtrace", **settings)


def test_a_fork_copies_its_shared_state(case: Case) -> None:
    with Engine(case.model, config(max_num_seqs=BEAMS)) as engine:
        of_states = engine.block_groups[-1].first_block
        assert any(isinstance(op, Copy) and op.src >= of_states for op in search(engine, case))


def test_states_form_the_last_group_with_its_own_block_size(case: Case) -> None:
    with Engine(case.model, config(num_blocks=32, max_num_seqs=2)) as engine:
        *_, keys, states = engine.block_groups
        assert keys.state_bytes == 0 and keys.layers == list(range(case.model.facts.num_layers))
        assert states.layers == [] and states.first_block == 32 and states.kv_bytes_per_token == 0
        assert states.state_bytes == case.model.facts.state_bytes and states.checkpoint == 16
        # three per sequence, a step's checkpoint (16 tokens) and one more, and 32 · 4 / 16 cached checkpoints
        assert states.num_blocks == 3 * 2 + 1 + 1 + 8
        assert engine._runner.kv_caches[-1].bytes_per_block == states.state_bytes


@pytest.mark.parametrize("strategy", ["contiguous", "first_fit", "none", "concat", "dynamic", "static"])
def test_other_strategies_are_refused(case: Case, strategy: str) -> None:
    with pytest.raises(ConfigError, match="recurrent states requires strategy paged"):
        Engine(case.model, config(strategy=strategy, max_model_len=None))


def test_mamba_block_size_must_be_a_multiple_of_block_size(case: Case) -> None:
    with pytest.raises(ConfigError, match="mamba_block_size must be a multiple of block_size 4, not 6"):
        Engine(case.model, config(mamba_block_size=6))


def test_prefill_and_decode_instances_are_refused(case: Case) -> None:
    """A transfer ends before the last prompt token, and the sender's state is the one after it."""
    with pytest.raises(ConfigError, match="a state cannot be reset by single tokens"):
        local_cluster(case.model, config(prefill=1, decode=1))


def test_mixed_instances_serve_states(case: Case) -> None:
    handed_over(case, mixed=2)


def test_states_are_stored_in_a_tier_and_loaded(case: Case, tmp_path: Path) -> None:
    """A second engine with the same tier loads blocks of the first, including states."""
    tiers = Tiers(cpu_bytes=1 << 26, speeds=QuickTiers())
    settings = config(num_blocks=24, max_num_seqs=2)
    for turn in range(2):
        connector, path = OffloadingConnector(tiers, case.model, settings), tmp_path / f"{turn}.kvtrace"
        with Engine(case.model, settings, connector=connector, log_path=path) as engine:
            ops = serve(engine, case)
            of_states = engine.block_groups[-1].first_block
            loaded = [op for op in ops if isinstance(op, Load) and op.block_id >= of_states]
            assert loaded or turn == 0
            assert all(op.num_bytes == case.model.facts.state_bytes for op in loaded)
        assert not list(check(path))


def test_a_model_with_states_is_not_compiled(case: Case) -> None:
    with pytest.raises(ValueError, match="recurrent states run in parts of a step"):
        compile_model(case.model)


def test_half_precision_states_are_served_one_by_one() -> None:
    """The check against the plain pass compares only few rows that continue from a state."""
    module = hybrid_model("jamba").to(torch.bfloat16)
    states = from_module(module).states
    assert states is not None and states.one_by_one
