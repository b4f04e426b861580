"""One traced graph made into a library, and what must be known of it beside its file; written down for another process.

one.so, one.json       the code, and how it calls operations that have no C function (`build_libraries`)
one.origins            where each constant comes from (`ahead_of_time`)
one.safetensors        small constants that no weight of the model has
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from engine.model.ahead_of_time import Origin, constants_of, origins_of
from engine.model.build_libraries import building
from engine.model.merge_linears import MergedWeights


class MadeLibrary(NamedTuple):
    """Of one graph."""

    path: Path
    origins: dict[str, Origin]
    tensors: dict[str, Tensor]  # those that origins call kept

    @property
    def files(self) -> dict[str, Path]:
        """What is called, by the files' names."""
        calls = self.path.with_suffix(".json")
        return {file.name: file for file in (self.path, calls) if file.exists()}


def make_libraries(
    graphs: dict[str, torch.fx.GraphModule],
    module: nn.Module,
    weights: MergedWeights,
    folder: Path,
    options: Mapping[str, Any],
) -> dict[str, MadeLibrary]:
    """By name; the one that takes longest comes last in `graphs` and is begun first.

    Raises:
        Exception: a compiler may raise anything.
    """
    from engine.model.compiler_cache import use_own_cache  # the compiler takes a second to import

    use_own_cache()
    with building(folder, options) as builder:
        begun = {name: builder.begin(name, graphs[name]) for name in reversed(graphs)}
        libraries = {name: builder.finish(begun[name]) for name in graphs}
    made = {}
    for name, library in libraries.items():
        origins, small = origins_of(constants_of(library), graphs[name], module, weights)
        origins = {k: Origin(kept=f"{name}.{o.kept}") if o.kept else o for k, o in origins.items()}
        made[name] = MadeLibrary(library, origins, {f"{name}.{key}": tensor for key, tensor in small.items()})
    return made


def write_down(made: MadeLibrary) -> None:
    """Beside the library, for `read_again`."""
    made.path.with_suffix(".origins").write_bytes(msgspec.json.encode(made.origins))
    save_file(made.tensors, made.path.with_suffix(".safetensors"))


def read_again(path: Path) -> MadeLibrary:
    """What another process wrote down of the library at `path`.

    Raises:
        OSError, ValueError: it is not there, or something else.
    """
    origins = msgspec.json.decode(path.with_suffix(".origins").read_bytes(), type=dict[str, Origin])
    return MadeLibrary(path, origins, load_file(path.with_suffix(".safetensors")))
