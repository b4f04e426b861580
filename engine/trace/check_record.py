"""Checks of a single record beyond the effects of its operations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from engine.trace.check_loading import wrong_in_loading
from engine.trace.check_ops import Wrong, wrong_in_ops
from engine.trace.check_reasons import wrong_in_reasons
from engine.trace.operations import Draft, Sample, Verify, Write
from engine.trace.records import Candidate, Header, StepRecord
from engine.trace.state import State

LOGPROB_SLACK = 1e-3  # tolerance for a probability that is rounded to more than 1


def wrong_in_record(
    record: StepRecord, before: StepRecord | None, last_at: float, state: State | None, header: Header
) -> Iterator[Wrong]:
    """Yield each contradiction within the record, or with the previous one.

    `state`: state after the record; None = unknown. `last_at`: `timing.at` of the instance's previous record.
    """
    yield from _order(record, before, last_at)
    yield from _batch(record, state)
    yield from _outputs(record, header)
    yield from _drafts(record)
    yield from wrong_in_reasons(record)
    if state is not None:
        yield from _prompt_logprobs(record, state)
        yield from wrong_in_ops(record, state, header)
        yield from wrong_in_loading(record, state, header)
    if (record.kind == "observed") != (record.seen is not None):
        yield None, f"a record of kind {record.kind} {'has' if record.seen else 'has no'} `seen`"
    if record.work is not None:
        tokens = sum(len(entry.token_ids) for entry in record.batch)
        if record.work.num_tokens != tokens:
            yield None, f"work.num_tokens is {record.work.num_tokens}, but the batch has {tokens}"


def _order(record: StepRecord, before: StepRecord | None, last_at: float) -> Iterator[Wrong]:
    if before is not None or record.index == 0:
        step = (before.step if before else 0) + (record.kind == "step")
        if record.step != step:
            yield None, f"step is {record.step}, but must be {step} in this record of kind {record.kind}"
    times = {name: getattr(record.timing, name) for name in record.timing.__struct_fields__}
    for name, seconds in times.items():
        if not math.isfinite(seconds) or seconds < 0:
            yield None, f"timing.{name} is {seconds}"
    if record.timing.at < last_at:
        yield None, f"timing.at is {record.timing.at}, which is before the previous record's {last_at}"
    if record.kind != "step" and (record.batch or record.outputs):
        yield None, f"a record of kind {record.kind} must not have a batch or outputs"


def _batch(record: StepRecord, state: State | None) -> Iterator[Wrong]:
    """Check that each entry is written by exactly one operation, and has its sequence's tokens."""
    writes = {(op.seq_id, op.start): (i, op) for i, op in enumerate(record.ops) if isinstance(op, Write)}
    drafts = {op.seq_id: op.token_ids for op in record.ops if isinstance(op, Draft)}
    for entry in record.batch:
        subject = f"batch: sequence {entry.seq_id} at {entry.start}"
        count = len(entry.token_ids)
        if entry.context_len != entry.start + count:
            yield None, f"{subject}: context_len is {entry.context_len}, but start + tokens is {entry.start + count}"
        _, write = writes.pop((entry.seq_id, entry.start), (0, None))
        if write is None or write.num_tokens != count:
            written = "no operation writes them" if write is None else f"the operation writes {write.num_tokens}"
            yield None, f"{subject}: {count} tokens are computed, but {written}"
        sequence = state.sequences.get(entry.seq_id) if state else None
        own = drafts.get(entry.seq_id, [])
        known = entry.token_ids[: count - len(own)]
        if sequence and sequence.token_ids[entry.start : entry.start + len(known)] + own != entry.token_ids:
            yield None, f"{subject}: token_ids differ from the sequence's"
    for operation, write in writes.values():
        yield operation, f"the write of sequence {write.seq_id} at {write.start} is not in the batch"


def _drafts(record: StepRecord) -> Iterator[Wrong]:
    """Check that drafts are verified unless the step failed, and that 0 or 1 tokens follow the accepted ones."""
    drafted = {op.seq_id for op in record.ops if isinstance(op, Draft)}
    sampled = Counter(output.seq_id for output in record.outputs)
    for position, op in enumerate(record.ops):
        if not isinstance(op, Verify):
            continue
        if op.seq_id not in drafted:
            yield position, f"verify: sequence {op.seq_id} has no drafts"
        if not op.num_accepted <= sampled[op.seq_id] <= op.num_accepted + 1:
            yield position, f"verify: {op.num_accepted} drafts are accepted, but {sampled[op.seq_id]} tokens sampled"
        drafted.discard(op.seq_id)
    if drafted and record.outputs:
        yield None, f"drafts of sequences {sorted(drafted)} are not verified"


def _outputs(record: StepRecord, header: Header) -> Iterator[Wrong]:
    """Check that outputs and `sample` operations match one to one."""
    sampled = [(op.seq_id, op.token_id) for op in record.ops if isinstance(op, Sample)]
    chosen = [(output.seq_id, output.token_id) for output in record.outputs]
    if sorted(sampled) != sorted(chosen):
        yield None, f"outputs are {_pairs(chosen)}, but the operations sample {_pairs(sampled)}"
    for output in record.outputs:
        subject = f"output of sequence {output.seq_id}"
        if not output.logprob <= LOGPROB_SLACK:
            yield None, f"{subject}: logprob is {output.logprob}"
        yield from ((None, f"{subject}: {message}") for message in _candidates(output.top, header))


def _prompt_logprobs(record: StepRecord, state: State) -> Iterator[Wrong]:
    for found in record.prompt_logprobs:
        sequence = state.sequences.get(found.seq_id)
        subject = f"prompt_logprobs: sequence {found.seq_id}, position {found.position}"
        if sequence is None or not 1 <= found.position < sequence.num_prompt_tokens:
            yield None, f"{subject}: there is no such prompt token"
        elif sequence.token_ids[found.position] != found.token_id:
            yield None, f"{subject}: token {found.token_id}, but the prompt has {sequence.token_ids[found.position]}"


def _candidates(top: list[Candidate], header: Header) -> Iterator[str]:
    logprobs = [candidate.logprob for candidate in top]
    if any(not value <= LOGPROB_SLACK for value in logprobs):
        yield "an alternative has a logprob over 0, or NaN"
    elif logprobs != sorted(logprobs, reverse=True):
        yield "the alternatives are not in descending order of probability"
    unknown = [c.token_id for c in top if not 0 <= c.token_id < header.model.vocab_size]
    if unknown:
        yield f"alternative {unknown[0]} is not in the vocabulary of {header.model.vocab_size}"


def _pairs(pairs: list[tuple[int, int]]) -> str:
    shown = ", ".join(f"token {token_id} for sequence {seq_id}" for seq_id, token_id in pairs[:4])
    return (shown or "none") + (f" and {len(pairs) - 4} more" if len(pairs) > 4 else "")
