"""Reruns a log: identically up to a chosen record, then with one change, then with the later inputs.

    log         record 0 ... at-1 | at ...................... end
                                  |
    rerun       the same records  | the change, then the later inputs, each at its step
                checked           | not checked, because the run differs

Inputs (submit, abort, adjust) are read from the log and repeated. The engine is deterministic, so the steps between
them are the same. Each record of the first part must equal the logged one except for times and captures. Log
probabilities and scores may differ by trace.compare.TOLERANCE, because processors add in different orders. The first
record that differs ends the rerun with a RerunMismatch.

The setting of an ablation includes the step from which it applies, so the first part is unchanged.

A change of the engine's settings applies from the first step, so there is no first part: an engine with the changed
settings gets the same inputs at their logged steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from engine import __version__
from engine.config import SamplingParams
from engine.engine import Engine
from engine.lab.change import (
    AblateChange,
    AbortChange,
    Change,
    ConfigChange,
    KeepChange,
    RequestChange,
    SamplingChange,
    TokenChange,
)
from engine.options.refusal import Refused, sentence
from engine.requests.request_spec import RequestError, RequestSpec
from engine.trace.compare import first_op_that_differs, same
from engine.trace.log import TraceReader
from engine.trace.operations import Adjust, Choose, Finish, Fork, Keep, Load, LookupExternal, Op, Setting, Store, Submit
from engine.trace.records import Header, StepRecord

# versions that sample, schedule and round like this one, so that it can rerun their logs
SAME_RUNS = frozenset(f"kvtheater {version}" for version in ("0.3.0", __version__))
FACTS = (
    "name", "architecture", "num_params", "num_layers", "hidden_size", "intermediate_size", "num_heads", "num_kv_heads",
    "head_dim", "v_head_dim", "vocab_size", "max_position", "dtype",
    "rounded_to",
)  # fmt: skip


class RerunError(Refused):
    """The run cannot be rerun by this engine, or not with that change."""


class RerunMismatch(RerunError):
    """The rerun differs from the log. `op`: index of the operation, None if another part of the record differs."""

    def __init__(self, record: int, op: int | None, part: str, logged: Any, found: Any) -> None:
        location = f"record {record}" + (f", operation {op}" if op is not None else f", {part}")
        super().__init__(
            f"the re-run does not match the log at {location}: the log has {_short(logged)}, the re-run {_short(found)}"
        )
        self.record, self.op, self.part, self.logged, self.found = record, op, part, logged, found


class Rerun:
    """Reruns a log on a new engine, one record at a time.

    Args:
        engine: new engine with the settings of `change.config_of_fork`.
        source: the log. Records appended later are ignored.
        at: number of unchanged records; 0 for a ConfigChange.
        change: replaces record `at`. None: no change; the rerun is checked up to `at`.
        follow: whether to repeat the later inputs after the change, up to the log's number of steps or, if the log ends
            idle, until the engine is idle.

    Raises:
        RerunError: the log has another model, version or configuration, or fewer than `at` records.
    """

    def __init__(self, engine: Engine, source: TraceReader, at: int, change: Change | None, follow: bool) -> None:
        self.engine = engine
        self.is_checked = False  # whether the first `at` records were rerun and equal the log's
        self.is_forked = False  # whether the change is applied
        self.left_out: list[str] = []  # later inputs that no longer apply, one sentence each
        self._source, self._at, self._change, self._follow = source, at, change, follow
        self._end = len(source)
        self._forced = (-1, -1)  # sequence and position of the token that the change forces
        if not 0 <= at <= self._end:
            raise RerunError(sentence("rerun.records", end=self._end, at=at))
        if at and isinstance(change, ConfigChange):
            raise RerunError(sentence("rerun.settings", at=at))
        assert engine.log is not None
        logged = source.header
        if change is not None:  # `config_of_fork` drops later ablations
            logged = replace(logged, engine={**logged.engine, "ablate": engine.log.header.engine.get("ablate")})
        check_origin(logged, engine.log.header, same_settings=not isinstance(change, ConfigChange))
        engine.disconnect()  # the contents of the external store may have changed
        self._sequence_map = _SequenceMap()
        self._progress = self._run()

    @property
    def num_done(self) -> int:
        return len(self.engine.log) if self.engine.log is not None else 0

    @property
    def num_expected(self) -> int:
        """Estimated final number of records."""
        return max(self.num_done, (self._end if self._follow else self._at) + (self._change is not None))

    def advance(self) -> bool:
        """Rerun the next record. Returns False at the end.

        Raises:
            RerunError: the rerun differs or is not possible. The engine's log includes the record that differs.
            ConfigError, RequestError: the change or a later input is refused.
        """
        return next(self._progress, False)

    def finish(self) -> None:
        while self.advance():
            pass

    def _run(self) -> Iterator[bool]:
        for index in range(self._at):
            logged = self._source.record(index)
            compare(logged, self._repeat(logged))
            yield True
        self.is_checked = True
        if self._change is not None and not isinstance(self._change, ConfigChange | AblateChange):
            if isinstance(self._change, TokenChange):
                sequence = self._source.state_at(self._at - 1).sequences.get(self._change.seq_id)
                self._forced = (self._change.seq_id, len(sequence.token_ids) if sequence else 0)
            make_change(self.engine, self._change, self._source, self._at)
            self.is_forked = True
            yield True
        self.is_forked = True
        if self._follow:
            for _ in self._follow_log():
                yield True

    def _repeat(self, logged: StepRecord) -> StepRecord:
        """Repeat the input or step of a record. Returns the new record."""
        log = self.engine.log
        assert log is not None
        before = len(log)
        try:
            self._sequence_map.note(logged)
            if any(isinstance(op, Load) for op in logged.ops):
                raise RerunError(sentence("rerun.outside", index=logged.index))
            if failure := _failure(logged):
                raise RerunError(sentence("rerun.failure", index=logged.index, failure=failure))
            if logged.kind == "step":
                return self.engine.step()
            if logged.kind == "submit":
                self._submit(logged)
            for op in logged.ops:
                if isinstance(op, Choose):
                    self.engine.choose(op.seq_id, op.token_id, op.position)
                elif isinstance(op, Adjust):
                    self.engine.adjust(op.request_id, sampling_of(op.sampling))
                elif isinstance(op, Keep):
                    self.engine.keep(op.seq_id, op.position)
            if logged.kind == "abort":
                self.engine.abort(self._sequence_map.aborted(logged))
        except RerunError:
            raise
        except Exception as error:  # the engine accepted this input in the logged run, so a refusal is a difference
            raise RerunMismatch(logged.index, None, "kind", logged.kind, f"an error: {error}") from error
        if len(log) == before:
            raise RerunMismatch(logged.index, None, "kind", logged.kind, "nothing")
        return log.record(before)

    def _submit(self, logged: StepRecord) -> None:
        """Submit with the forward pass of the log, because compiled and eager logits differ in their last bits."""
        steps = (self._source.record(index) for index in range(logged.index + 1, self._end))
        step = next((record for record in steps if record.kind == "step"), None)
        self.engine.add_requests(_specs(logged), eager=step is not None and not step.timing.compiled)

    # after the change

    def _follow_log(self) -> Iterator[None]:
        """Repeat the later inputs at their steps, and run the steps between them."""
        engine, last_step = self.engine, 0
        for index in range(self._at, self._end):
            logged = self._source.record(index)
            last_step = logged.step
            self._sequence_map.note(logged)
            if logged.kind == "step" and not _failure(logged):
                continue
            while engine.num_steps < logged.step and engine.has_unfinished():
                engine.step()
                yield
            if self._repeat_input(logged):
                yield
        last_state = self._source.state_at(self._end - 1)
        until_idle = not last_state.running and not last_state.waiting
        while engine.has_unfinished() and (until_idle or engine.num_steps < last_step):
            engine.step()
            yield

    def _repeat_input(self, logged: StepRecord) -> bool:
        """Repeat an input of the log. Returns False if it cannot apply after the change."""
        if logged.kind == "submit":
            self._submit(logged)
            return True
        if failure := _failure(logged):
            self.left_out.append(f"record {logged.index} of the original is left out: {failure}")
            return False
        if logged.kind == "abort":
            return self.engine.abort(self._sequence_map.aborted(logged))
        done = False
        for op in logged.ops:
            try:
                if isinstance(op, Adjust):
                    self.engine.adjust(op.request_id, sampling_of(op.sampling))
                    done = True
                elif isinstance(op, Choose) and (op.seq_id, op.position) != self._forced:
                    self.engine.choose(self._rerun_seq_id(op.seq_id), op.token_id, op.position)
                    done = True
                elif isinstance(op, Keep):
                    self.engine.keep(self._rerun_seq_id(op.seq_id), op.position)
                    done = True
            except RequestError as error:
                self.left_out.append(f"record {logged.index} of the original is left out: {error}")
        return done

    def _rerun_seq_id(self, seq_id: int) -> int:
        """Return the rerun's id of a sequence of the log."""
        request_id, place = self._sequence_map.place(seq_id)
        request = self.engine.request(request_id)
        if request is None or place >= len(request.completions):
            raise RequestError(sentence("request.no_sequence", request_id=request_id, place=place))
        return request.completions[place].sequence.seq_id


