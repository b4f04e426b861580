"""How much room a sequence needs at most, so that what can never fit is refused before it waits for ever."""

from __future__ import annotations

from engine.scheduling.sequence import Sequence


def slots_required(num_prompt_tokens: int, max_tokens: int) -> int:
    """Slots of a sequence at its longest: prompt + max_tokens - 1, the last token's K and V are never written."""
    return num_prompt_tokens + max_tokens - 1


def blocks_required(num_prompt_tokens: int, max_tokens: int, block_size: int) -> int:
    """Blocks of a sequence at its longest: slots_required, rounded up to whole blocks."""
    return -(-slots_required(num_prompt_tokens, max_tokens) // block_size)


def max_tokens_that_fit(num_prompt_tokens: int, num_blocks: int, block_size: int) -> int:
    """The largest max_tokens with which the sequence still fits a pool that it has to itself; under 1: none does."""
    return num_blocks * block_size - num_prompt_tokens + 1


def check_feasible(
    sequence: Sequence, num_blocks: int, block_size: int, max_num_seqs: int, tokens_a_step: int | None
) -> None:
    """Refuse a new sequence that could never run to its end, even alone.

    `tokens_a_step`: how many tokens a step can take, where a sequence must be computed in one; None = it may be split.

    Raises:
        ValueError: with the numbers.
    """
    name, places = f"sequence {sequence.seq_id}", 1 + sequence.num_forks
    if not sequence.token_ids or sequence.max_tokens < 1:
        raise ValueError(f"{name} needs at least one token, and one to generate")
    required = blocks_required(sequence.num_tokens, sequence.max_tokens, block_size)
    if sequence.together:
        required *= places  # after a preemption each may have to hold all of its blocks itself
    if required > num_blocks:
        raise ValueError(f"{name} may need {required} blocks; the pool has {num_blocks}")
    if places > max_num_seqs:
        raise ValueError(f"{name} becomes {places} sequences; max_num_seqs is {max_num_seqs}")
    longest = slots_required(sequence.num_tokens, sequence.max_tokens)
    if tokens_a_step is not None and longest > tokens_a_step:
        raise ValueError(
            f"{name} may have to compute {longest} tokens in one step without chunked prefill; a step takes at most "
            f"{tokens_a_step}"
        )
