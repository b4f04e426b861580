"""The drafter of a configuration."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable

from msgspec.structs import replace

from engine.accounting.architecture import kv_shapes
from engine.config import ConfigError, EngineConfig
from engine.model.errors import ModelError
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.model.shipped import shipped_model
from engine.scheduling.speculation import Drafter
from engine.speculate.draft_model import BLOCK_SIZE, DraftEngine, ModelDrafter
from engine.speculate.ngram import NgramDrafter
from engine.speculate.settings import Speculative, speculative_of


def build_drafter(
    speculative: Speculative,
    model: LoadedModel,
    config: EngineConfig,
    new_engine: Callable[[LoadedModel, EngineConfig], DraftEngine],
) -> Drafter:
    """Return the drafter for an engine of `model`. `new_engine`: makes the engine of a draft model.

    Raises:
        ConfigError: the draft model cannot be opened, has another vocabulary or states, or its pool does not fit.
    """
    if speculative.method == "ngram":
        return NgramDrafter(*speculative.lookup_lengths)
    assert speculative.model is not None and config.num_blocks is not None and config.max_model_len is not None
    try:
        draft = _load(speculative.model, str(model.device))
    except ModelError as error:
        raise ConfigError(f"the draft model cannot be opened: {error}") from error
    if draft.states is not None:
        raise ConfigError(
            f"the draft model {draft.facts.name} has recurrent states, and a state cannot be taken back by a token"
        )
    if not _share_vocabulary(draft, model):
        raise ConfigError(f"the draft model {draft.facts.name} has another vocabulary than {model.facts.name}")
    own = replace(
        config,
        strategy="paged",
        block_size=BLOCK_SIZE,
        num_blocks=_num_blocks(speculative, config),
        max_model_len=min(config.max_model_len, draft.facts.max_position),
        enable_prefix_caching=True,
        preemption_mode="recompute",
        swap_space=None,
        mamba_block_size=None,
        scheduling_policy="fcfs",
        num_logprobs=0,
        speculative_config=None,
        count_copies=False,
        private=False,
    )
    try:
        return ModelDrafter(draft, new_engine(draft, own))
    except ModelError as error:
        raise ConfigError(
            f"the draft model's pool, as large as the model's and {config.max_num_seqs} drafts: {error}"
        ) from error


def draft_pool(config: EngineConfig) -> tuple[int, int]:
    """Return the blocks of a shipped draft model's pool, which lies beside the engine's own, and the most bytes that it
    takes; 0, 0 without one.

    From its config.json alone; the cache stores 4 bytes a number at most.
    """
    speculative = speculative_of(config)
    shipped = shipped_model(speculative.model) if speculative and speculative.model else None
    if speculative is None or shipped is None:
        return 0, 0
    shapes = kv_shapes(json.loads((shipped.folder / "config.json").read_text(encoding="utf-8")))
    each = 4 * sum(shape.num_layers * shape.elements for shape in shapes)
    num_blocks = _num_blocks(speculative, config)
    return num_blocks, num_blocks * BLOCK_SIZE * each


def _num_blocks(speculative: Speculative, config: EngineConfig) -> int:
    """Return the blocks of the draft model's pool: room for what the engine's own holds, and for drafts."""
    assert config.num_blocks is not None
    drafts = config.max_num_seqs * -(-speculative.num_speculative_tokens // BLOCK_SIZE)
    return -(-config.num_blocks * config.block_size // BLOCK_SIZE) + drafts


@functools.lru_cache(maxsize=2)
def _load(name: str, device: str) -> LoadedModel:
    return load_model(name, device=device)


def _share_vocabulary(draft: LoadedModel, model: LoadedModel) -> bool:
    if draft.facts.vocab_size != model.facts.vocab_size:
        return False
    if draft.tokenizer is None or model.tokenizer is None:
        return True
    ids = range(model.facts.vocab_size)
    return all(draft.tokenizer.token_bytes(i) == model.tokenizer.token_bytes(i) for i in ids)