class _SequenceMap:
    """Maps a seq_id of the log to its request and index, because ids may differ after a change."""

    def __init__(self) -> None:
        self._request_ids: dict[int, str] = {}
        self._members: dict[str, list[int]] = defaultdict(list)  # request id -> sequences of its latest request

    def note(self, record: StepRecord) -> None:
        for op in record.ops:
            if isinstance(op, Submit):
                self._members[op.request_id] = [op.seq_id]
                self._request_ids[op.seq_id] = op.request_id
            elif isinstance(op, Fork):
                self._members[op.request_id].append(op.seq_id)
                self._request_ids[op.seq_id] = op.request_id

    def place(self, seq_id: int) -> tuple[str, int]:
        """Return the request of a sequence and the sequence's index in it."""
        request_id = self._request_ids[seq_id]
        return request_id, self._members[request_id].index(seq_id)

    def aborted(self, record: StepRecord) -> str:
        """Return the request id of an abort record."""
        return next(self._request_ids[op.seq_id] for op in record.ops if isinstance(op, Finish))


def check_origin(logged: Header, here: Header, same_settings: bool) -> None:
    """Check that a log can be rerun by the engine whose header is `here`.

    Raises:
        RerunError: the model, version or configuration differs.
    """
    if logged.engine.get("private"):
        raise RerunError(sentence("rerun.private"))
    if logged.generator != here.generator and not {logged.generator, here.generator} <= SAME_RUNS:
        raise RerunError(sentence("rerun.generator", generator=logged.generator, generator_1=here.generator))
    for name in FACTS:
        if getattr(logged.model, name) != getattr(here.model, name):
            raise RerunError(
                sentence("rerun.model", name=name, logged=getattr(logged.model, name), here=getattr(here.model, name))
            )
    if logged.tokenizer != here.tokenizer:
        raise RerunError(sentence("rerun.tokenizer", name=here.tokenizer.name))
    if same_settings:
        for name in {**logged.engine, **here.engine}:
            if logged.engine.get(name) != here.engine.get(name):
                raise RerunError(
                    sentence("rerun.setting", name=name, logged=logged.engine.get(name), here=here.engine.get(name))
                )


