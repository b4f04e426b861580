"""Reruns, which reproduce the records of a log, and forks, which change one input."""

from pathlib import Path

import msgspec
import pytest

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.lab.change import AbortChange, Change, ConfigChange, RequestChange, SamplingChange, TokenChange
from engine.lab.faults import make_engine
from engine.lab.rerun import Rerun, RerunError, RerunMismatch
from engine.model.loader import from_module
from engine.requests.request_spec import RequestError, RequestSpec
from engine.trace import codec
from engine.trace.compare import same
from engine.trace.log import TraceReader, TraceWriter
from engine.trace.operations import Adjust, Allocate, Choose, Sample
from engine.trace.records import Header, StepRecord, Timing
from tests.tiny_models import tiny_model, tiny_tokenizer
from tests.unit.engine.runs import CONFIGS, GREEDY, POLICIES, PROMPTS, log_of, ops_of, run, tiny_llama

ALL = {**CONFIGS, **POLICIES}
SAMPLED = SamplingParams(max_tokens=10, ignore_eos=True, temperature=1.0)


def new_engine(config: EngineConfig) -> Engine:
    return make_engine(tiny_llama(), config)


def settings_of(log: TraceReader) -> EngineConfig:
    return msgspec.convert(log.header.engine, EngineConfig)


def rerun(log: TraceReader, at: int | None = None, change: Change | None = None, follow: bool = True) -> Engine:
    """Return the engine after the rerun. The caller closes it."""
    engine = new_engine(change.config if isinstance(change, ConfigChange) else settings_of(log))
    Rerun(engine, log, len(log) if at is None else at, change, follow).finish()
    return engine


def without_times(log: TraceReader, end: int | None = None) -> list[StepRecord]:
    """Return records without clock readings and capture flags."""
    return [
        msgspec.structs.replace(r, timing=Timing(at=0), has_capture=False)
        for r in (log.record(i) for i in range(len(log) if end is None else end))
    ]


def run_sampled(config: EngineConfig | None = None) -> Engine:
    """Run two sampling requests, one of them with a seed."""
    engine = new_engine(config or ALL["roomy"])
    engine.add_requests(
        [RequestSpec(PROMPTS[0], SAMPLED, "a"), RequestSpec(PROMPTS[2], msgspec.structs.replace(SAMPLED, seed=7), "b")]
    )
    while engine.has_unfinished():
        engine.step()
    return engine


def tokens_of(engine: Engine, seq_id: int) -> list[int]:
    return log_of(engine).state_now().sequences[seq_id].token_ids


# reruns without a change


@pytest.mark.parametrize("name", ALL)
def test_a_rerun_reproduces_every_record(name: str) -> None:
    """The original captures every layer and the rerun none. Captures must not change the records."""
    with run(name) as original, rerun(log_of(original)) as again:
        assert same(without_times(log_of(again)), without_times(log_of(original)))


def test_a_fork_at_any_record_repeats_the_earlier_records() -> None:
    with run("preempting") as original:
        log = log_of(original)
        for at in range(0, len(log) + 1, 5):
            with rerun(log, at, RequestChange(prompt=[70, 71, 72], sampling=GREEDY), follow=False) as fork:
                assert same(without_times(log_of(fork), at), without_times(log, at))
                assert len(log_of(fork)) == at + 1 and log_of(fork).record(at).kind == "submit"


def test_a_fork_without_a_change_equals_the_original() -> None:
    with run("swapping") as original, rerun(log_of(original), 0, None) as again:
        assert same(without_times(log_of(again)), without_times(log_of(original)))


def test_a_rerun_reproduces_an_injected_fault() -> None:
    config = EngineConfig(block_size=4, num_blocks=32, fault="slot_off_by_one")
    with new_engine(config) as original:
        original.add_request(PROMPTS[0], GREEDY)
        while original.has_unfinished():
            original.step()
        with rerun(log_of(original)) as again:
            assert same(without_times(log_of(again)), without_times(log_of(original)))


def test_a_rerun_reproduces_a_fork_of_a_fork() -> None:
    """The log contains changes, so it still determines the run."""
    colder = SamplingChange(request_id="b", sampling={"temperature": 0.0})
    with (
        run_sampled() as original,
        rerun(log_of(original), 4, TokenChange(seq_id=0, token_id=99)) as fork,
        rerun(log_of(fork), 6, colder) as second,
        rerun(log_of(second)) as again,
    ):
        assert same(without_times(log_of(again)), without_times(log_of(second)))


