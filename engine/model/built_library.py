"""Library built from a traced graph, and its metadata; serialized for another process.

one.so, one.json       the code, and how it calls operations that have no C function (`build_libraries`)
one.origins            where each constant comes from (`ahead_of_time`)
one.safetensors        small constants that are not weights of the model
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


class BuiltLibrary(NamedTuple):
    """Built library of a graph, with its constants' origins."""

    path: Path
    origins: dict[str, Origin]
    tensors: dict[str, Tensor]  # stored constants, by `Origin.stored`
    early_weights: int = 0  # see `CompiledForward`

    @property
    def files(self) -> dict[str, Path]:
        """Files that calling the library needs, by name."""
        calls = self.path.with_suffix(".json")
        return {file.name: file for file in (self.path, calls) if file.exists()}


def make_libraries(
    graphs: dict[str, torch.fx.GraphModule],
    module: nn.Module,
    weights: MergedWeights,
    folder: Path,
    options: Mapping[str, Any],
) -> dict[str, BuiltLibrary]:
    """Build a library of each graph, by name. The build of the last graph starts first; it should be the slowest.

    Raises:
        Exception: a compiler may raise anything.
    """
    from engine.model.compiler_cache import use_own_cache  # the compiler takes a second to import

    use_own_cache()
    with building(folder, options) as builder:
        started = {name: builder.begin(name, graphs[name]) for name in reversed(graphs)}
        paths = {name: builder.finish(started[name]) for name in graphs}
    built = {}
    for name, library in paths.items():
        origins, small = origins_of(constants_of(library), graphs[name], module, weights)
        origins = {k: Origin(stored=f"{name}.{o.stored}") if o.stored else o for k, o in origins.items()}
        stored, early = {f"{name}.{key}": tensor for key, tensor in small.items()}, graphs[name].meta["early_weights"]
        built[name] = BuiltLibrary(library, origins, stored, early)
    return built


def write_metadata(built: BuiltLibrary) -> None:
    """Write the metadata beside the library, for `read_library`."""
    built.path.with_suffix(".origins").write_bytes(msgspec.json.encode(built.origins))
    save_file(built.tensors, built.path.with_suffix(".safetensors"))


def read_library(path: Path) -> BuiltLibrary:
    """Read the metadata that another process wrote for the library at `path`.

    Raises:
        OSError, ValueError: the metadata is missing or invalid.
    """
    origins = msgspec.json.decode(path.with_suffix(".origins").read_bytes(), type=dict[str, Origin])
    return BuiltLibrary(path, origins, load_file(path.with_suffix(".safetensors")))
