"""Loaded model of a server. Import it lazily, because it imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.ground.settings import ServerSettings
from app.models.engine_face import BuildEngine
from app.models.live_engine import check_limits, engine_builder
from app.models.pool_bytes import pool_bytes
from engine.accounting.memory import kv_bytes_per_token
from engine.cluster.messages import ModelSource
from engine.cluster.worker_process import Workers
from engine.config import EngineConfig
from engine.connector.tiers.tiers import Tiers
from engine.model import device as devices
from engine.model.compiled import Compilation, compile_in_background
from engine.model.device_facts import DeviceFacts
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model, resolve_device
from engine.model.loading_stages import LoadingStage
from engine.model.projections import projection_of
from engine.model.shipped import SHIPPED
from engine.model.tokenizer import normalize_prompt
from engine.model.weighing import estimated_weight_bytes, weight_bytes
from engine.setup.device_pool import with_pool
from engine.setup.machine import machine_facts, measure_roofs
from engine.speculate.settings import speculative_of
from engine.trace.records import Machine, ModelFacts, TokenizerFacts
from engine.trace.residual import Projection, ProjectionPart


class LiveModel:
    """Implements `ServedModel`."""

    def __init__(
        self,
        model: LoadedModel,
        is_shipped: bool,
        settings: ServerSettings,
        tiers: Tiers | None = None,
        workers: Workers | None = None,
    ) -> None:
        """`tiers` stores full blocks outside the pools of runs. `workers`: processes for the instances of runs."""
        self._model = model
        self._is_shipped = is_shipped
        self.facts: ModelFacts = model.facts
        self.tokenizer_facts: TokenizerFacts = model.tokenizer_facts or TokenizerFacts(
            name="", vocab_size=model.facts.vocab_size, eos_token_ids=[]
        )
        self.kv_bytes_per_token: int = kv_bytes_per_token(model.facts)
        self.stored: str = str(model.stored or "")  # storage format of the checkpoint's weights; "": unquantized
        self.dropped: list[str] = model.dropped
        self.only_eager: str = model.only_eager
        self.num_bytes: int = weight_bytes(model.module)
        self._max_pool_bytes = settings.max_pool_bytes
        found = map(speculative_of, (settings.config, *settings.configs.values()))
        drafts = self._draft_models = {draft.model for draft in found if draft is not None and draft.model is not None}
        self.build: BuildEngine = engine_builder(
            model, lambda: self._max_pool_bytes, tiers=tiers, workers=workers, draft_models=drafts
        )
        self.build_small: BuildEngine = engine_builder(
            model, lambda: self._max_pool_bytes, is_small=True, draft_models=drafts
        )
        self._compilation: Compilation | None = None

    def comparison(self) -> str:
        """Return the result of the comparison with the model's own forward pass, for a line in the terminal."""
        found, seconds = self._model.differences["auto"], self._model.check_seconds
        return f"equal to its own forward pass within {found.share:.0e} of its logits' spread (seen in {seconds:.2f} s)"

    def check(self, config: EngineConfig) -> None:
        """Raise ConfigError (one sentence) if `build` would reject these settings."""
        check_limits(self.facts, config, self._max_pool_bytes, self._draft_models)

    def compile_in_background(self, ended: Callable[[str], object] = lambda error: None) -> None:
        """Start compiling. Until the compiled forward pass is ready, engines use the eager one.

        `ended` is called with one sentence if compilation failed, and with "" if it succeeded.
        """
        self._compilation = compile_in_background(self._model, ended)

    @property
    def is_compiling(self) -> bool:
        """Whether the compiler is running. The process cannot end before it has finished."""
        return self._compilation is not None and self._compilation.is_alive()

    @property
    def machine(self) -> Machine:
        """Facts of the machine, including its peak rates once they are measured."""
        return machine_facts(self._model.device, self._model.dtype)

    @property
    def free_bytes(self) -> int:
        """Free bytes of the device's memory, or of the machine's if the device has none."""
        return devices.ALLOCATOR.memory(self._model.device).free

    @property
    def device(self) -> DeviceFacts:
        """Current facts of the device."""
        return devices.device_facts(self._model.device)

    def with_pool(self, config: EngineConfig) -> EngineConfig:
        """Return the settings with a pool size that fits the device, if none is set (`engine.setup.device_pool`)."""
        found = with_pool(config, self._model)
        if found is not config:  # the server's choice may exceed the limit
            self._max_pool_bytes = max(self._max_pool_bytes, pool_bytes(found, self.facts))
        return found

    def measured_machine(self) -> Machine:
        """Return the machine with its peak rates, measured at the first call."""
        measure_roofs(self._model.device, self._model.dtype)
        return self.machine

    def projection(self, layer: int, part: ProjectionPart, head: int) -> Projection:
        return projection_of(self._model, layer, part, head)

    def normalize(self, text: str) -> str:
        """Return the text as it is encoded for the model (`engine.model.shipped.as_seen`)."""
        return normalize_prompt(text) if self._is_shipped else text

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text; [] without a tokenizer."""
        return list(self._model.tokenizer.encode(text)) if self._model.tokenizer else []

    @property
    def chat_template(self) -> str:
        return self._model.tokenizer.chat_template if self._model.tokenizer else ""

    @property
    def special_tokens(self) -> dict[str, int]:
        return self._model.tokenizer.special_tokens if self._model.tokenizer else {}

    @property
    def has_chat_template(self) -> bool:
        return self._model.tokenizer is not None and self._model.tokenizer.has_chat_template

    @property
    def default_sampling(self) -> dict[str, float]:
        return self._model.default_sampling

    def chat(
        self,
        messages: list[dict[str, Any]],
        template_settings: Mapping[str, Any],
        tools: Sequence[dict[str, Any]] = (),
    ) -> list[int]:
        """Encode messages by the model's template. Without one, each message's text is a line, and the last is to be
        continued.
        """
        tokenizer = self._model.tokenizer
        if tokenizer is None:
            raise ValueError("this model has no tokenizer; use /v1/completions with token ids")
        if tokenizer.has_chat_template:
            return tokenizer.chat(messages, template_settings, tools)
        return self.encode(self.normalize("\n".join(message["content"] for message in messages)))

    def token_bytes(self, token_id: int) -> bytes:
        return bytes(self._model.tokenizer.token_bytes(token_id)) if self._model.tokenizer else b""


def load(
    name_or_path: str,
    dtype: str,
    device: str,
    settings: ServerSettings,
    on_progress: Callable[[LoadingStage], object],
    tiers: Tiers | None = None,
    workers_of: Callable[[ModelSource], Workers] | None = None,
) -> LiveModel:
    """Load a model to serve it.

    Args:
        on_progress: called at the beginning of each loading stage.
        tiers: see `LiveModel`.
        workers_of: returns processes for instances of the model.

    Raises:
        ModelError: the model cannot be loaded; one sentence.
    """
    model = load_model(name_or_path, dtype, device, telling=on_progress)
    config = settings.config_of(model.facts.name)
    source = ModelSource(name_or_path, dtype, str(model.device), compiles=not config.enforce_eager)
    workers = workers_of(source) if workers_of else None
    if workers is not None:
        workers.warm(config.num_instances)
    return LiveModel(model, name_or_path in SHIPPED, settings, tiers, workers)


def weigh(name_or_path: str, dtype: str, device: str) -> int:
    """Return the bytes that the weights of a model will take, before they are read.

    Raises:
        ModelError: the model cannot be loaded; one sentence.
    """
    return estimated_weight_bytes(name_or_path, dtype, device)


def memory(device: str) -> int:
    """Return the bytes of memory of the device.

    Raises:
        ModelError: the device does not exist.
    """
    return devices.ALLOCATOR.memory(resolve_device(device)).total
