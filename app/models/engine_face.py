"""Types of the engine's interface for the server: a session is built on these."""

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
    """Layers of a sequence, recomputed without the cache: input tokens and output arrays."""

    @property
    def token_ids(self) -> list[int]: ...
    @property
    def layers(self) -> list[LayerCapture]: ...
    @property
    def num_keys(self) -> int: ...
    @property
    def residual(self) -> ResidualStream | None: ...


class RerunLike(Protocol):
    """Replay of a log on an engine, record by record: `engine.lab.rerun.Rerun`."""

    @property
    def is_forked(self) -> bool: ...
    @property
    def left_out(self) -> list[str]: ...
    @property
    def num_expected(self) -> int: ...
    def advance(self) -> bool: ...


class EngineLike(Protocol):
    """Interface of an engine for a session. Every method but `wake` is called on one thread only.

    `submit` accepts all prompts or none; `check` raises the errors of `submit` and does nothing else. `focus` sets the
    first priority of captures (no layer: no captures). `stop_captures` ends captures for the rest of the log, `observe`
    only while there is no viewer. `recompute_attention` recomputes a layer of a sequence, or all (None), and changes
    nothing. With `residual` > 0 it includes the residual stream of the last token, and the logit lens at so many
    positions. `rerun` replays a log on an engine without records up to record `at`, then applies the change.
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
        """Run a step; return the last new record. None: there is none yet, because several instances are computing or
        blocks are in transfer. `goes_on`: further steps follow until `rest`, and instances in separate processes start
        them without waiting for a call. `waits`: False if the caller has work while instances compute.
        """

    def rest(self) -> None:
        """Finish steps that have begun."""

    def wake(self) -> None:
        """Interrupt a waiting step. May be called on any thread."""

    def abort(self, request_id: str) -> bool: ...
    def lose_instance(self, index: int) -> None:
        """Kill one of several instances and restart it. ValueError: there is none."""

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
        """Release resources outside the engine at the end of the run. Its log stays open."""

    def close(self) -> None: ...


class OwnTiers(NamedTuple):
    """Tiers of a run, instead of the server's; None: no tiers."""

    tiers: Tiers | None


class BuildEngine(Protocol):
    """Builds an engine that logs to the path (None: a file without a name). `own`: its tiers instead of the server's.

    Raises:
        ValueError: an invalid configuration; one sentence.
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
        """Free bytes of the memory from which pools on its device are allocated."""

    @property
    def device(self) -> DeviceFacts:
        """Current facts of the device: its memory, and its driver's report."""

    def with_pool(self, config: EngineConfig) -> EngineConfig:
        """Return the settings with a pool size that fits the device, if they have none."""

    @property
    def build(self) -> BuildEngine: ...
    @property
    def build_small(self) -> BuildEngine:
        """Build an engine whose logs will be downloaded: with fewer arrays of a prefill, and all in float16."""

    def measured_machine(self) -> Machine:
        """Return the machine with its roofs, measured at the first call (a few tenths of a second)."""

    def projection(self, layer: int, part: ProjectionPart, head: int) -> Projection:
        """Return the weights of one head's query, key or value projection. ValueError: the model has none, one
        sentence.
        """

    def normalize(self, text: str) -> str:
        """Return the text as the model will see it."""

    def encode(self, text: str) -> list[int]: ...
    @property
    def default_sampling(self) -> dict[str, float]:
        """Sampling defaults of the model's generation config, by field of SamplingParams."""

    @property
    def chat_template(self) -> str:
        """Return the text of the chat template (the one for tools if there are several); "": there is none."""

    @property
    def special_tokens(self) -> dict[str, int]:
        """Ids of special tokens, which occur in no text, by name."""

    @property
    def has_chat_template(self) -> bool: ...
    def chat(
        self,
        messages: list[dict[str, Any]],
        template_settings: Mapping[str, Any],
        tools: Sequence[dict[str, Any]] = (),
    ) -> list[int]:
        """Return the token ids of a conversation, ready for the next message, by the model's template or the plain one.

        `template_settings`: variables of the template such as enable_thinking; `tools`: in OpenAI's format.

        Raises:
            TemplateSettingError: a setting that no template has; one sentence.
            ValueError: the template rejects the conversation; one sentence.
        """

    def token_bytes(self, token_id: int) -> bytes: ...
