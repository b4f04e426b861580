"""What /api answers, one type an address: as JSON, so bytes are hexadecimal text there.

The page's types come from these (`python -m tools.wire_types`). PROTOCOL.md says what each field means.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from app.answers import ModelStatus, Status
from app.bench_records import Listed, ScenarioCard
from app.lessons.told import Card
from app.recordings.entry import Entry
from app.recordings.repair import Finding
from app.recordings.summary import Summary
from app.scenes.museum import Exhibit
from app.scenes.presets import Preset
from app.scenes.told import Translated, TranslatedList
from engine.config import EngineConfig, SamplingParams
from engine.model.device_facts import DeviceFacts
from engine.options.payload import OptionsPayload
from engine.trace.records import Machine, ModelFacts, TokenizerFacts

# What each scene has by language, beside its fields
PRESET_WORDS = {"title": Translated, "watch": Translated, "end": Translated, "prompts": TranslatedList}
EXHIBIT_WORDS = {"title": Translated, "text": Translated, "watch": Translated, "prompts": TranslatedList}


class HealthAnswer(TypedDict):
    """/api/health."""

    ok: bool
    version: str
    model: ModelStatus


class Limits(TypedDict):
    max_theaters: int
    max_prompts: int
    max_prompt_bytes: int
    max_pool_bytes: int


class ModelAnswer(TypedDict):
    """/api/model."""

    version: str
    live: bool  # whether there is a model; without one the fields about it are None
    model: ModelFacts | None
    tokenizer: TokenizerFacts | None
    kv_bytes_per_token: int | None
    config: EngineConfig
    sampling: SamplingParams
    options: OptionsPayload
    presets: list[Annotated[dict[str, Any], Meta(extra={"fields_of": Preset, "words": PRESET_WORDS})]]
    museum: list[Annotated[dict[str, Any], Meta(extra={"fields_of": Exhibit, "words": EXHIBIT_WORDS})]]
    machine: Machine | None
    api: str | None  # the theater that answers OpenAI's clients on the first model; None: they are not answered
    attached: str | None  # the id of the server that is watched, to be joined like a theater; None: none is
    limits: Limits


class ListedModel(TypedDict):
    """A model of /api/models."""

    status: ModelStatus
    theaters: int  # that are on it now
    model: ModelFacts | None  # None: it has not been read yet
    kv_bytes_per_token: int | None


class DeviceMemory(TypedDict):
    """What lies on the device that the models compute on, at this moment."""

    facts: DeviceFacts
    weights_bytes: int  # of all models that are loaded
    pools_bytes: int  # of the runs whose keys and values lie in blocks
    logs_bytes: int  # of the runs' logs with their captures, in files


class ModelsAnswer(TypedDict):
    """/api/models."""

    models: list[ListedModel]  # the first one first; empty where only recordings are shown
    bytes: int  # of the weights of all
    max_bytes: int  # of those that may be loaded at once
    device: DeviceMemory | None  # None: no model is there


class ListedTheater(TypedDict):
    """A theater of /api/theaters."""

    theater: str
    name: str
    model: str
    is_lab: bool  # a follower's own run, in a class
    config: EngineConfig
    status: Status
    summary: Summary  # of its log, as of a recording


class TheatersAnswer(TypedDict):
    """/api/theaters."""

    theaters: list[ListedTheater]


class RecordingsAnswer(TypedDict):
    """/api/recordings."""

    recordings: list[Entry]
    findings: list[Finding]
    can_keep: bool
    max_bytes: int
    exports: dict[str, str | None]  # format -> the package that it lacks here


class ComparedRun(TypedDict):
    """One of the two runs of /api/compare; the rest of that answer is `engine.trace.compare.Comparison`."""

    theater: str
    epoch: int
    num_records: int
    status: Status


class LessonFault(TypedDict):
    """A file in the folder of lessons that is none, and why."""

    file: str
    line: int
    sentence: str


class LessonsAnswer(TypedDict):
    """/api/lessons."""

    lessons: list[Card]
    faults: list[LessonFault]


class BenchAnswer(TypedDict):
    """/api/bench."""

    scenarios: list[ScenarioCard]
    records: list[Listed]
    can_run: bool
    keeps_records: bool


class KeptClass(TypedDict):
    """A class that is kept until a date."""

    id: str
    title: str
    names: Literal["optional", "none"]
    began: float  # seconds since 1970
    ended: float | None  # None: it was kept while it went on
    until: str  # the last day, as in 2027-01-31
    students: int
    questions: int


class KeptClassesAnswer(TypedDict):
    """/api/classes."""

    classes: list[KeptClass]
    can_keep: bool
