"""Interfaces of engines and models on which the server's sessions are built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from engine.config import EngineConfig, SamplingParams
from engine.lab.change import Change
from engine.model.device_facts import DeviceFacts
from engine.model.errors import TemplateSettingError as TemplateSettingError
from engine.requests.request_spec import RequestSpec
from engine.trace.log import TraceReader, TraceWriter
from engine.trace.records import LayerCapture, Machine, ModelFacts, StepRecord, TokenizerFacts
from engine.trace.residual import Projection, ProjectionPart, ResidualStream

if TYPE_CHECKING:
    from engine.connector.tiers.tiers import Tiers


class RequestLike(Protocol):
    """Accepted request."""

    @property
    def request_id(self) -> str: ...
    @property
    def seq_id(self) -> int: ...
    @property
    def num_prompt_tokens(self) -> int: ...


class Prompt(Protocol):
    """Prompt of a submission."""

    @property
    def text(self) -> str | list[int]:
        """Return the text of the prompt, or its token ids."""

    @property
    def request_id(self) -> str | None: ...
    @property
    def priority(self) -> int: ...
    @property
    def cache_salt(self) -> str | None: ...
    @property
    def after_steps(self) -> int: ...
    @property
    def client(self) -> str | None: ...
    @property
    def waited(self) -> float: ...


def specs_of(prompts: Sequence[Prompt], sampling: SamplingParams) -> list[RequestSpec]:
    """Return an engine request for each submitted prompt."""
    return [RequestSpec(p.text, sampling, p.request_id, p.priority, p.cache_salt, p.client, p.waited) for p in prompts]


class RecomputedLike(Protocol):
    """Layers of a sequence that were recomputed without the cache: input tokens and output arrays."""

    @property
    def token_ids(self) -> list[int]: ...
    @property
    def layers(self) -> list[LayerCapture]: ...
    @property
    def num_keys(self) -> int: ...
    @property
    def residual(self) -> ResidualStream | None: ...


class RerunLike(Protocol):
    """Replay of a log on an engine, record by record. Implemented by `engine.lab.rerun.Rerun`."""

    @property
    def is_forked(self) -> bool: ...
    @property
    def left_out(self) -> list[str]: ...
    @property
    def num_expected(self) -> int: ...
    def advance(self) -> bool: ...


class EngineLike(Protocol):
    """Interface of an engine for a session. Every method but `wake` is called on one thread only.

    `submit` accepts all prompts or none; `check` only raises the errors of `submit`. `focus` sets the layers and heads
    that are captured first (no layer: nothing is captured). `stop_captures` disables captures for the rest of the log,
    and `observe(False)` while there is no viewer. `recompute_attention` recomputes one layer of a sequence, or all
    (None), without changing any state. With `residual` > 0, it includes the residual stream of the last token, and the
    logit lens at that number of positions. `rerun` replays a log up to record `at` on an engine without records, then
    applies the change.
    """

    @property
    def log(self) -> TraceWriter: ...
    @property
    def config(self) -> EngineConfig: ...
    def submit(self, prompts: Sequence[Prompt], sampling: SamplingParams) -> list[RequestLike]: ...
    def send(self, prompts: Sequence[Prompt], sampling: SamplingParams) -> object:
        """Submit without waiting for an instance that is computing a step."""

    def check(self, prompts: Sequence[Prompt], sampling: SamplingParams) -> None: ...
    def step(self, goes_on: bool = False, waits: bool = True) -> StepRecord | None:
        """Run a step. Returns the last new record, or None while instances compute or blocks are in transfer.

        Args:
            goes_on: further steps follow until `rest`, so instances in other processes may begin them ahead.
            waits: wait for a record. False if the caller has other work.
        """

    def rest(self) -> None:
        """Finish steps that were begun ahead."""

    def wake(self) -> None:
        """Interrupt a waiting step. May be called on any thread."""

    def abort(self, request_id: str) -> bool: ...
    def lose_instance(self, index: int) -> None:
        """Kill one of several instances and restart it. Raises ValueError if it does not exist."""

    def num_unfinished(self) -> int: ...
    def queue_lengths(self) -> tuple[int, int]:
        """Return the numbers of running and of waiting sequences."""

    def prefill_pending(self) -> bool: ...
    def focus(self, layers: list[int] | None, heads: list[int] | None) -> None: ...
    def stop_captures(self) -> None: ...
    def observe(self, is_watched: bool) -> None: ...
    def recompute_attention(
        self, seq_id: int, layer: int | None, heads: list[int] | None, num_tokens: int | None, residual: int
    ) -> RecomputedLike: ...
    def rerun(self, source: TraceReader, at: int, change: Change | None, follow: bool) -> RerunLike: ...
    def release(self) -> None:
        """Release shared resources at the end of the run. The log remains open."""

    def close(self) -> None: ...


class OwnTiers(NamedTuple):
    """Tiers that a run uses instead of the server's. None: no tiers."""

    tiers: Tiers | None


class BuildEngine(Protocol):
    """Builds an engine that logs to the path (None: an unnamed file). `own`: tiers to use instead of the server's.

    Raises:
        ValueError: the configuration is invalid; one sentence.
    """

    def __call__(self, config: EngineConfig, path: Path | None, own: OwnTiers | None = None) -> EngineLike: ...


class ServedModel(Protocol):
    """Model of a server: its facts, and the conversion of texts to tokens."""

    facts: ModelFacts
    tokenizer_facts: TokenizerFacts
    kv_bytes_per_token: int
    num_bytes: int  # of its weights in memory

    @property
    def machine(self) -> Machine: ...
    @property
    def free_bytes(self) -> int:
        """Free bytes of the memory in which pools on the model's device are allocated."""

    @property
    def device(self) -> DeviceFacts:
        """Current facts of the device: its memory, and the figures that its driver reports."""

    def with_pool(self, config: EngineConfig) -> EngineConfig:
        """Return the settings with a pool size that fits the device, if they have none."""

    @property
    def build(self) -> BuildEngine: ...
    @property
    def build_small(self) -> BuildEngine:
        """Builds an engine whose logs will be downloaded. They have fewer arrays of a prefill, all in float16."""

    def measured_machine(self) -> Machine:
        """Return the machine with its peak rates, measured at the first call (a few tenths of a second)."""

    def projection(self, layer: int, part: ProjectionPart, head: int) -> Projection:
        """Return the weights of one head's query, key or value projection.

        Raises:
            ValueError: the model has none; one sentence.
        """

    def normalize(self, text: str) -> str:
        """Return the text as it is encoded for the model."""

    def encode(self, text: str) -> list[int]: ...
    @property
    def default_sampling(self) -> dict[str, float]:
        """Sampling defaults of the model's generation config, by field of SamplingParams."""

    @property
    def chat_template(self) -> str:
        """Text of the chat template (the one for tools if there are several), or "" if there is none."""

    @property
    def special_tokens(self) -> dict[str, int]:
        """Ids of special tokens by name. No text is encoded to them."""

    @property
    def has_chat_template(self) -> bool: ...
    def chat(
        self,
        messages: list[dict[str, Any]],
        template_settings: Mapping[str, Any],
        tools: Sequence[dict[str, Any]] = (),
    ) -> list[int]:
        """Return the token ids of a conversation up to the next message, by the model's template or a plain one.

        `template_settings`: variables of the template such as enable_thinking. `tools`: tools in OpenAI's format.

        Raises:
            TemplateSettingError: the template does not have a setting; one sentence.
            ValueError: the template rejects the conversation; one sentence.
        """

    def token_bytes(self, token_id: int) -> bytes: ...
