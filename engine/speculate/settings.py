"""Settings of speculative decoding: the JSON of `speculative_config`, with vLLM's names.

{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 4}
{"method": "draft_model", "model": "bundled-mqa", "num_speculative_tokens": 4}
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from engine.config import ConfigError, EngineConfig
from engine.options.refusal import sentence

MAX_DRAFT_TOKENS = 16
MAX_LOOKUP = 16  # maximum tokens of an n-gram; each length takes one search of the text per sequence and step
PROMPT_LOOKUP = 5  # vLLM's default for both lengths

Method = Literal["ngram", "draft_model"]


class Speculative(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parsed `speculative_config`."""

    num_speculative_tokens: int
    method: Method | None = None  # None: draft_model if a model is named
    model: str | None = None  # a shipped model, a folder or a name on the hub
    prompt_lookup_min: int | None = None  # tokens of the shortest n-gram; None = prompt_lookup_max, or PROMPT_LOOKUP
    prompt_lookup_max: int | None = None

    @property
    def lookup_lengths(self) -> tuple[int, int]:
        """Length of the shortest and of the longest n-gram to look up."""
        lengths = [length for length in (self.prompt_lookup_max, self.prompt_lookup_min) if length is not None]
        longest = lengths[0] if lengths else PROMPT_LOOKUP
        return longest if self.prompt_lookup_min is None else self.prompt_lookup_min, longest


def speculative_of(config: EngineConfig) -> Speculative | None:
    """Parse a configuration's `speculative_config`; return None if there is none.

    Raises:
        ConfigError: the JSON is invalid, or speculation is incompatible with the other settings.
    """
    if config.speculative_config is None:
        return None
    try:
        found = msgspec.json.decode(config.speculative_config.encode(), type=Speculative)
    except msgspec.MsgspecError as error:
        raise ConfigError(sentence("speculative.json", error=error)) from None
    if not 1 <= found.num_speculative_tokens <= MAX_DRAFT_TOKENS:
        allowed = sentence("range.between", least=1, most=MAX_DRAFT_TOKENS)
        value = found.num_speculative_tokens
        raise ConfigError(sentence("range", name="num_speculative_tokens", range=allowed, value=value))
    if found.method is None:
        found = msgspec.structs.replace(found, method="draft_model" if found.model else "ngram")
    if (found.method == "draft_model") != (found.model is not None):
        raise ConfigError(sentence("speculative.method"))
    shortest, longest = found.lookup_lengths
    if not 1 <= shortest <= longest <= MAX_LOOKUP:
        raise ConfigError(sentence("speculative.lookup", most=MAX_LOOKUP, shortest=shortest, longest=longest))
    if found.method == "draft_model" and (found.prompt_lookup_min, found.prompt_lookup_max) != (None, None):
        raise ConfigError(sentence("speculative.ngram"))
    _check_compatible(config)
    return found


def _check_compatible(config: EngineConfig) -> None:
    if config.strategy == "none" or config.by_sequence:
        raise ConfigError(sentence("speculative.strategy", strategy=config.strategy))
    if config.num_instances:
        raise ConfigError(sentence("speculative.instances"))
    if config.fault is not None:
        raise ConfigError(sentence("speculative.fault"))
