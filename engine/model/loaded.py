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
    "int4-weights": torch.uint8,  # two in one
}
ROUNDED_TO = {dtype: name.removesuffix("-weights") for name, dtype in WEIGHTS.items()}


class Opened(Struct, frozen=True):
    """Arguments that `load_model` was called with."""

    name: str  # or a folder
    dtype: str
    revision: str | None


class StoredWeights(NamedTuple):
    """Stored form of a checkpoint's weights, if it is not plain numbers."""

    form: str
    stored_bytes: int  # size of its files; 0: unknown
    taken_bytes: int  # size in memory
    settings: Any  # transformers' configuration to read them
    num_params: int
    expanded_to: str = ""  # dtype; "": served as they are

    def __str__(self) -> str:
        stored = f"{size(self.stored_bytes)} in {self.form}" if self.stored_bytes else self.form
        return f"{stored}, expanded to {size(self.taken_bytes)} of {self.expanded_to}" if self.expanded_to else stored


GENERATION_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


@dataclass
class LoadedModel:
    """Model ready for `ModelRunner`: its attention is paged, its weights are frozen."""

    module: Any  # a transformers PreTrainedModel
    tokenizer: Tokenizer | None
    facts: ModelFacts
    tokenizer_facts: TokenizerFacts
    layer_shapes: list[LayerShape]  # of a token's keys and values, which are cached unless `latents` are
    device: torch.device
    dtype: torch.dtype
    plain: PlainLogits  # its plain logits of a few tokens
    states: StateLayers | None = None  # modules with a state per sequence; None: there are none
    latents: Latents | None = None  # cached in place of keys and values; None: those are cached
    compiled: CompiledForward | None = None  # set by `compiled.Compilation` when it is done
    # between each way to serve it and `plain`, by kind of cache ("auto": its own); and the time of comparing
    differences: dict[str, Difference] = field(default_factory=dict)
    check_seconds: float = 0.0
    opened: Opened | None = None  # None: the model was in memory
    dropped: list[str] = field(default_factory=list)  # parts that text does not use (`text_part`)
    stored: StoredWeights | None = None  # form of the checkpoint's weights; None: plain numbers

    @property
    def only_eager(self) -> str:
        """Reason why its forward pass is never compiled, as the end of a sentence; "" if it may be."""
        if self.states is not None:
            return "layers with recurrent states run in parts of a step"
        if self.latents is not None:
            return "attention over latents has no compiled form"
        if self.stored is not None and not self.stored.expanded_to:
            return "weights are multiplied in the form in which they are stored"
        return ""

    @property
    def default_sampling(self) -> dict[str, float]:
        """Sampling defaults of the model's generation config, by field of SamplingParams; vLLM uses the same ones."""
        defaults = self.module.generation_config
        given = {name: getattr(defaults, name, None) for name in GENERATION_DEFAULTS}
        found = {name: value for name, value in given.items() if value is not None}
        if found.get("top_k", 0) < 0:  # some files write off as -1
            del found["top_k"]
        return found

    @property
    def keeps_logits(self) -> bool:
        """Whether the family can compute the logits of selected tokens only (`logits_to_keep` takes indices)."""
        return "logits_to_keep" in inspect.signature(self.module.forward).parameters
