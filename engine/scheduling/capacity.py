"""Maximum demand of a sequence, by which a request that can never fit is refused."""

from __future__ import annotations

from engine.scheduling.cache_protocol import Cache
from engine.scheduling.sequence import Sequence


def slots_required(num_prompt_tokens: int, max_tokens: int) -> int:
    """Return the slots of a sequence at its longest: the K and V of its last token are never written."""
    return num_prompt_tokens + max_tokens - 1


def max_tokens_that_fit(num_prompt_tokens: int, num_blocks: int, block_size: int) -> int:
    """Return the largest max_tokens with which the sequence alone fits the pool; below 1 if none does."""
    return num_blocks * block_size - num_prompt_tokens + 1


def check_feasible(
    sequence: Sequence, cache: Cache, max_num_seqs: int, splits_at: int | None, whole_step: int | None
) -> None:
    """Refuse a new sequence that could never finish, even alone.

    `splits_at`: maximum tokens of a sequence in one step; None: prompts are not split. Then `whole_step` limits the
    tokens of a step; None: no limit.

    Raises:
        ValueError: the message has the numbers.
    """
    name, places = f"sequence {sequence.seq_id}", 1 + sequence.num_forks
    if not sequence.token_ids or sequence.max_tokens < 1:
        raise ValueError(f"{name} needs at least one token, and one to generate")
    longest = slots_required(sequence.num_tokens, sequence.max_tokens)
    demand = cache.max_demand(longest, splits_at or longest)
    # after a preemption each beam may have to hold all of its blocks itself
    required = demand.needed * (places if sequence.together else 1)
    if required > demand.available:
        raise ValueError(f"{name} may need {required} blocks; the pool has {demand.available}")
    if places > max_num_seqs:
        raise ValueError(f"{name} becomes {places} sequences; max_num_seqs is {max_num_seqs}")
    if whole_step is not None and longest > whole_step:
        raise ValueError(
            f"{name} may have to compute {longest} tokens in one step without chunked prefill; a step takes at most "
            f"{whole_step}"
        )
