"""A model that is ready to be served."""

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
WEIGHTS = {  # of linear layers alone, on the CPU: they are rounded to it, and everything is computed in float32
    "bfloat16-weights": torch.bfloat16,
    "int8-weights": torch.int8,
}


class Opened(Struct, frozen=True):
    """What `load_model` was asked for."""

    name: str  # or a folder
    dtype: str
    revision: str | None


class StoredWeights(NamedTuple):
    """The stored form of a checkpoint's weights, where it is not plain numbers."""

    form: str
    stored_bytes: int  # of its files; 0: not known
    taken_bytes: int  # of memory
    settings: Any  # transformers' own, to read them with
    num_params: int
    expanded_to: str = ""  # dtype; "": served as they are

    def __str__(self) -> str:
        stored = f"{size(self.stored_bytes)} in {self.form}" if self.stored_bytes else self.form
        return f"{stored}, expanded to {size(self.taken_bytes)} of {self.expanded_to}" if self.expanded_to else stored


GENERATION_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


@dataclass
class LoadedModel:
    """A model ready for `ModelRunner`: its attention is the paged one, its weights are frozen."""

    module: Any  # a transformers PreTrainedModel
    tokenizer: Tokenizer | None
    facts: ModelFacts
    tokenizer_facts: TokenizerFacts
    layer_shapes: list[LayerShape]  # keys and values of a token in each layer; they are kept unless `latents` are
    device: torch.device
    dtype: torch.dtype
    plain: PlainLogits  # its plain logits of a few tokens
    states: StateLayers | None = None  # modules that keep a state of a sequence; None: there are none
    latents: Latents | None = None  # kept in place of keys and values; None: they are kept
    compiled: CompiledForward | None = None  # set by `compiled.Compilation` when it is done
    # of each way to serve it from these, by kind of cache ("auto": its own); how long comparing took
    differences: dict[str, Difference] = field(default_factory=dict)
    check_seconds: float = 0.0
    opened: Opened | None = None  # None: it was in memory
    dropped: list[str] = field(default_factory=list)  # parts that text does not run (`text_part`)
    stored: StoredWeights | None = None  # how its checkpoint has the weights; None: plain numbers

    @property
    def only_eager(self) -> str:
        """Why its forward pass is never compiled, as the end of a sentence; "": it may be."""
        if self.states is not None:
            return "layers with recurrent states run in parts of a step"
        if self.latents is not None:
            return "attention over latents has no compiled form"
        if self.stored is not None and not self.stored.expanded_to:
            return "weights are multiplied in the form in which they are stored"
        return ""

    @property
    def default_sampling(self) -> dict[str, float]:
        """What the model's generation config says of sampling, by field of SamplingParams; vLLM takes the same ones."""
        said = self.module.generation_config
        given = {name: getattr(said, name, None) for name in GENERATION_DEFAULTS}
        found = {name: value for name, value in given.items() if value is not None}
        if found.get("top_k", 0) < 0:  # off, as some files say it
            del found["top_k"]
        return found

    @property
    def keeps_logits(self) -> bool:
        """Whether the family can compute the logits of chosen tokens alone (`logits_to_keep` takes indices)."""
        return "logits_to_keep" in inspect.signature(self.module.forward).parameters
