"""How much room a sequence needs at most: a request that can never fit is refused before it waits for ever."""

from __future__ import annotations

from engine.scheduling.cache_protocol import Cache
from engine.scheduling.sequence import Sequence


def slots_required(num_prompt_tokens: int, max_tokens: int) -> int:
    """Slots of a sequence at its longest: prompt + max_tokens - 1, the last token's K and V are never written."""
    return num_prompt_tokens + max_tokens - 1


def max_tokens_that_fit(num_prompt_tokens: int, num_blocks: int, block_size: int) -> int:
    """Return the largest max_tokens with which the sequence still fits a pool that it has to itself; under 1: none
    does.
    """
    return num_blocks * block_size - num_prompt_tokens + 1


def check_feasible(
    sequence: Sequence, cache: Cache, max_num_seqs: int, splits_at: int | None, whole_step: int | None
) -> None:
    """Refuse a new sequence that could never run to its end, even alone.

    `splits_at`: tokens that one step takes of a sequence at most; None = all at once. Then `whole_step` is how many
    that may be; None = any number.

    Raises:
        ValueError: with the numbers.
    """
    name, places = f"sequence {sequence.seq_id}", 1 + sequence.num_forks
    if not sequence.token_ids or sequence.max_tokens < 1:
        raise ValueError(f"{name} needs at least one token, and one to generate")
    longest = slots_required(sequence.num_tokens, sequence.max_tokens)
    demand = cache.demand_at_most(longest, splits_at or longest)
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
