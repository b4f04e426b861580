"""Prefix cache lookup of a sequence, and the trace operation that explains its result."""

from __future__ import annotations

from engine.scheduling.cache_protocol import Cache, Match
from engine.scheduling.sequence import Sequence
from engine.trace.operations import Lookup


def look_up(cache: Cache, sequence: Sequence) -> Match:
    """Return the sequence's cached leading blocks. Nothing is modified."""
    return cache.lookup(sequence.seq_id, sequence.token_ids, sequence.cache_salt, sequence.skip_reading_prefix_cache)


def verdict(cache: Cache, sequence: Sequence, match: Match) -> Lookup:
    """Return the trace operation of a lookup: the hits, and the reason for their end."""
    found = Lookup(
        seq_id=sequence.seq_id,
        verdict=match.verdict,
        num_tokens=sequence.num_tokens,
        num_hit_tokens=match.num_tokens,
        block_ids=match.block_ids,
    )
    if match.verdict in ("disabled", "skipped"):
        return found
    return cache.explain(sequence.seq_id, sequence.token_ids, sequence.cache_salt, match.num_tokens).add_to(found)
