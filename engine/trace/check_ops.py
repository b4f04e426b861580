"""Checks that the sequences, blocks and tokens that an operation names exist."""

from __future__ import annotations

from collections.abc import Iterator

from engine.trace.operations import (
    Cache,
    Draft,
    KnownSince,
    Lookup,
    Lost,
    Op,
    Preempt,
    Rank,
    Removed,
    Sample,
    Stored,
    Submit,
)
from engine.trace.records import Header, StepRecord
from engine.trace.state import State

Wrong = tuple[int | None, str]  # index of the operation, sentence


def wrong_in_ops(record: StepRecord, state: State, header: Header) -> Iterator[Wrong]:
    """Yield each operand that names something nonexistent. `state`: state after the record."""
    for position, op in enumerate(record.ops):
        for message in _wrong(op, record.index, state, header):
            yield position, f"{op.__struct_config__.tag}: {message}"


def _wrong(op: Op, index: int, state: State, header: Header) -> Iterator[str]:
    match op:
        case Submit():
            yield from _tokens(op.prompt_token_ids, header)
        case Sample():
            sampled = [] if op.sampled_token_id is None else [op.sampled_token_id]
            yield from _tokens([op.token_id, *sampled], header)
        case Draft():
            yield from _tokens(op.token_ids, header)
        case Preempt():
            yield from _sequences([op.for_seq_id], state)
        case Lookup():
            yield from _sequences([op.closest_seq_id, op.evicted_for], state)
            lost = [] if op.lost_block_id is None else [op.lost_block_id]
            missing = [b for b in [*op.block_ids, *lost] if not 0 <= b < len(state.blocks)]
            if missing:
                yield f"there is no block {missing[0]}"
            if not 0 <= op.num_hit_tokens <= op.num_tokens:
                yield f"num_hit_tokens is {op.num_hit_tokens}, but num_tokens is {op.num_tokens}"
            if op.evicted_in is not None and not 0 <= op.evicted_in <= index:
                yield f"evicted_in is {op.evicted_in}, but this is record {index}"
        case Lost():
            yield from _sequences([*op.given_up], state)
        case Rank():
            if not 0 <= op.num_returned <= len(op.seq_ids):
                yield f"num_returned is {op.num_returned}, but there are {len(op.seq_ids)} sequences"
        case Cache():
            size, tokens = state.block_size, state.sequences[op.seq_id].token_ids
            expected = tokens[op.logical * size : (op.logical + 1) * size] if op.logical >= 0 else []
            if len(op.token_ids) != size or (expected != op.token_ids and not header.engine.get("fault")):
                yield f"token_ids are not the {size} tokens of sequence {op.seq_id} from position {op.logical * size}"
        case Stored() | Removed() | KnownSince():
            if header.observed is None:
                yield "it is an operation of a monitored server, but the header has no `observed`"
            if isinstance(op, Removed) and op.num_left < 0:
                yield f"num_left is {op.num_left}, but must not be negative"
            if isinstance(op, Stored) and op.parent_unsaid and op.parent_hash is not None:
                yield "parent_unsaid is true, but there is a parent_hash"
            if isinstance(op, KnownSince) and min(op.epoch, op.sequence, op.num_missed) < 0:
                yield "epoch, sequence and num_missed must not be negative"
        case _:
            pass


def _sequences(seq_ids: list[int | None], state: State) -> Iterator[str]:
    for seq_id in seq_ids:
        is_forgotten = state.num_forgotten > 0 and seq_id is not None and seq_id >= 0
        if seq_id is not None and seq_id not in state.sequences and not is_forgotten:
            yield f"there is no sequence {seq_id}"


def _tokens(token_ids: list[int], header: Header) -> Iterator[str]:
    size = max(header.model.vocab_size, header.tokenizer.vocab_size)
    unknown = [token_id for token_id in token_ids if not 0 <= token_id < size]
    if unknown:
        yield f"token {unknown[0]} is not in the vocabulary of {size}"
