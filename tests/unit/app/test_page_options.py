"""The page's defaults for a new run are a small layout, unless the server or the model requires another."""

from typing import Any

from msgspec.structs import replace

from app.page.options import option_tables
from engine.config import EngineConfig
from tests.server.fake import FACTS


def initial(*of: Any) -> dict[str, Any]:
    rows = option_tables(*of)["engine"]
    found = {row["name"]: row.get("control", {}).get("initial") for row in rows}
    return {name: found[name] for name in ("strategy", "block_size", "num_blocks")}


OWN = {"strategy": "paged", "block_size": 4, "num_blocks": 48}


def test_a_small_model_keeps_the_pages_default_layout() -> None:
    assert initial() == initial(EngineConfig()) == initial(EngineConfig(), FACTS) == OWN


def test_settings_of_the_server_override_the_pages_defaults() -> None:
    assert initial(EngineConfig(num_blocks=256), FACTS) == {**OWN, "num_blocks": 256}
    assert initial(EngineConfig(block_size=8, strategy="none"), FACTS) == {**OWN, "block_size": 8, "strategy": "none"}


def test_a_model_of_long_sequences_gets_a_pool_that_fits_it() -> None:
    longer = replace(FACTS, max_position=2048)
    assert initial(EngineConfig(), longer) == {**OWN, "block_size": 16, "num_blocks": 128}
    assert initial(EngineConfig(block_size=32), longer) == {**OWN, "block_size": 32, "num_blocks": 64}
    assert initial(EngineConfig(num_blocks=99), longer) == {**OWN, "block_size": 16, "num_blocks": 99}
