"""Changes with which a run can be forked."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from engine.cache.ablate_settings import Off, read_ablation
from engine.config import EngineConfig, SamplingParams


class TokenChange(Struct, frozen=True, kw_only=True):
    """Force the next token of a sequence."""

    seq_id: int
    token_id: int


class KeepChange(Struct, frozen=True, kw_only=True):
    """Pin a token of a sequence, so that no head evicts its key from now on."""

    seq_id: int
    position: int


class AblateChange(Struct, frozen=True, kw_only=True):
    """Ablate a query head of a layer, or the layer (head None), from now on."""

    layer: int
    head: int | None = None


class RequestChange(Struct, frozen=True, kw_only=True):
    """Submit another request."""

    prompt: str | list[int]
    sampling: SamplingParams = SamplingParams()
    request_id: str | None = None  # None: generated
    priority: int = 0
    cache_salt: str | None = None


class AbortChange(Struct, frozen=True, kw_only=True):
    """Abort a request."""

    request_id: str


class SamplingChange(Struct, frozen=True, kw_only=True):
    """Change sampling parameters of an unfinished request. `sampling`: the parameters that change."""

    request_id: str
    sampling: dict[str, Any]


class ConfigChange(Struct, frozen=True, kw_only=True):
    """Change the engine's settings from the first step on."""

    config: EngineConfig


Change = TokenChange | KeepChange | AblateChange | RequestChange | AbortChange | SamplingChange | ConfigChange


def config_of_fork(config: EngineConfig, at: int, change: Change | None) -> EngineConfig:
    """Return the engine settings that fork a run of `config` after `at` records.

    Ablations that begin after the fork are removed.
    """
    if change is None or isinstance(change, ConfigChange):
        return config if change is None else change.config
    offs = [off for off in read_ablation(config.ablate) if off.record <= at]
    if isinstance(change, AblateChange):
        offs.append(Off(change.layer, change.head, at))
    return replace(config, ablate=" ".join(map(str, offs)) or None)
