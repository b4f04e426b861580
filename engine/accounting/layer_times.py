"""Measured layer times on GPUs: `layer_times.toml`, and a user's own file."""

from __future__ import annotations

import functools
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

FILE = Path(__file__).with_name("layer_times.toml")


class LayerTimes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Layer times on one of `tensor_parallel` GPUs, by the number of tokens of a step; without attention."""

    gpu: str
    model: str
    tensor_parallel: int
    tokens: list[int]
    milliseconds: list[float]
    all_reduce: list[float] = []  # milliseconds of one, between the GPUs; empty: there is one GPU
    layers_of: str = ""  # this model is not measured: another's times stand in, multiplied by `scaled`
    scaled: float = 1.0
    source: str = ""  # of the measurement; empty: the file's

    def __post_init__(self) -> None:
        """Refuse times that cannot be drawn a line through.

        Raises:
            ValueError: the lists are not equally long, tokens do not rise, or a time is not above 0.
        """
        whose = f"the layer of {self.model} on {self.tensor_parallel} × {self.gpu}"
        if self.tensor_parallel < 1 or (self.tensor_parallel > 1) != bool(self.all_reduce):
            raise ValueError(f"{whose} needs all_reduce where GPUs split it, and only there")
        if not self.tokens or any(b <= a for a, b in pairwise([0, *self.tokens])):
            raise ValueError(f"tokens of {whose} must begin above 0 and rise")
        if {len(self.milliseconds), len(self.all_reduce or self.tokens)} != {len(self.tokens)}:
            raise ValueError(f"{whose} needs a time for each number of tokens")
        if not all(took > 0 for took in [*self.milliseconds, *self.all_reduce]):
            raise ValueError(f"times of {whose} must be above 0")


class LayerFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shipped layer times and their source."""

    source: str
    licence: str
    layer: list[LayerTimes]


@functools.cache
def layer_file() -> LayerFile:
    """As it is shipped."""
    found = msgspec.toml.decode(FILE.read_bytes(), type=LayerFile)
    return replace(found, layer=[replace(one, source=one.source or found.source) for one in found.layer])
