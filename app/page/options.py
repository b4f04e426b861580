"""Tables of options for the page, with the values that the page requests for a new run."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from engine.accounting.as_model import preset_payload
from engine.config import EngineConfig, SamplingParams
from engine.options.payload import OptionFacts, tables_of
from engine.setup.resolve import resolve_for
from engine.trace.goodput import APPLICATIONS
from engine.trace.records import ModelFacts

SHORT = 1024  # maximum positions of models for which the page requests a small pool with small blocks


def option_tables(config: EngineConfig | None = None, facts: ModelFacts | None = None) -> dict[str, Any]:
    """Return `page_tables` as plain data, with sizes of models to compare with and latency objectives."""
    plain: dict[str, Any] = msgspec.to_builtins(page_tables(config, facts))
    return {**plain, "models": preset_payload(), "slos": msgspec.to_builtins(APPLICATIONS)}


def page_tables(config: EngineConfig | None, facts: ModelFacts | None) -> dict[str, list[OptionFacts]]:
    """Return the tables for a server's settings and a model's facts.

    The server's settings override the page's initial values. For a model with long sequences, the page also uses the
    server's pool and block size.

    Args:
        config: None for a page without a server.
        facts: None for a page without a server, and while the model is not loaded.
    """
    tables = tables_of(engine=EngineConfig, sampling=SamplingParams)
    if config is None:
        return tables
    served = resolve_for(replace(config, strategy="paged"), facts).config if facts is not None else config
    is_long = facts is not None and facts.max_position > SHORT
    return {**tables, "engine": [_row_of(row, config, served, is_long) for row in tables["engine"]]}


def _row_of(row: OptionFacts, config: EngineConfig, served: EngineConfig, is_long: bool) -> OptionFacts:
    """Return the row with the value that the page requests for a new run."""
    if row.control is None or row.control.initial is None:
        return row
    own = getattr(config, row.name)
    if own == row.default:
        if not (is_long and row.name in ("block_size", "num_blocks")):
            return row
        own = getattr(served, row.name)
    return replace(row, control=replace(row.control, initial=own))
