"""Each preset shows what its sentence promises, and the three strategies differ in work and memory alone."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import msgspec
import pytest

from app.scenes.presets import PRESETS
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.trace.events import RELEASED, Admit, Allocate, Copy, Finish, Fork, Lookup, Preempt
from engine.trace.records import StepRecord


class Ran(NamedTuple):
    """A run to its end: its records and what each request wrote."""

    records: list[StepRecord]
    texts: list[list[int]]
    waste: list[int]  # after each record: the most slots that one sequence holds empty
    held: list[list[int]]  # after each record: blocks in tables, for each group of layers

    def ops(self, kind: type) -> list[tuple[int, object]]:
        return [(r.index, op) for r in self.records for op in r.ops if isinstance(op, kind)]


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model("bundled")


def run(model: LoadedModel, preset_id: str, **config: object) -> Ran:
    """The preset as the page plays it; `config` changes some of its settings."""
    preset = next(p for p in PRESETS if p.id == preset_id)
    settings = msgspec.convert({**preset.config, **config}, EngineConfig)
    sampling = msgspec.convert(preset.sampling, SamplingParams)
    with Engine(model, settings, keep_log=False) as engine:
        requests = [engine.add_request(prompt, sampling) for prompt in preset.prompts]
        records, waste, in_tables = [], [], []
        while engine.has_unfinished():
            records.append(engine.step())
            now = engine.snapshot()
            held = [
                len(now.block_tables[i][0]) * engine.config.block_size - now.num_computed_tokens[i] for i in now.running
            ]
            waste.append(max(held, default=0))
            groups = range(len(engine.block_groups))
            in_tables.append(
                [sum(b != RELEASED for tables in now.block_tables.values() for b in tables[g]) for g in groups]
            )
        return Ran(records, [r.output_token_ids for r in requests], waste, in_tables)


def test_every_preset_has_a_test_here() -> None:
    assert {p.id for p in PRESETS} == {
        *("moon", "story", "shared-prefix", "samples", "batch", "chunks", "preemption", "hybrid", "long")
    }


@pytest.mark.parametrize(("preset_id", "num_prompt_tokens"), [("moon", 16), ("story", None)])
def test_one_prompt_is_prefilled_at_once_and_decoded_token_by_token(
    model: LoadedModel, preset_id: str, num_prompt_tokens: int | None
) -> None:
    ran = run(model, preset_id)
    first, *others = [r.batch[0] for r in ran.records]
    assert first.phase == "prefill" and first.samples
    assert num_prompt_tokens in (None, len(first.token_ids))
    assert {(e.phase, len(e.token_ids)) for e in others} == {("decode", 1)}
    assert [e.context_len for e in others] == [first.context_len + i for i in range(1, len(ran.records))]


def test_shared_prefix_hits_four_blocks(model: LoadedModel) -> None:
    """16 common tokens are 4 blocks of 4; the second prompt has 24 tokens and computes 8."""
    ran = run(model, "shared-prefix")
    hit = [op for _, op in ran.ops(Lookup) if isinstance(op, Lookup) and op.verdict == "hit"]
    assert [(op.num_hit_tokens, len(op.block_ids)) for op in hit] == [(16, 4)]
    computed = {e.seq_id: len(e.token_ids) for e in ran.records[0].batch}
    assert computed == {0: 24, 1: 8}
    assert run(model, "shared-prefix", enable_prefix_caching=False).texts == ran.texts


def test_the_windowed_layers_of_a_hybrid_hold_three_blocks_however_long_the_poem(model: LoadedModel) -> None:
    """Window 8 in blocks of 4; 16 + 40 - 1 = 55 tokens are 14 blocks where everything is kept."""
    held = run(model, "hybrid").held[:-1]  # at the end of the last step it lets go of everything
    assert max(windowed for _, windowed in held) == 3
    full = [full for full, _ in held]
    assert full == sorted(full) and full[-1] == 14


def test_samples_share_the_prompt_and_copy_on_write(model: LoadedModel) -> None:
    ran = run(model, "samples")
    assert len(ran.ops(Fork)) == 2
    assert ran.ops(Copy), "the prompt's last block is not full, so whoever writes into it first copies it"
    prefills = [e for r in ran.records for e in r.batch if e.phase == "prefill"]
    assert len(prefills) == 1


def test_batch_admits_beside_a_sequence_that_goes_on(model: LoadedModel) -> None:
    ran = run(model, "batch")
    finished = [index for index, _ in ran.ops(Finish)]
    admitted = [index for index, op in ran.ops(Admit)]
    assert len(set(finished)) > 1, "they end at different steps"
    assert admitted[0] == admitted[1] < admitted[2] < admitted[3]
    for index in admitted[2:]:
        assert index - 1 in finished, "the next one is admitted in the step after an end"
        assert {e.phase for e in ran.records[index - ran.records[0].index].batch} == {"prefill", "decode"}
    assert max(len(r.batch) for r in ran.records) == 2
    assert max(ran.waste) <= 3


def test_chunks_leave_a_token_for_the_poem_in_every_step(model: LoadedModel) -> None:
    ran = run(model, "chunks")
    chunked = [r for r in ran.records if any(e.seq_id == 1 and not e.samples for e in r.batch)]
    assert len(chunked) >= 3
    for record in chunked[1:]:
        assert [(e.seq_id, e.phase, len(e.token_ids)) for e in record.batch] == [(0, "decode", 1), (1, "prefill", 15)]
    assert max(sum(len(e.token_ids) for e in r.batch) for r in ran.records) == 16


def test_too_few_blocks_preempt_and_change_no_text(model: LoadedModel) -> None:
    ran = run(model, "preemption")
    preempted = [op for _, op in ran.ops(Preempt) if isinstance(op, Preempt)]
    resumed = [op for _, op in ran.ops(Admit) if isinstance(op, Admit) and op.resumed]
    assert preempted and len(resumed) == len(preempted)
    assert ran.texts == run(model, "preemption", num_blocks=64).texts


def test_the_long_poem_takes_a_block_every_sixteen_steps(model: LoadedModel) -> None:
    """16 + 272 tokens, the last never written: 287 slots are 18 blocks of 16, 17 of them taken while decoding."""
    ran = run(model, "long")
    assert len(ran.texts[0]) == 272
    taken = [r.index for r in ran.records for op in r.ops if isinstance(op, Allocate)]
    assert len(taken) == 18
    assert {b - a for a, b in pairwise(taken[1:])} == {16}
    assert max(ran.waste) <= 15


def test_strategies_agree_on_the_tokens_and_differ_in_work(model: LoadedModel) -> None:
    """n new tokens after p: without a cache n·p + n(n−1)/2 tokens are computed, with one p + n − 1."""
    p, n = 16, 24
    computed: dict[str, int] = {}
    held: dict[str, list[int]] = {}
    texts: dict[str, list[int]] = {}
    for strategy in ("none", "contiguous", "paged"):
        with Engine(model, EngineConfig(strategy=strategy, block_size=4, num_blocks=48), keep_log=False) as engine:
            request = engine.add_request(PRESETS[0].prompts[0], SamplingParams(max_tokens=n, ignore_eos=True))
            computed[strategy], held[strategy] = 0, []
            while engine.has_unfinished():
                record = engine.step()
                computed[strategy] += sum(len(e.token_ids) for e in record.batch)
                held[strategy].append(record.memory.blocks_held * record.memory.block_size)
            texts[strategy] = request.output_token_ids
    assert computed == {"none": n * p + n * (n - 1) // 2, "contiguous": p + n - 1, "paged": p + n - 1}
    assert texts["none"] == texts["contiguous"] == texts["paged"]
    assert set(held["none"]) == {0}, "nothing is kept between steps"
    assert set(held["contiguous"][:-1]) == {4 * 48}, "max_model_len slots from the first step on"
    assert held["paged"][:-1] == [-(-(p + i) // 4) * 4 for i in range(n - 1)]