def test_a_rerun_uses_the_logged_forward_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Timing decides whether compiled code serves a step. The log names it, so a rerun does not depend on timing."""
    with new_engine(ALL["roomy"]) as original:
        for prompt in PROMPTS[2:4]:
            original.add_request(prompt, GREEDY)
            while original.has_unfinished():
                original.step()
        log = log_of(original)
        path = tmp_path / "half.kvtrace"
        with open(path, "wb") as file:  # as if compiled code had served the second request
            file.write(codec.MAGIC + codec.frame("header", log.header_bytes))
            for i in range(len(log)):
                record = log.record(i)
                timing = msgspec.structs.replace(record.timing, compiled=i > len(log) // 2)
                file.write(codec.frame("record", codec.encode(msgspec.structs.replace(record, timing=timing))))
        eager_flags = []
        add = Engine.add_requests

        def record_eager(self: Engine, specs: list[RequestSpec], *, eager: bool) -> object:
            eager_flags.append(eager)
            return add(self, specs, eager=eager)

        monkeypatch.setattr(Engine, "add_requests", record_eager)
        with TraceReader(path) as half:
            rerun(half).close()
            rerun(half, 3, None).close()
    assert eager_flags == [True, False, True, False]


# tampered logs


def with_record(log: TraceReader, path: Path, index: int, record: StepRecord) -> TraceReader:
    """Return a copy with valid frames in which `record` replaces record `index`. The state is not checked."""
    with open(path, "wb") as file:
        file.write(codec.MAGIC + codec.frame("header", log.header_bytes))
        for i in range(len(log)):
            file.write(codec.frame("record", codec.encode(record) if i == index else log.record_bytes(i)))
    return TraceReader(path)


def test_a_changed_operation_is_located(tmp_path: Path) -> None:
    with run("preempting") as original:
        log = log_of(original)
        index, place = next(
            (i, p)
            for i in range(10, len(log))
            for p, op in enumerate(log.record(i).ops)
            if isinstance(op, Allocate) and p
        )
        record = log.record(index)
        wrong = msgspec.structs.replace(record.ops[place], block_id=record.ops[place].block_id + 1)  # type: ignore[union-attr]
        ops = [*record.ops[:place], wrong, *record.ops[place + 1 :]]
        changed = msgspec.structs.replace(record, ops=ops)
        with with_record(log, tmp_path / "t", index, changed) as bad, pytest.raises(RerunMismatch) as found:
            rerun(bad)
        assert (found.value.record, found.value.op) == (index, place)
        assert (found.value.logged, found.value.found) == (wrong, record.ops[place])
        text = str(found.value)
        assert f"record {index}, operation {place}" in text and "\n" not in text
        assert f"block_id={wrong.block_id}" in text and f"block_id={record.ops[place].block_id}" in text  # type: ignore[union-attr]


@pytest.mark.parametrize("part", ["outputs", "memory", "batch", "ops"])
def test_outputs_memory_batch_and_operations_are_compared(part: str, tmp_path: Path) -> None:
    with run_sampled() as original:
        log = log_of(original)
        record = log.record(3)
        if part == "outputs":  # the third digit of one log probability
            first = msgspec.structs.replace(record.outputs[0], logprob=record.outputs[0].logprob + 0.001)
            changed = msgspec.structs.replace(record, outputs=[first, *record.outputs[1:]])
        elif part == "memory":
            memory = msgspec.structs.replace(record.memory, tokens_held=record.memory.tokens_held + 1)
            changed = msgspec.structs.replace(record, memory=memory)
        elif part == "batch":
            changed = msgspec.structs.replace(record, batch=record.batch[::-1])
        else:  # the last operation is missing
            changed = msgspec.structs.replace(record, ops=record.ops[:-1])
        with (
            with_record(log, tmp_path / "t", 3, changed) as bad,
            pytest.raises(RerunMismatch, match="record 3") as found,
        ):
            rerun(bad)
        assert found.value.part == part
        # records after the fork are not compared, since they may differ
        with with_record(log, tmp_path / "t", 3, changed) as bad:
            rerun(bad, 3, TokenChange(seq_id=0, token_id=9), follow=False).close()


def test_a_refused_logged_input_is_a_mismatch(tmp_path: Path) -> None:
    with run_sampled() as original:
        log = log_of(original)
        submit = log.record(0).ops[0]
        empty = msgspec.structs.replace(submit, prompt_token_ids=[], prompt_token_bytes=[])
        record = msgspec.structs.replace(log.record(0), ops=[empty])
        with with_record(log, tmp_path / "t", 0, record) as bad, pytest.raises(RerunMismatch, match="record 0, kind"):
            rerun(bad)


def test_another_model_version_or_configuration_is_refused() -> None:
    with run("roomy") as original:
        log = log_of(original)

        def refused(header: Header, same: bool = True) -> str:
            other = TraceWriter(header)
            with new_engine(settings_of(log)) as engine, pytest.raises(RerunError) as found:
                Rerun(engine, other, 0, None if same else ConfigChange(config=ALL["roomy"]), True)
            other.close()
            return str(found.value)

        replace = msgspec.structs.replace
        for same in (True, False):
            assert "hidden_size is 9, here it is " in refused(
                replace(log.header, model=replace(log.header.model, hidden_size=9)), same
            )
            assert "kvtheater 0.0.0" in refused(replace(log.header, generator="kvtheater 0.0.0"), same)
        assert "num_blocks 63" in refused(replace(log.header, engine={**log.header.engine, "num_blocks": 63}))


def test_other_weights_under_the_same_name_are_detected() -> None:
    other = from_module(tiny_model("llama", seed=1), tiny_tokenizer(), "tiny-llama")
    with run_sampled() as original, Engine(other, ALL["roomy"]) as engine, pytest.raises(RerunMismatch):
        Rerun(engine, log_of(original), 5, None, True).finish()


@pytest.mark.parametrize("where", ["execute", "sample"])
def test_a_rerun_refuses_a_log_with_a_failed_step(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_engine(ALL["roomy"]) as original:
        original.add_request(PROMPTS[0], GREEDY)
        original.step()

        def fail(*_: object) -> None:
            raise MemoryError

        with monkeypatch.context() as patched:
            patched.setattr(original._runner if where == "execute" else original._outputs.sampler, where, fail)
            with pytest.raises(MemoryError):
                original.step()
        with pytest.raises(RerunError, match="record 2 the step failed: MemoryError"):
            rerun(log_of(original))
        with new_engine(ALL["roomy"]) as engine:
            again = Rerun(engine, log_of(original), 2, RequestChange(prompt=[70], sampling=GREEDY), True)
            again.finish()
            assert again.left_out == ["record 2 of the original is left out: the step failed: MemoryError"]
            assert len(tokens_of(engine, 0)) == len(PROMPTS[0]) + 12


def test_forks_after_the_end_are_refused() -> None:
    with run("roomy") as original, pytest.raises(RerunError, match="is impossible"):
        rerun(log_of(original), len(log_of(original)) + 1)


# changes


def test_a_chosen_token_is_logged_and_changes_later_tokens() -> None:
    """Following two records, sequence 0 of two greedy requests gets the second most probable token."""
    with new_engine(ALL["roomy"]) as original:
        original.add_requests([RequestSpec(PROMPTS[0], GREEDY), RequestSpec(PROMPTS[2], GREEDY)])
        while original.has_unfinished():
            original.step()
        log = log_of(original)
        (output,) = [o for o in log.record(2).outputs if o.seq_id == 0]
        sampled, other = output.token_id, output.top[1]
        assert sampled == output.top[0].token_id
        with rerun(log, 2, TokenChange(seq_id=0, token_id=other.token_id)) as fork:
            adjust, step = log_of(fork).record(2), log_of(fork).record(3)
            position = len(PROMPTS[0]) + 1
            (choose,) = adjust.ops
            assert adjust.kind == "adjust"
            assert isinstance(choose, Choose)
            assert (choose.seq_id, choose.position, choose.token_id) == (0, position, other.token_id)
            assert log_of(fork).state_at(2).sequences[0].chosen == [[position, other.token_id]]
            assert log_of(fork).state_at(3).sequences[0].chosen == []
            (sample,) = [op for op in ops_of(step, Sample) if op.seq_id == 0]
            assert (sample.token_id, sample.sampled_token_id) == (other.token_id, sampled)
            (instead,) = [o for o in step.outputs if o.seq_id == 0]
            assert instead.logprob == pytest.approx(other.logprob) and same(instead.top, output.top)
            assert instead.logprob == instead.top[1].logprob, "one figure, computed once"
            ours, theirs = tokens_of(fork, 0), tokens_of(original, 0)
            assert ours[:position] == theirs[:position] and ours[position] == other.token_id
            # the following tokens equal those of a separate run with this prefix as prompt
            with new_engine(ALL["roomy"]) as separate:
                request = separate.add_request(
                    ours[: position + 1],
                    msgspec.structs.replace(GREEDY, max_tokens=GREEDY.max_tokens - 2),  # type: ignore[operator]
                )
                while separate.has_unfinished():
                    separate.step()
                assert ours[position + 1 :] == request.output_token_ids
            assert ours != theirs
            assert tokens_of(fork, 1) == tokens_of(original, 1)


def test_a_chosen_token_does_not_shift_later_random_draws() -> None:
    """The sampler also draws for a chosen position, so choosing the sampled token changes no later token."""
    with run_sampled() as original:
        log = log_of(original)
        (output,) = [o for o in log.record(4).outputs if o.seq_id == 0]
        with rerun(log, 4, TokenChange(seq_id=0, token_id=output.token_id)) as fork:
            assert tokens_of(fork, 0) == tokens_of(original, 0) and tokens_of(fork, 1) == tokens_of(original, 1)
            samples = [op for op in ops_of(log_of(fork).record(5), Sample) if op.seq_id == 0]
            assert [op.sampled_token_id for op in samples] == [None]


def test_a_chosen_end_token_finishes_the_sequence() -> None:
    eos = tiny_llama().tokenizer_facts.eos_token_ids[0]  # type: ignore[union-attr]
    with new_engine(ALL["roomy"]) as original:
        original.add_request(PROMPTS[0], SamplingParams(max_tokens=12, min_tokens=8))
        while original.has_unfinished():
            original.step()
        with rerun(log_of(original), 3, TokenChange(seq_id=0, token_id=eos)) as fork:
            sequence = log_of(fork).state_now().sequences[0]
            assert sequence.token_ids[-1] == eos and sequence.finish_reason == "stop"
            assert len(sequence.token_ids) == len(PROMPTS[0]) + 3


def test_a_fork_can_add_a_request() -> None:
    with run("few sequences") as original:
        log = log_of(original)
        with rerun(log, 5, RequestChange(prompt=[70, 71, 72], sampling=GREEDY)) as fork:
            state, before = log_of(fork).state_now(), log.state_now()
            (more,) = [s for s in state.sequences.values() if s.request_id == "fork-0"]
            assert more.status == "finished" and len(more.token_ids) == 3 + 12
            # greedy tokens of earlier requests do not depend on the schedule
            by_request = {s.request_id: s.token_ids for s in before.sequences.values() if s.parent_seq_id is None}
            for sequence in state.sequences.values():
                if sequence.parent_seq_id is None and sequence.request_id in ("request-0", "request-1", "request-3"):
                    assert sequence.token_ids == by_request[sequence.request_id]


def test_a_fork_can_abort_a_request() -> None:
    with run_sampled() as original:
        with rerun(log_of(original), 4, AbortChange(request_id="a")) as fork:
            assert log_of(fork).record(4).kind == "abort"
            state = log_of(fork).state_now()
            assert state.sequences[0].finish_reason == "abort"
            assert tokens_of(fork, 0) == tokens_of(original, 0)[: len(PROMPTS[0]) + 3]
            assert tokens_of(fork, 1) == tokens_of(original, 1)
        with pytest.raises(RerunError, match="'unknown'"):
            rerun(log_of(original), 4, AbortChange(request_id="unknown"))


def test_a_fork_can_change_sampling_parameters() -> None:
    """Sampling is greedy from record 4 on, and the change is logged."""
    with run_sampled() as original:
        change = SamplingChange(request_id="a", sampling={"temperature": 0.0, "max_tokens": 6})
        with rerun(log_of(original), 4, change) as fork:
            record = log_of(fork).record(4)
            (adjust,) = record.ops
            assert record.kind == "adjust"
            assert isinstance(adjust, Adjust)
            assert (adjust.request_id, adjust.seq_ids, adjust.max_tokens) == ("a", [0], 6)
            assert adjust.sampling["temperature"] == 0.0 and adjust.sampling["ignore_eos"] is True
            later = [o for r in without_times(log_of(fork))[5:] for o in r.outputs if o.seq_id == 0]
            assert len(later) == 3 and all(o.token_id == o.top[0].token_id for o in later)
            assert tokens_of(fork, 1) == tokens_of(original, 1)


def test_another_seed_restarts_the_draws() -> None:
    with run_sampled() as original:
        log = log_of(original)
        with rerun(log, 4, SamplingChange(request_id="b", sampling={"seed": 8})) as fork:
            assert tokens_of(fork, 1)[:6] == tokens_of(original, 1)[:6] and tokens_of(fork, 1) != tokens_of(original, 1)
            assert tokens_of(fork, 0) == tokens_of(original, 0)
        with rerun(log, 4, SamplingChange(request_id="b", sampling={"seed": 7})) as fork:
            assert tokens_of(fork, 1) == tokens_of(original, 1)


def test_a_rerun_under_other_settings_gives_equal_greedy_tokens() -> None:
    """Inputs are submitted at the same steps, and greedy tokens do not depend on blocks."""
    with run("roomy") as original:
        log = log_of(original)
        for name in ("one slot a block", "preempting", "no prefix caching"):
            with rerun(log, 0, ConfigChange(config=msgspec.structs.replace(ALL[name], max_model_len=64))) as other:
                assert log_of(other).header.engine["block_size"] == ALL[name].block_size
                theirs, ours = log.state_now(), log_of(other).state_now()
                greedy = [s for s in theirs.sequences.values() if s.request_id in ("request-0", "request-5")]
                for sequence in greedy:
                    assert ours.sequences[sequence.seq_id].token_ids == sequence.token_ids
                assert not ours.running and not ours.waiting


def test_a_fork_of_an_unfinished_run_is_as_long_as_its_log() -> None:
    with new_engine(ALL["roomy"]) as original:
        original.add_request(PROMPTS[0], GREEDY)
        for _ in range(6):
            original.step()
        with rerun(log_of(original), 3, TokenChange(seq_id=0, token_id=9)) as fork:
            assert fork.num_steps == 6 and fork.has_unfinished()
        with rerun(log_of(original), 3, TokenChange(seq_id=0, token_id=9), follow=False) as fork:
            assert fork.num_steps == 2


def test_a_fork_repeats_later_inputs_and_lists_impossible_ones() -> None:
    """The original chooses a token of b at record 6 and aborts a at record 8. The fork aborts b at record 4."""
    with new_engine(ALL["roomy"]) as original:
        original.add_requests([RequestSpec(PROMPTS[0], SAMPLED, "a"), RequestSpec(PROMPTS[2], SAMPLED, "b")])
        for _ in range(5):
            original.step()
        original.choose(1, 77)
        original.step()
        original.abort("a")
        while original.has_unfinished():
            original.step()
        engine = new_engine(ALL["roomy"])
        again = Rerun(engine, log_of(original), 4, AbortChange(request_id="b"), True)
        again.finish()
        with engine:
            reason = "request 'b' has no sequence 0 at this point"
            assert again.left_out == [f"record 6 of the original is left out: {reason}"]
            assert engine.num_steps == 6 and tokens_of(engine, 0) == tokens_of(original, 0)


def test_progress_is_reported_record_by_record() -> None:
    with run_sampled() as original, new_engine(ALL["roomy"]) as engine:
        again = Rerun(engine, log_of(original), 4, AbortChange(request_id="a"), True)
        reports = []
        while again.advance():
            reports.append((again.num_done, again.is_forked))
        assert reports[:5] == [(1, False), (2, False), (3, False), (4, False), (5, True)]
        assert again.num_done == len(log_of(engine)) == again.num_expected


# refused changes


def test_invalid_choices_and_adjustments_are_refused() -> None:
    with new_engine(ALL["roomy"]) as engine:
        engine.add_request(PROMPTS[2], GREEDY, "a")
        engine.add_request(PROMPTS[2], SamplingParams(use_beam_search=True, beam_width=2, max_tokens=4), "beams")
        engine.step()
        records = len(log_of(engine))
        for seq_id, token, position, words in (
            (9, 5, None, "sequence 9"),
            (1, 5, None, "beams"),
            (0, 128, None, "no token 128; the last one is 127"),
            (0, -1, None, "no token -1"),
            (0, 5, 3, r"position 3 cannot be chosen: future tokens have positions 4..14"),
            (0, 5, 15, "position 15"),
        ):
            with pytest.raises(RequestError, match=words):
                engine.choose(seq_id, token, position)
        greedy = msgspec.structs.replace(GREEDY, max_tokens=1)
        with pytest.raises(RequestError, match="over 1, the number"):
            engine.adjust("a", greedy)
        with pytest.raises(RequestError, match="n cannot change after"):
            engine.adjust("a", msgspec.structs.replace(SAMPLED, n=2))
        with pytest.raises(RequestError, match="beams"):
            engine.adjust("beams", SamplingParams(use_beam_search=True, beam_width=2, max_tokens=9))
        with pytest.raises(RequestError, match="'unknown'"):
            engine.adjust("unknown", GREEDY)
        assert len(log_of(engine)) == records
    with new_engine(EngineConfig(block_size=4, num_blocks=32, fault="missing_causal_mask")) as engine:
        engine.add_request(PROMPTS[2], GREEDY)
        with pytest.raises(RequestError, match="fault"):
            engine.choose(0, 5)
