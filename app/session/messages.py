"""Client messages: one type per event, validated field by field."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from app.ground.errors import AppError
from engine.config import EngineConfig, SamplingParams
from engine.options.check import out_of_range
from engine.trace import codec
from engine.trace.limits import Int
from engine.trace.residual import ProjectionPart

Name = Annotated[str, Meta(min_length=1, max_length=64)]
ModelName = Annotated[str, Meta(min_length=1, max_length=200)]
Index = Annotated[int, Meta(ge=0, le=2**53)]
IndexList = Annotated[list[Index], Meta(max_length=4096)]
RecordingName = Annotated[str, Meta(max_length=200)]
Tags = Annotated[list[Annotated[str, Meta(min_length=1, max_length=64)]], Meta(max_length=32)]
MAX_LENS = 256  # positions per answer with a logit lens
MIN_SPEED = 0.01  # steps per second
T = TypeVar("T")


class Message(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all messages."""


class Create(Message, frozen=True, kw_only=True):
    config: dict[str, Any] = {}
    model: ModelName | None = None  # None: the server's first
    name: Annotated[str, Meta(max_length=200)] = ""
    captures: bool = True
    alone: bool = False  # one engine that does not use the server's tiers


class OfSession(Message, frozen=True, kw_only=True):
    """Message to a session. `leave`, `pause` and `reset` have no other fields."""

    session: Name = field(name="theater")


class Join(OfSession, frozen=True, kw_only=True):
    first: Index = field(name="from", default=0)
    epoch: Index | None = None
    captures: bool = True
    windows: bool = False  # the client fetches records of a long log itself, so none are sent


class SubmittedPrompt(Message, frozen=True, kw_only=True):
    text: str
    request_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    priority: Int = 0
    cache_salt: Annotated[str, Meta(max_length=200)] | None = None
    after_steps: Annotated[int, Meta(ge=0, le=10_000)] = 0  # 0: immediately

    @property
    def client(self) -> None:
        """Return None, because the page's requests have no client name."""

    @property
    def waited(self) -> float:
        return 0.0


class Submit(OfSession, frozen=True, kw_only=True):
    prompts: Annotated[list[SubmittedPrompt], Meta(min_length=1)]
    sampling: dict[str, Any] = {}


class Step(OfSession, frozen=True, kw_only=True):
    count: Annotated[int, Meta(ge=1)] = 1
    expect: Index | None = None


class Prefill(OfSession, frozen=True, kw_only=True):
    expect: Index | None = None


class Play(OfSession, frozen=True, kw_only=True):
    speed: Annotated[float, Meta(ge=0, le=100_000)]  # steps a second; 0: as fast as possible

    def __post_init__(self) -> None:
        if not (self.speed == 0 or self.speed >= MIN_SPEED):  # NaN is neither
            raise ValueError(f"speed must be 0 (as fast as possible) or at least {MIN_SPEED:g} steps a second")


class Abort(OfSession, frozen=True, kw_only=True):
    request_id: Annotated[str, Meta(max_length=200)]


class Configure(OfSession, frozen=True, kw_only=True):
    config: dict[str, Any]
    model: ModelName | None = None  # None: the session's current one


class Focus(OfSession, frozen=True, kw_only=True):
    layers: IndexList | None
    heads: IndexList | None


class ForkToken(Message, frozen=True, kw_only=True, tag_field="kind", tag="token"):
    seq_id: Index
    token_id: Index


class ForkKeep(Message, frozen=True, kw_only=True, tag_field="kind", tag="keep"):
    seq_id: Index
    position: Index


class ForkAblate(Message, frozen=True, kw_only=True, tag_field="kind", tag="ablate"):
    layer: Index
    head: Index | None  # query head; None: the whole layer


class ForkRequest(Message, frozen=True, kw_only=True, tag_field="kind", tag="request"):
    text: str
    sampling: dict[str, Any] = {}
    request_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    priority: Int = 0
    cache_salt: Annotated[str, Meta(max_length=200)] | None = None


class ForkAbort(Message, frozen=True, kw_only=True, tag_field="kind", tag="abort"):
    request_id: Annotated[str, Meta(max_length=200)]


