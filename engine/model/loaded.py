"""Loaded model, ready to serve."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from msgspec import Struct

from engine.cache.kv_store import LayerShape
from engine.model.compiled_forward import CompiledForward
from engine.model.device import size
from engine.model.latents import Latents
from engine.model.plain_check import Difference, PlainLogits
from engine.model.state_layers import StateLayers
from engine.model.tokenizer import Tokenizer
from engine.trace.records import ModelFacts, TokenizerFacts

DTYPES = {
    "float32": torch.float32,
    "float": torch.float32,
    "float16": torch.float16,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
}
WEIGHTS = {  # dtype of linear layers' weights on the CPU; everything is computed in float32
    "bfloat16-weights": torch.bfloat16,
    "int8-weights": torch.int8,
    "int4-weights": torch.uint8,  # two weights per byte
}
ROUNDED_TO = {dtype: name.removesuffix("-weights") for name, dtype in WEIGHTS.items()}


class Opened(Struct, frozen=True):
    """Arguments of `load_model`."""

    name: str  # name or folder
    dtype: str
    revision: str | None


class StoredWeights(NamedTuple):
    """Quantized form of a checkpoint's weights."""

    form: str
    stored_bytes: int  # size of its files; 0: unknown
    taken_bytes: int  # size in memory
    settings: Any  # transformers' quantization configuration
    num_params: int
    expanded_to: str = ""  # dtype that they are expanded to; "": they are served in this form

    def __str__(self) -> str:
        stored = f"{size(self.stored_bytes)} in {self.form}" if self.stored_bytes else self.form
        return f"{stored}, expanded to {size(self.taken_bytes)} of {self.expanded_to}" if self.expanded_to else stored


GENERATION_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


@dataclass
class LoadedModel:
    """Model ready for `ModelRunner`: with paged attention and frozen weights."""

    module: Any  # a transformers PreTrainedModel
    tokenizer: Tokenizer | None
    facts: ModelFacts
    tokenizer_facts: TokenizerFacts
    layer_shapes: list[LayerShape]  # shapes of a token's keys and values, which are cached unless `latents` is set
    device: torch.device
    dtype: torch.dtype
    plain: PlainLogits  # logits of transformers' own forward pass for a few tokens
    states: StateLayers | None = None  # modules with a state per sequence; None: there are none
    latents: Latents | None = None  # latents that are cached instead of keys and values; None: it has none
    compiled: CompiledForward | None = None  # set by `compiled.Compilation` when it is done
    differences: dict[str, Difference] = field(default_factory=dict)  # to `plain`, by kind of KV cache ("auto", ...)
    check_seconds: float = 0.0  # duration of the comparison with `plain`
    opened: Opened | None = None  # None: the model was in memory
    dropped: list[str] = field(default_factory=list)  # parts that text does not use (`text_part`)
    stored: StoredWeights | None = None  # form of the checkpoint's weights; None: they are not quantized

    @property
    def only_eager(self) -> str:
        """Reason why the forward pass is never compiled, as the end of a sentence; "" if it can be compiled."""
        if self.states is not None:
            return "layers with recurrent states run in parts of a step"
        if self.latents is not None:
            return "attention over latents has no compiled form"
        if self.stored is not None and not self.stored.expanded_to:
            return "weights are multiplied in the form in which they are stored"
        return ""

    @property
    def default_sampling(self) -> dict[str, float]:
        """Sampling defaults of the model's generation config, by field of SamplingParams, as in vLLM."""
        config = self.module.generation_config
        values = {name: getattr(config, name, None) for name in GENERATION_DEFAULTS}
        found = {name: value for name, value in values.items() if value is not None}
        if found.get("top_k", 0) < 0:  # some files use -1 for "off"
            del found["top_k"]
        return found

    @property
    def keeps_logits(self) -> bool:
        """Whether the model can compute the logits of selected tokens only (`logits_to_keep` accepts indices)."""
        return "logits_to_keep" in inspect.signature(self.module.forward).parameters
