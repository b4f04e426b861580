"""Header of a simulation's log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from engine import __version__
from engine.setup.resolve import Resolved
from engine.trace.records import FINISHED_KEPT, BlockGroup, Header, Machine, ModelFacts, Simulated, TokenizerFacts


def simulated_header(
    facts: ModelFacts, resolved: Resolved, block_groups: Sequence[BlockGroup], simulated: Simulated
) -> Header:
    """Return the header. `block_groups`: block groups of the only or first instance."""
    return Header(
        generator=f"kvtheater {__version__}",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        model=facts,
        tokenizer=TokenizerFacts(name="", vocab_size=facts.vocab_size, eos_token_ids=[]),
        engine=resolved.config.as_map(),
        kv_bytes_per_token=sum(group.kv_bytes_per_token for group in block_groups),
        machine=Machine(device="", processor="", num_threads=0, versions={}),
        block_groups=list(block_groups),
        simulated=simulated,
        finished_kept=FINISHED_KEPT,
    )
