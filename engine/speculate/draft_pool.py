"""Size of a draft model's pool, computed without loading the model."""

from __future__ import annotations

import json

from engine.accounting.architecture import kv_shapes
from engine.config import EngineConfig
from engine.model.shipped import shipped_model
from engine.speculate.settings import Speculative, speculative_of

BLOCK_SIZE = 4


def draft_pool(config: EngineConfig) -> tuple[int, int]:
    """Return the number of blocks of a shipped draft model's pool, and an upper bound of its bytes; 0, 0 without a
    draft model.

    Only the model's config.json is read. The bound assumes 4 bytes per number.
    """
    speculative = speculative_of(config)
    shipped = shipped_model(speculative.model) if speculative and speculative.model else None
    if speculative is None or shipped is None:
        return 0, 0
    shapes = kv_shapes(json.loads((shipped.folder / "config.json").read_text(encoding="utf-8")))
    each = 4 * sum(shape.num_layers * shape.elements for shape in shapes)
    num_blocks = num_draft_blocks(speculative, config)
    return num_blocks, num_blocks * BLOCK_SIZE * each


def num_draft_blocks(speculative: Speculative, config: EngineConfig) -> int:
    """Return the number of blocks of the draft model's pool, for all tokens of the engine's pool and drafts."""
    assert config.num_blocks is not None
    drafts = config.max_num_seqs * -(-speculative.num_speculative_tokens // BLOCK_SIZE)
    return -(-config.num_blocks * config.block_size // BLOCK_SIZE) + drafts
