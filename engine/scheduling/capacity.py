"""Maximum demand of a sequence, used to refuse requests that can never fit."""

from __future__ import annotations

from engine.scheduling.cache_protocol import Cache
from engine.scheduling.sequence import Sequence


def slots_required(num_prompt_tokens: int, max_tokens: int) -> int:
    """Return the maximum number of slots of a sequence; the K and V of its last token are never written."""
    return num_prompt_tokens + max_tokens - 1


def max_tokens_that_fit(num_prompt_tokens: int, num_blocks: int, block_size: int) -> int:
    """Return the largest max_tokens with which a single sequence fits into the pool; below 1 if none does."""
    return num_blocks * block_size - num_prompt_tokens + 1


def check_feasible(
    sequence: Sequence, cache: Cache, max_num_seqs: int, chunk_tokens: int | None, step_tokens: int | None
) -> None:
    """Refuse a new sequence that could never finish, even as the only one.

    `chunk_tokens`: maximum tokens of a sequence in one step; None: prompts are not split. In that case `step_tokens`
    limits the tokens of a step; None: there is no limit.

    Raises:
        ValueError: the sequence can never finish; the message states the numbers.
    """
    name, num_sequences = f"sequence {sequence.seq_id}", 1 + sequence.num_forks
    if not sequence.token_ids or sequence.max_tokens < 1:
        raise ValueError(f"{name} needs at least one token, and max_tokens of at least 1")
    longest = slots_required(sequence.num_tokens, sequence.max_tokens)
    demand = cache.max_demand(longest, chunk_tokens or longest)
    # after a preemption, beams may share no blocks
    required = demand.needed * (num_sequences if sequence.in_lockstep else 1)
    if required > demand.available:
        raise ValueError(f"{name} may need {required} blocks; the pool has {demand.available}")
    if num_sequences > max_num_seqs:
        raise ValueError(f"{name} becomes {num_sequences} sequences; max_num_seqs is {max_num_seqs}")
    if step_tokens is not None and longest > step_tokens:
        raise ValueError(
            f"{name} may have to compute {longest} tokens in one step without chunked prefill; a step computes at most "
            f"{step_tokens}"
        )
