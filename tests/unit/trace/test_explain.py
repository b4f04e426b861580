"""Explanations of a run: waits, lookups, preemptions and holders of blocks."""

from pathlib import Path

import pytest

from app.cli import main
from engine.config import EngineConfig
from engine.engine import Engine
from engine.requests.request_spec import RequestSpec
from engine.trace.explain import Timeline, overview, timelines
from engine.trace.log import TraceReader
from engine.trace.operations import Admit, Finish, Lookup, Preempt, Submit
from tests.unit.engine.runs import CONFIGS, GREEDY, PROMPTS, log_of, ops_of, tiny_llama


def run(config: EngineConfig, prompts: list[list[int]], priorities: list[int] | None = None) -> Engine:
    """Run all prompts at once until they finish. The caller closes the engine."""
    engine = Engine(tiny_llama(), config)
    ranks = priorities or [0] * len(prompts)
    engine.add_requests(
        [RequestSpec(p, GREEDY, f"r{i}", rank) for i, (p, rank) in enumerate(zip(prompts, ranks, strict=True))]
    )
    while engine.has_unfinished():
        engine.step()
    return engine


def kinds(timeline: Timeline) -> list[str]:
    return [type(event.op).__name__ for event in timeline.events]


def test_a_wait_has_its_steps_and_reasons() -> None:
    """Each sequence takes 12 steps, one at a time. The second is tried in steps 1 to 12 and admitted in step 13. The
    third is behind it for 12 steps and then tried in 12.
    """
    with run(EngineConfig(block_size=4, num_blocks=32, max_num_seqs=1), [[40, 41, 42], [50], [60, 61]]) as engine:
        first, second, third = timelines(log_of(engine))
    assert kinds(first) == ["Submit", "Lookup", "Admit", "Finish"]
    admitted = [next(m for m in s.events if isinstance(m.op, Admit)) for s in (first, second, third)]
    assert [m.step for m in admitted] == [1, 13, 25]
    waits = [m.wait for m in admitted if m.wait]
    assert [(w.steps, w.behind, w.deferred) for w in waits] == [
        (0, 0, {}),
        (12, 0, {"max_num_seqs": 12}),
        (24, 12, {"max_num_seqs": 12}),
    ]
    assert waits[2].last is not None and (waits[2].last.needed, waits[2].last.available) == (1, 0)


@pytest.mark.parametrize("name", ["roomy", "preempting", "swapping", "no prefix caching"])
def test_recomputed_tokens_are_counted(name: str) -> None:
    """A sequence computes its prompt and all outputs but the last, without the hits of its first admission, and
    recomputes tokens that a preemption dropped.
    """
    with run(CONFIGS[name], PROMPTS) as engine:
        found = overview(log_of(engine))
    for named in found.sequences:
        s = named.figures
        once = len(s.prompt_token_ids) + len(s.tokens) - 1 - s.num_cached_tokens
        assert s.computed_tokens == once + named.recomputed_tokens
    recomputed = sum(named.recomputed_tokens for named in found.sequences)
    assert (recomputed > 0) == (name != "roomy")  # "swapping" has too little CPU memory for all blocks


def test_the_record_with_most_held_blocks_is_explained() -> None:
    """The union of the holders' blocks is the held blocks, and no other record has more."""
    with run(CONFIGS["preempting"], PROMPTS) as engine:
        log = log_of(engine)
        found = overview(log).fullest
        assert found is not None
        held = [log.record(i).memory.blocks_held for i in range(len(log))]
        assert found.memory.blocks_held == max(held) and found.record == held.index(max(held))
        state = log.state_at(found.record)
    tables = {h.seq_id: set(state.sequences[h.seq_id].block_tables[0]) for h in found.holders}
    assert len(set().union(*tables.values())) == max(held)
    for holder in found.holders:
        others = set().union(*(table for seq_id, table in tables.items() if seq_id != holder.seq_id))
        table = tables[holder.seq_id]
        assert (holder.blocks, holder.shared) == (len(table), len(table & others))
    assert any(holder.shared for holder in found.holders)  # PROMPTS share prefixes


def test_a_preemption_has_its_reason_and_recomputed_tokens() -> None:
    """The priority policy preempts the lowest priority, which was not admitted last."""
    config = EngineConfig(
        block_size=4, num_blocks=9, max_model_len=32, scheduling_policy="priority", enable_prefix_caching=False
    )
    with run(config, [PROMPTS[2], PROMPTS[5], [7, 8]], [0, 2, 1]) as engine:
        log = log_of(engine)
        worst = timelines(log)[1]
        preempted = [op for i in range(len(log)) for op in ops_of(log.record(i), Preempt)]
    assert preempted and {op.seq_id for op in preempted} == {1}
    preempt = next(m for m in worst.events if isinstance(m.op, Preempt))
    resume = next(m for m in worst.events if isinstance(m.op, Admit) and m.op.resumed)
    assert isinstance(preempt.op, Preempt) and preempt.op.reason == "worst_priority"
    assert resume.computed_again == preempt.op.num_computed_tokens  # all of them, without a prefix cache
    assert resume.wait is not None and resume.wait.steps == resume.step - preempt.step - 1
    assert isinstance(worst.events[0].op, Submit) and isinstance(worst.events[-1].op, Finish)


def test_the_five_longest_steps_are_listed() -> None:
    with run(CONFIGS["roomy"], PROMPTS) as engine:
        log = log_of(engine)
        found = overview(log)
        records = [log.record(i) for i in range(len(log))]
    seconds = [found_step.seconds for found_step in found.slowest]
    assert seconds == sorted(seconds, reverse=True) and len(seconds) == 5
    for step in found.slowest:
        timing = records[step.record].timing
        assert step.seconds == pytest.approx(timing.schedule + timing.prepare + timing.forward + timing.sample)
        tokens = sum(len(entry.token_ids) for entry in records[step.record].batch)
        assert step.prefill_tokens + step.decode_tokens == tokens


def test_a_request_still_waiting_at_the_end_is_explained() -> None:
    with Engine(tiny_llama(), EngineConfig(block_size=4, num_blocks=32, max_num_seqs=1)) as engine:
        engine.add_requests([RequestSpec(PROMPTS[2], GREEDY, "a"), RequestSpec([50], GREEDY, "b")])
        engine.step()
        engine.step()
        a, b = timelines(log_of(engine))
    assert a.waiting is None and b.waiting is not None
    assert (b.waiting.steps, b.waiting.deferred) == (2, {"max_num_seqs": 2})
    assert not any(isinstance(m.op, Lookup) for m in b.events)


def test_drafts_are_summarized(capsys: pytest.CaptureFixture[str]) -> None:
    """14 verifying passes accept 11 of 30 drafts. Each gives one more token than its accepted drafts: 25 tokens."""
    path = Path("tests/golden/drafts.kvtrace")
    with TraceReader(path) as log:
        found = overview(log).drafts
    assert (found.passes, found.drafted, found.accepted, found.tokens) == (14, 30, 11, 11 + 14)
    line = "speculative decoding: 30 drafts, 11 kept (36.7%); 1.79 tokens in each of 14 verifying passes"
    assert main(["trace", "explain", str(path)]) == 0
    assert line in capsys.readouterr().out.splitlines()
    assert main(["trace", "explain", "tests/golden/forgetting.kvtrace"]) == 0
    assert "speculative" not in capsys.readouterr().out
