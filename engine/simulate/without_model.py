"""Resolves settings for a run without a model."""

from __future__ import annotations

from engine.config import ConfigError, EngineConfig
from engine.options.refusal import sentence
from engine.setup.resolve import Resolved, resolve_for
from engine.trace.records import ModelFacts

NEED_A_MODEL = ("forget_policy", "speculative_config")  # the model determines evicted keys and accepted drafts


def resolve_without_model(config: EngineConfig, facts: ModelFacts) -> Resolved:
    """Resolve settings with which schedule and blocks do not depend on the model's output.

    Raises:
        ConfigError: as `resolve_for`, or a setting needs a model.
    """
    for name in NEED_A_MODEL:
        if getattr(config, name) is not None:
            raise ConfigError(sentence("without_model", name=name))
    return resolve_for(config, facts)
