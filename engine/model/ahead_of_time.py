"""Traced graph as a shared library without weights, which later starts of the program reuse.

    graph --AOTInductor--> one.so, one.json        the code, and how it calls attention (`build_libraries`)
                           origins                 where each constant of the code comes from: a weight of the model,
                                                   merged weights, or a small tensor stored beside the library

The code reads the model's own tensors in place: nothing is copied.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from msgspec import Struct
from torch import Tensor, nn

from engine.model.merge_linears import MergedWeights

MAX_CALLS = 2  # maximum number of concurrent calls; further callers wait
LARGEST = 1 << 20  # maximum size in bytes of a stored tensor, which is not a weight of the model


class Origin(Struct, frozen=True, omit_defaults=True):
    """Source of a constant: one parameter or buffer of the model, several parameters that are merged, or a stored
    tensor."""

    names: tuple[str, ...] = ()
    stored: str = ""
    is_bias: bool = False


class CompiledGraph:
    """Library with its constants bound; callable from several threads."""

    def __init__(self, library: Path, constants: Mapping[str, Tensor]) -> None:
        """`constants` maps the code's constant names to tensors.

        Raises:
            RuntimeError: the library cannot be loaded, or its constants are not exactly these.
        """
        runner: Any = torch._C._aoti.AOTIModelContainerRunnerCpu(str(library), MAX_CALLS)  # type: ignore[attr-defined]
        if set(runner.get_constant_names_to_original_fqns()) != set(constants):
            raise RuntimeError(f"{library.name} has other constants than its metadata lists")
        self._constants = dict(constants)  # the code reads them in place
        runner.update_constant_buffer(self._constants, False, True, True)
        self._run = runner.run
        self._call_slots = threading.BoundedSemaphore(MAX_CALLS)  # waiting inside the runner would block other threads

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        with self._call_slots:
            found: list[Tensor] = self._run(list(inputs))
        return found


def constants_of(library: Path) -> dict[str, str]:
    """Return a mapping from the code's name of each constant to its name in the graph."""
    runner: Any = torch._C._aoti.AOTIModelContainerRunnerCpu(str(library), 1)  # type: ignore[attr-defined]
    return dict(runner.get_constant_names_to_original_fqns())


def origins_of(
    constants: Mapping[str, str], graph: torch.fx.GraphModule, root: nn.Module, weights: MergedWeights
) -> tuple[dict[str, Origin], dict[str, Tensor]]:
    """Return the origin of each constant by its name in the code, and the tensors that must be stored.

    Raises:
        ValueError: a constant is not in the graph, or is too large to be stored.
    """
    own = dict(_tensors(root))
    merged = {tensor.data_ptr(): Origin(names=names) for names, tensor in weights.merged()}
    biases = {tensor.data_ptr(): Origin(names=names, is_bias=True) for names, tensor in weights.merged_biases()}
    origins: dict[str, Origin] = {}
    stored: dict[str, Tensor] = {}
    for code_name, name in constants.items():
        tensor = _attribute(graph, name)
        known = own.get(name)
        if known is not None and known.data_ptr() == tensor.data_ptr():
            origins[code_name] = Origin(names=(name,))
        elif (found := {**merged, **biases}.get(tensor.data_ptr())) is not None and tensor.numel():
            origins[code_name] = found
        elif tensor.nbytes <= LARGEST:
            key = f"constant_{len(stored)}"
            stored[key] = tensor.detach().clone().contiguous()
            origins[code_name] = Origin(stored=key)
        else:
            raise ValueError(f"the constant {name} is not a weight of the model")
    return origins, stored


def bound(
    origins: Mapping[str, Origin], root: nn.Module, weights: MergedWeights, stored: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the constants by their names in the code.

    Raises:
        KeyError, AttributeError: the model lacks a required tensor.
    """
    own = dict(_tensors(root))
    found: dict[str, Tensor] = {}
    for name, origin in origins.items():
        if origin.stored:
            found[name] = stored[origin.stored]
        elif origin.is_bias:
            found[name] = weights.bias_of(root, origin.names)
        elif len(origin.names) > 1:
            found[name] = weights.of(root, origin.names)
        else:
            found[name] = own[origin.names[0]].detach()
    return found


def _tensors(root: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from root.named_parameters(remove_duplicate=False)
    yield from root.named_buffers(remove_duplicate=False)


def _attribute(graph: torch.fx.GraphModule, name: str) -> Tensor:
    owner, _, attribute = name.rpartition(".")
    found = getattr(graph.get_submodule(owner), attribute, None) if name else None
    if not isinstance(found, Tensor):
        raise ValueError(f"the compiler added a constant {name} that is not in the graph")
    return found
