"""Types of the JSON responses of /api, in which bytes are hexadecimal text.

`python -m tools.wire_types` generates the page's types from these. docs/reference/protocol.md describes the fields.
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from msgspec import Meta

from app.models.model_entry import ModelStatus
from app.scenes.museum import Exhibit
from app.scenes.presets import Preset
from app.scenes.scene_texts import Translated, TranslatedList
from app.session.answers import Status
from app.session.summary import Summary
from engine.config import EngineConfig, SamplingParams
from engine.model.device_facts import DeviceFacts
from engine.options.payload import OptionsPayload
from engine.trace.records import Machine, ModelFacts, TokenizerFacts

# texts of each scene by language, in addition to its fields
PRESET_WORDS = {"title": Translated, "watch": Translated, "end": Translated, "prompts": TranslatedList}
EXHIBIT_WORDS = {"title": Translated, "text": Translated, "watch": Translated, "prompts": TranslatedList}


class HealthAnswer(TypedDict):
    """Response of /api/health."""

    ok: bool
    version: str
    model: ModelStatus


class Limits(TypedDict):
    max_theaters: int
    max_prompts: int
    max_prompt_bytes: int
    max_pool_bytes: int


class ModelAnswer(TypedDict):
    """Response of /api/model."""

    version: str
    live: bool  # whether the server has a model; if not, the fields about it are None
    model: ModelFacts | None
    tokenizer: TokenizerFacts | None
    kv_bytes_per_token: int | None
    config: EngineConfig
    sampling: SamplingParams
    options: OptionsPayload
    presets: list[Annotated[dict[str, Any], Meta(extra={"fields_of": Preset, "words": PRESET_WORDS})]]
    museum: list[Annotated[dict[str, Any], Meta(extra={"fields_of": Exhibit, "words": EXHIBIT_WORDS})]]
    machine: Machine | None
    api: str | None  # session of the OpenAI-compatible API on the first model; None: the API is off
    attached: str | None  # id of the monitored server, to be joined like a session; None: there is none
    limits: Limits


class ListedModel(TypedDict):
    """Model in /api/models."""

    status: ModelStatus
    theaters: int  # current sessions on it
    model: ModelFacts | None  # None: not loaded yet
    kv_bytes_per_token: int | None


class DeviceMemory(TypedDict):
    """Current memory use of the models' device."""

    facts: DeviceFacts
    weights_bytes: int  # of all loaded models
    pools_bytes: int  # of all runs with blocks
    logs_bytes: int  # files of the runs' logs, with captures


class ModelsAnswer(TypedDict):
    """Response of /api/models."""

    models: list[ListedModel]  # in order; empty if the server shows recordings only
    bytes: int  # of all weights in memory
    max_bytes: int  # limit for `bytes`
    device: DeviceMemory | None  # None: no loaded model


class ListedSession(TypedDict):
    """Session in /api/theaters."""

    theater: str
    name: str
    model: str
    is_lab: bool  # a follower's own run, in a class
    config: EngineConfig
    status: Status
    summary: Summary  # of its log


class SessionsAnswer(TypedDict):
    """Response of /api/theaters."""

    theaters: list[ListedSession]
