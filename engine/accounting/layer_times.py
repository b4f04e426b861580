"""Measured layer times on GPUs, from `layer_times.toml` or a user's file."""

from __future__ import annotations

import functools
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

FILE = Path(__file__).with_name("layer_times.toml")


class LayerTimes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times of a layer without attention, on one of `tensor_parallel` GPUs, by number of tokens in a step."""

    gpu: str
    model: str
    tensor_parallel: int
    tokens: list[int]
    milliseconds: list[float]
    all_reduce: list[float] = []  # milliseconds of an all-reduce between the GPUs; empty for one GPU
    layers_of: str = ""  # measured model whose times, multiplied by `scaled`, replace those of this model
    scaled: float = 1.0
    source: str = ""  # source of the measurement; empty: that of the file

    def __post_init__(self) -> None:
        """Validate the times.

        Raises:
            ValueError: the lists differ in length, the tokens are not ascending, or a time is not above 0.
        """
        owner = f"the layer of {self.model} on {self.tensor_parallel} × {self.gpu}"
        if self.tensor_parallel < 1 or (self.tensor_parallel > 1) != bool(self.all_reduce):
            raise ValueError(f"{owner} needs all_reduce if tensor_parallel > 1, and only then")
        if not self.tokens or any(b <= a for a, b in pairwise([0, *self.tokens])):
            raise ValueError(f"tokens of {owner} must be above 0 and ascending")
        if {len(self.milliseconds), len(self.all_reduce or self.tokens)} != {len(self.tokens)}:
            raise ValueError(f"{owner} needs a time for each number of tokens")
        if not all(time > 0 for time in [*self.milliseconds, *self.all_reduce]):
            raise ValueError(f"times of {owner} must be above 0")


class LayerFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shipped layer times and their source."""

    source: str
    licence: str
    layer: list[LayerTimes]


@functools.cache
def layer_file() -> LayerFile:
    found = msgspec.toml.decode(FILE.read_bytes(), type=LayerFile)
    return replace(found, layer=[replace(one, source=one.source or found.source) for one in found.layer])