class ForkSampling(Message, frozen=True, kw_only=True, tag_field="kind", tag="sampling"):
    request_id: Annotated[str, Meta(max_length=200)]
    sampling: dict[str, Any]


class ForkConfig(Message, frozen=True, kw_only=True, tag_field="kind", tag="config"):
    config: dict[str, Any]


Change = ForkToken | ForkKeep | ForkAblate | ForkRequest | ForkAbort | ForkSampling | ForkConfig


class Fork(OfSession, frozen=True, kw_only=True):
    at: Index
    change: Change | None
    epoch: Index | None = None
    follow: bool = True
    name: Annotated[str, Meta(max_length=200)] = ""


class Recompute(OfSession, frozen=True, kw_only=True):
    seq_id: Index
    layer: Index | None  # None: each layer
    heads: Annotated[list[Index], Meta(min_length=1, max_length=4096)] | None = None
    num_tokens: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    # number of last positions for the logit lens. If positive, the layer's residual stream is returned too.
    residual: Annotated[int, Meta(ge=0, le=MAX_LENS)] = 0


class Project(OfSession, frozen=True, kw_only=True):
    layer: Index
    part: ProjectionPart
    head: Index  # query head; KV head for keys and values


class Record(OfSession, frozen=True, kw_only=True):
    name: RecordingName = ""
    tags: Tags = []


class Read(OfSession, frozen=True, kw_only=True):
    first: Index = field(name="from")
    to: Index
    captures: bool = False


class Tokenize(Message, frozen=True, kw_only=True):
    text: str
    session: Name | None = field(name="theater", default=None)  # None: the tokenizer of the server's first model


class BenchRun(Message, frozen=True, kw_only=True):
    scenario: Name
    rounds: Annotated[int, Meta(ge=1, le=1000)] | None = None
    quiet_seconds: Annotated[float, Meta(ge=0, le=600)] = 60.0


def parse(data: Any, kind: type[T]) -> T:
    """Return the message as its type.

    Raises:
        AppError: `bad_request`, naming the field.
    """
    if not isinstance(data, dict):
        raise AppError("bad_request", f"a map is expected, not {_kind_of(data)}")
    codec.prepare(kind)
    try:
        return msgspec.convert(data, kind)
    except (msgspec.ValidationError, RecursionError, TypeError) as error:
        raise AppError("bad_request", _readable(str(error))) from error


def parse_config(changes: dict[str, Any], base: EngineConfig) -> EngineConfig:
    """Return `base` with some fields changed. Only names and types are checked; the engine checks the values."""
    return _replace_fields(changes, base, "config")


def parse_sampling(changes: dict[str, Any]) -> SamplingParams:
    """Return sampling parameters from the fields that differ from the defaults."""
    sampling = _replace_fields(changes, SamplingParams(), "sampling")
    if wrong := out_of_range(sampling):  # checked before queueing, so that queued commands are bounded
        raise AppError("refused", wrong, translations=wrong.translations)
    return sampling


def _replace_fields(changes: dict[str, Any], base: T, what: str) -> T:
    known = type(base).__struct_fields__  # type: ignore[attr-defined]
    unknown = [k for k in changes if k not in known]
    if unknown:
        raise AppError("bad_request", f"{what} has no field {str(unknown[0])[:60]!r}; it has {', '.join(known)}")
    codec.prepare(type(base))
    try:
        # JSON keys are strings, so the token ids of logit_bias are strings too
        return msgspec.convert({**msgspec.to_builtins(base, str_keys=True), **changes}, type(base), str_keys=True)
    except (msgspec.ValidationError, RecursionError, TypeError) as error:
        raise AppError("bad_request", f"{what}: {_readable(str(error))}") from error


def _readable(error: str) -> str:
    """Return msgspec's "Expected `int`, got `str` - at `$.count`" as "count: expected `int`, got `str`"."""
    found = re.fullmatch(r"(.*) - at `\$\.?(.*)`", error, re.DOTALL)
    where, text = (found[2], found[1]) if found else ("", error)
    text = " ".join(text.split())[:300]
    text = text[:1].lower() + text[1:]
    return f"{where}: {text}" if where else text


def _kind_of(value: Any) -> str:
    names = {type(None): "nothing", bytes: "bytes", str: "text", list: "a list", bool: "a truth value"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else type(value).__name__)
