"""The comparison of two runs has the first difference and the figures of each."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.lab.change import AbortChange, Change, ConfigChange, RequestChange, TokenChange
from engine.lab.rerun import Rerun
from engine.requests.request_spec import RequestSpec
from engine.trace import codec
from engine.trace.busy_time import step_seconds
from engine.trace.compare import Comparison, compare, same
from engine.trace.figures import peak_held
from engine.trace.log import TraceReader
from engine.trace.operations import Allocate, Choose, Free, Lookup, LookupExternal, Preempt, Release, Sample, Share
from tests.unit.engine.runs import CONFIGS, GREEDY, PROMPTS, log_of, run, tiny_llama

ROOMY = CONFIGS["roomy"]
SAMPLED = SamplingParams(max_tokens=6, ignore_eos=True, temperature=1.0, seed=3)


@pytest.fixture
def original() -> Iterator[Engine]:
    """Run two requests with prompts of 17 and 3 tokens, 12 greedy tokens each, and blocks of 4."""
    with Engine(tiny_llama(), ROOMY) as engine:
        engine.add_requests([RequestSpec(PROMPTS[0], GREEDY, "long"), RequestSpec(PROMPTS[2], GREEDY, "short")])
        while engine.has_unfinished():
            engine.step()
        yield engine


def fork(original: Engine, at: int, change: Change | None) -> Engine:
    """Return a fork of the run, which the caller closes."""
    config = change.config if isinstance(change, ConfigChange) else original.config
    engine = Engine(tiny_llama(), config)
    Rerun(engine, log_of(original), at, change, True).finish()
    return engine


def compare_logs(a: Engine, b: Engine) -> Comparison:
    return compare(log_of(a), log_of(b))


def test_a_run_does_not_differ_from_itself(original: Engine) -> None:
    found = compare_logs(original, original)
    assert (found.first_op, found.first_token, found.settings) == (None, None, [])
    assert found.same_model and found.same_machine
    assert [p.equal_tokens for p in found.sequences] == [12, 12]
    assert found.a == found.b


def test_the_totals_of_a_run_are_counted(original: Engine) -> None:
    """The first step computes both prompts, of 17 and 3 tokens, and each of the next 11 one token of each sequence."""
    found = compare_logs(original, original).a
    log = log_of(original)
    totals = found.totals
    assert (totals.num_records, totals.num_steps) == (1 + 12, 12)
    assert totals.output_tokens == 2 * 12
    assert totals.computed_tokens == 17 + 3 + 2 * 11
    # the last token is never written: 17 + 11 = 28 slots are 7 blocks of 4, and 3 + 11 = 14 slots are 4
    assert totals.blocks_peak == 7 + 4
    assert totals.bytes_peak == 11 * 4 * log.header.kv_bytes_per_token
    assert totals.operations["write"] == totals.operations["sample"] == 24 and totals.operations["submit"] == 2
    assert totals.operations["allocate"] == 11 and totals.operations["free"] == 11
    assert (totals.asked_tokens, totals.hit_tokens) == (17 + 3, 0)
    assert (totals.preemptions, totals.evictions, totals.copies, totals.swapped_bytes) == (0, 0, 0, 0)
    times = [step_seconds(log.record(i).timing) for i in range(len(log))]
    assert totals.seconds == pytest.approx(sum(times))
    assert totals.flops == sum(w.flops for i in range(len(log)) if (w := log.record(i).work))
    assert [(p.record, p.step) for p in found.series] == [(i, i) for i in range(1, 13)]
    assert max(p.blocks_held for p in found.series) == totals.blocks_peak


def test_a_peak_within_the_last_step_is_counted() -> None:
    """Prompt and output of 3 and 11 tokens take 3 + 10 = 13 slots. The last step allocates the fourth block of 4."""
    with Engine(tiny_llama(), ROOMY) as engine:
        engine.add_request(PROMPTS[2], msgspec.structs.replace(GREEDY, max_tokens=11))
        while engine.has_unfinished():
            engine.step()
        found = compare_logs(engine, engine).a
        assert max(log_of(engine).record(i).memory.blocks_held for i in range(12)) == 3
        assert found.totals.blocks_peak == found.series[-1].blocks_held == 4
        assert found.series[-1].bytes_held == 4 * 4 * log_of(engine).header.kv_bytes_per_token


@pytest.mark.parametrize("name", ["preempting", "swapping", "sinks and window", "no cache"])
def test_allocated_and_freed_blocks_of_a_record_give_its_held_blocks(name: str) -> None:
    with run(name) as engine:
        log = log_of(engine)
        for i in range(1, len(log)):
            record, before = log.record(i), log.record(i - 1).memory.blocks_held
            freed = sum(1 for op in record.ops if isinstance(op, Free | Release) and op.to is not None)
            allocated = sum(
                1 for op in record.ops if isinstance(op, Allocate) or (isinstance(op, Share) and op.revived)
            )
            after = record.memory.blocks_held
            assert before + allocated - freed == after
            assert max(before, after) <= peak_held(record, after, lambda _: 1) <= before + allocated


def test_the_figures_of_a_sequence_are_counted(original: Engine) -> None:
    found = compare_logs(original, original).sequences[0]
    log, figures = log_of(original), found.a
    assert figures is not None
    times = [step_seconds(log.record(i).timing) for i in range(len(log))]
    assert (found.request_id, found.number, found.member) == ("long", 0, 0)
    assert (figures.status, figures.finish_reason, figures.num_steps, figures.computed_tokens) == (
        "finished", "length", 12, 17 + 11,
    )  # fmt: skip
    assert (figures.blocks, figures.blocks_peak) == (0, 7)
    assert figures.ttft == pytest.approx(times[1]) and figures.ttft_steps == 1
    assert figures.seconds == pytest.approx(sum(times))
    assert [t.token_id for t in figures.tokens] == log.state_now().sequences[0].token_ids[17:]
    assert [(t.record, t.step) for t in figures.tokens] == [(i, i) for i in range(1, 13)]


def test_a_forced_token_is_the_first_difference(original: Engine) -> None:
    """Record 5 samples the fifth token of both sequences. In the fork it is the record of the forced token."""
    with fork(original, 5, TokenChange(seq_id=1, token_id=99)) as other:
        found = compare_logs(original, other)
        op = found.first_op
        assert op is not None
        assert (op.record, op.op, op.kind_a, op.kind_b) == (5, 0, "step", "adjust")
        assert op.a == log_of(original).record(5).ops[0] and isinstance(op.b, Choose) and op.b.token_id == 99
        first = found.first_token
        assert first is not None and first.a is not None and first.b is not None
        assert (first.request_id, first.position) == ("short", 3 + 4)
        assert (first.a.record, first.b.record) == (5, 6)
        assert first.b.token_id == 99 and first.b.chosen and not first.a.chosen
        # the other sequence is equal
        assert [(p.request_id, p.equal_tokens) for p in found.sequences] == [("long", 12), ("short", 4)]
        assert found.sequences[1].difference == first


def test_an_aborted_sequence_differs_where_it_ends(original: Engine) -> None:
    with fork(original, 5, AbortChange(request_id="long")) as other:
        found = compare_logs(original, other)
        assert found.first_token is not None
        assert (found.first_token.position, found.first_token.b) == (17 + 4, None)
        assert found.first_token.a is not None and found.first_token.a.record == 5
        assert found.sequences[0].b is not None and found.sequences[0].b.finish_reason == "abort"


def test_a_shorter_equal_run_does_not_differ(original: Engine) -> None:
    with Engine(tiny_llama(), ROOMY) as other:
        Rerun(other, log_of(original), 5, None, follow=False).finish()
        found = compare_logs(original, other)
        assert found.first_token is None and [p.equal_tokens for p in found.sequences] == [4, 4]
        assert found.first_op is not None
        assert (found.first_op.record, found.first_op.kind_b, found.first_op.b) == (5, None, None)
        assert found.b.totals.unfinished == 2


def test_requests_of_only_one_run_are_unpaired(original: Engine) -> None:
    with fork(original, 5, RequestChange(prompt=[70, 71], sampling=GREEDY, request_id="more")) as other:
        found = compare_logs(original, other)
        assert [(p.request_id, p.a is None, p.b is None) for p in found.sequences] == [
            ("long", False, False),
            ("short", False, False),
            ("more", True, False),
        ]
        assert found.first_token is None and found.first_op is not None and found.first_op.kind_b == "submit"
        assert (found.a.totals.requests, found.b.totals.requests) == (2, 3)


def test_another_block_size_changes_blocks_but_no_token(original: Engine) -> None:
    """28 and 14 slots take 2 blocks and 1 block of 16."""
    with fork(original, 0, ConfigChange(config=msgspec.structs.replace(ROOMY, block_size=16, num_blocks=16))) as other:
        found = compare_logs(original, other)
        assert [(s.name, s.a, s.b) for s in found.settings] == [("block_size", 4, 16), ("num_blocks", 64, 16)]
        assert found.first_token is None
        assert found.first_op is not None and found.first_op.record == 1
        assert (found.a.totals.blocks_peak, found.b.totals.blocks_peak) == (11, 3)
        assert isinstance(found.first_op.a, Lookup | Allocate)


def test_preemptions_and_copies_are_those_of_the_log() -> None:
    with run("preempting") as a, run("swapping") as b:
        found = compare_logs(a, b)
        for engine, figures in ((a, found.a), (b, found.b)):
            log = log_of(engine)
            records = [log.record(i) for i in range(len(log))]
            ops = [op for record in records for op in record.ops]
            assert figures.totals.preemptions == sum(isinstance(op, Preempt) for op in ops) > 0
            assert figures.totals.output_tokens == sum(isinstance(op, Sample) for op in ops)
            assert figures.totals.computed_tokens == sum(len(e.token_ids) for r in records for e in r.batch)
            assert figures.totals.copies > 0
            pairs = [(p.a if engine is a else p.b) for p in found.sequences]
            for sequence in pairs:
                assert sequence is not None
                at_peak = max(
                    len(s.block_tables[0])
                    for i in range(len(log))
                    if (s := log.state_at(i).sequences.get(sequence.seq_id))
                )
                assert sequence.blocks == 0
                if sequence.num_steps:  # a block allocated and freed within a record is in no state between records
                    assert at_peak <= sequence.blocks_peak <= at_peak + 1
                state = log.state_now().sequences[sequence.seq_id]
                before = log.state_at(sequence.submitted_in).sequences[sequence.seq_id].num_preemptions
                assert sequence.num_preemptions == state.num_preemptions - before  # without those before a fork
                assert [t.token_id for t in sequence.tokens] == state.token_ids[state.num_prompt_tokens :]
        assert found.a.totals.swapped_bytes == 0 < found.b.totals.swapped_bytes
        # recomputation instead of swaps
        assert found.a.totals.computed_tokens > found.b.totals.computed_tokens


def test_samples_of_a_request_are_paired_by_number() -> None:
    """Each of the three samples of a request has a different seed and equals its counterpart."""

    def run_samples(config: EngineConfig) -> Engine:
        engine = Engine(tiny_llama(), config)
        engine.add_request(PROMPTS[1], msgspec.structs.replace(SAMPLED, n=3), "r")
        while engine.has_unfinished():
            engine.step()
        return engine

    with run_samples(ROOMY) as a, run_samples(msgspec.structs.replace(ROOMY, block_size=8)) as b:
        found = compare_logs(a, b)
        assert [(p.request_id, p.member, p.equal_tokens) for p in found.sequences] == [("r", i, 6) for i in range(3)]
        assert len({tuple(t.token_id for t in p.a.tokens) for p in found.sequences if p.a}) == 3
        # a fork has its parent's submission, and its first token is of the same step
        assert {p.a.ttft_steps for p in found.sequences if p.a} == {1}


def test_requests_with_the_same_id_are_numbered() -> None:
    with Engine(tiny_llama(), ROOMY) as engine:
        for prompt in (PROMPTS[2], PROMPTS[4]):
            engine.add_request(prompt, GREEDY, "again")
            while engine.has_unfinished():
                engine.step()
        found = compare_logs(engine, engine)
        assert [(p.request_id, p.number) for p in found.sequences] == [("again", 0), ("again", 1)]


def test_outputs_of_different_prompts_are_not_compared() -> None:
    with Engine(tiny_llama(), ROOMY) as a, Engine(tiny_llama(), ROOMY) as b:
        for engine, prompt in ((a, PROMPTS[2]), (b, PROMPTS[4])):
            engine.add_request(prompt, GREEDY, "r")
            while engine.has_unfinished():
                engine.step()
        (pair,) = compare_logs(a, b).sequences
        assert not pair.same_prompt and pair.difference is None and pair.equal_tokens == 0


def test_another_model_or_machine_is_reported(original: Engine, tmp_path: Path) -> None:
    header = log_of(original).header
    replace = msgspec.structs.replace
    other = replace(
        header, model=replace(header.model, vocab_size=99), machine=replace(header.machine, processor="another")
    )
    path = tmp_path / "other.kvtrace"
    path.write_bytes(codec.MAGIC + codec.frame("header", codec.encode(other)))
    with TraceReader(path) as reader:
        found = compare(log_of(original), reader)
    assert not found.same_model and not found.same_machine
    assert found.first_op is not None and (found.first_op.record, found.first_op.kind_b) == (0, None)
    assert all(p.b is None for p in found.sequences)


def test_a_reason_missing_in_one_log_is_no_difference() -> None:
    """Logs of version 0.2 have no reasons."""
    allocation = Allocate(seq_id=0, block_id=3, logical=1, reason="append")
    assert same(allocation, Allocate(seq_id=0, block_id=3, logical=1)) and same([allocation], [allocation])
    assert not same(allocation, Allocate(seq_id=0, block_id=3, logical=1, reason="chunk"))
    assert not same(allocation, Allocate(seq_id=0, block_id=4, logical=1))
    freed = Free(seq_id=0, block_id=3, to="back")
    assert same(freed, Free(seq_id=0, block_id=3, to="back", reason="finish"))
    assert not same(freed, Free(seq_id=0, block_id=3, to="front", reason="finish"))


def test_expected_load_times_are_no_difference() -> None:
    """Expected times depend on the clock, so they differ between equal runs."""
    lookup = LookupExternal(
        seq_id=0, verdict="load", num_tokens=8, num_found_tokens=8, media=["disk", "disk"],
        load_seconds=0.01, compute_seconds=0.02,
    )  # fmt: skip
    assert same(lookup, replace(lookup, load_seconds=0.5, compute_seconds=None))
    assert not same(lookup, replace(lookup, media=["cpu", "disk"]))
    assert not same(lookup, replace(lookup, verdict="compute"))
