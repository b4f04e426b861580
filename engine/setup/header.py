"""Header of a log, with model, settings and machine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from engine import __version__
from engine.config import EngineConfig
from engine.model.loaded import LoadedModel
from engine.setup.machine import machine_facts
from engine.trace.records import FINISHED_KEPT, BlockGroup, Header, TokenizerFacts


def header_of(model: LoadedModel, config: EngineConfig, block_groups: Sequence[BlockGroup]) -> Header:
    """Return the header of an engine's log. `config`: resolved settings; `block_groups`: all groups of layers."""
    return Header(
        generator=f"kvtheater {__version__}",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        model=model.facts,
        tokenizer=model.tokenizer_facts or TokenizerFacts(name="", vocab_size=model.facts.vocab_size, eos_token_ids=[]),
        engine=config.as_map(),
        kv_bytes_per_token=sum(group.kv_bytes_per_token for group in block_groups),
        machine=machine_facts(model.device, model.dtype),
        block_groups=list(block_groups),
        finished_kept=FINISHED_KEPT,
    )
