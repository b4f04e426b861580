"""The tables of options that stand in the page, with what the page asks for in a new run."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from engine.config import EngineConfig, SamplingParams
from engine.options.payload import tables_payload
from engine.resolve import resolve_for
from engine.trace.records import ModelFacts

SHORT = 1024  # positions of a model up to which the page asks for its own layout: few blocks, of a few slots


def option_tables(config: EngineConfig | None = None, facts: ModelFacts | None = None) -> dict[str, Any]:
    """Of a server with these settings and a model with these facts; of a page without a server with neither.

    The page's own layout gives way to what the server was started with; for a model of longer sequences its pool and
    the size of its blocks are the server's too.
    """
    tables = tables_payload(engine=EngineConfig, sampling=SamplingParams)
    if config is None:
        return tables
    is_long = facts is not None and facts.max_position > SHORT
    served = resolve_for(replace(config, strategy="paged"), facts).config if facts is not None else config
    for row in tables["engine"]:
        if row.get("control", {}).get("initial") is None:
            continue
        name, own = row["name"], getattr(config, row["name"])
        if own != row["default"]:
            row["control"]["initial"] = own
        elif is_long and name in ("block_size", "num_blocks"):
            row["control"]["initial"] = getattr(served, name)
    return tables
