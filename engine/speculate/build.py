"""Construction of the drafter of a configuration."""

from __future__ import annotations

import functools
from collections.abc import Callable

from msgspec.structs import replace

from engine.config import ConfigError, EngineConfig
from engine.model.errors import ModelError
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.options.refusal import sentence
from engine.scheduling.speculation import Drafter
from engine.speculate.draft_model import DraftEngine, ModelDrafter
from engine.speculate.draft_pool import BLOCK_SIZE, num_draft_blocks
from engine.speculate.ngram import NgramDrafter
from engine.speculate.settings import Speculative


def build_drafter(
    speculative: Speculative,
    model: LoadedModel,
    config: EngineConfig,
    new_engine: Callable[[LoadedModel, EngineConfig], DraftEngine],
) -> Drafter:
    """Return the drafter for an engine of `model`. `new_engine` creates the engine of a draft model.

    Raises:
        ConfigError: the draft model cannot be opened, has another vocabulary or has states, or its pool does not fit.
    """
    if speculative.method == "ngram":
        return NgramDrafter(*speculative.lookup_lengths)
    assert speculative.model is not None and config.num_blocks is not None and config.max_model_len is not None
    try:
        draft = _load(speculative.model, str(model.device))
    except ModelError as error:
        raise ConfigError(sentence("draft.unopened", error=error)) from error
    if draft.states is not None:
        raise ConfigError(sentence("draft.states", name=draft.facts.name))
    if not _share_vocabulary(draft, model):
        raise ConfigError(sentence("draft.vocabulary", name=draft.facts.name, model=model.facts.name))
    draft_config = replace(
        config,
        strategy="paged",
        block_size=BLOCK_SIZE,
        num_blocks=num_draft_blocks(speculative, config),
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
        return ModelDrafter(draft, new_engine(draft, draft_config))
    except ModelError as error:
        raise ConfigError(sentence("draft.pool", n=config.max_num_seqs, error=error)) from error


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