def make_change(engine: Engine, change: Change, source: TraceReader, at: int) -> None:
    """Apply a change to the engine.

    Raises:
        RerunError, RequestError, ConfigError: the change is not possible; the engine is unchanged.
    """
    if isinstance(change, TokenChange):
        engine.choose(change.seq_id, change.token_id)
    elif isinstance(change, KeepChange):
        engine.keep(change.seq_id, change.position)
    elif isinstance(change, AbortChange):
        if not engine.abort(change.request_id):
            raise RerunError(sentence("rerun.request", at=at, request_id=change.request_id))
    elif isinstance(change, SamplingChange):
        request = engine.request(change.request_id)
        if request is None:
            raise RerunError(sentence("rerun.request", at=at, request_id=change.request_id))
        engine.adjust(change.request_id, sampling_of({**request.sampling.as_map(), **change.sampling}))
    elif isinstance(change, RequestChange):
        name = change.request_id or _new_request_id(source)
        engine.add_request(change.prompt, change.sampling, name, change.priority, change.cache_salt)


def sampling_of(fields: dict[str, Setting]) -> SamplingParams:
    """Convert the sampling parameters of a trace. Raises RerunError: invalid parameters."""
    try:
        return msgspec.convert(fields, SamplingParams, str_keys=True)  # token ids of logit_bias are strings in a trace
    except msgspec.ValidationError as error:
        raise RerunError(sentence("rerun.sampling", error=error)) from error


def compare(logged: StepRecord, found: StepRecord) -> None:
    """Compare two records.

    Ignores times, captures, operations of the external store, and the bytes of weights, which depend on the processor's
    storage format.

    Raises:
        RerunMismatch: the records differ. Describes the first difference.
    """
    if logged.kind != found.kind:
        raise RerunMismatch(logged.index, None, "kind", logged.kind, found.kind)
    ops_of: list[list[Op]] = [
        [op for op in record.ops if not isinstance(op, LookupExternal | Store)] for record in (logged, found)
    ]
    place = first_op_that_differs(*ops_of)
    if place is not None:
        logged_value, found_value = (ops[place] if place < len(ops) else None for ops in ops_of)
        raise RerunMismatch(logged.index, place, "ops", logged_value, found_value)
    for part in ("step", "batch", "outputs", "prompt_logprobs", "memory", "work", "integrity"):
        logged_value, found_value = getattr(logged, part), getattr(found, part)
        if part == "work" and logged_value is not None and found_value is not None:
            found_value = replace(found_value, weight_bytes=logged_value.weight_bytes)
        if not same(logged_value, found_value):
            raise RerunMismatch(logged.index, None, part, logged_value, found_value)


def _specs(record: StepRecord) -> list[RequestSpec]:
    return [
        RequestSpec(
            prompt=op.prompt_token_ids,
            sampling=sampling_of(op.sampling),
            request_id=op.request_id,
            priority=op.priority,
            cache_salt=op.cache_salt,
            client=op.client,
            waited=op.waited,
        )
        for op in record.ops
        if isinstance(op, Submit)
    ]


def _failure(record: StepRecord) -> str:
    """Return the reason if the step of this record failed, otherwise ""."""
    details = (op.detail for op in record.ops if isinstance(op, Finish))
    return next((detail for detail in details if detail.startswith("the step failed")), "")


def _new_request_id(source: TraceReader) -> str:
    taken = {s.request_id for s in source.state_at(len(source) - 1).sequences.values()}
    return next(name for i in range(len(taken) + 1) if (name := f"fork-{i}") not in taken)


def _short(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Op):  # type: ignore[arg-type, misc, unused-ignore]
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        text = f"{value.__struct_config__.tag} " + " ".join(f"{k}={v!r}" for k, v in fields.items())
    else:
        text = str(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= 160 else text[:157] + "..."
