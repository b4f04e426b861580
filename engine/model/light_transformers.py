"""Imports transformers without dependencies that no model here uses.

Its modules import torch's compiler (for decorators, and for masks that are given as functions), torch's distributed
tensors and flexible attention, and scipy (for the loss of an object detector). Together they take more time and memory
than torch itself. While transformers' base is imported here, these packages appear to be absent; later imports are
unaffected. A program that uses one of them through transformers gets it then (`_complete`). If transformers or torch
differ from what is expected, if ranks of `torch.distributed` are started, or if the environment variable
KVTHEATER_LIGHT_IMPORT is 0, they are imported completely.

Everything used of transformers is imported through this module, so that nothing else imports it first.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
import transformers
import transformers.utils
from transformers.utils import import_utils

log = logging.getLogger(__name__)
_compiler = threading.RLock()  # guards the modules under the compiler's name
IS_LIGHT = os.environ.get("KVTHEATER_LIGHT_IMPORT") != "0" and "WORLD_SIZE" not in os.environ
DISTRIBUTED, FLEX, SCIPY = ABSENT = (
    "is_torch_distributed_available",
    "is_torch_flex_attn_available",
    "is_scipy_available",
)
MATCHES = "linear_sum_assignment"  # of scipy
LISTING = "create_import_structure_from_path"
COMPILER = "torch._dynamo"
# decorators that configure the compiler
DECORATORS = ("allow_in_graph", "assume_constant_result", "disable", "mark_static_address")
MASKS = f"{COMPILER}._trace_wrapped_higher_order_op"  # of it a mode is used, where a mask is given as a function
BASE = ("transformers.modeling_utils", "transformers.generation.utils")


def import_base() -> None:
    """Import the parts of transformers that every model needs. No-op if they, or the compiler, are imported already."""
    if not IS_LIGHT or BASE[0] in sys.modules or COMPILER in sys.modules:
        return
    before = set(sys.modules)
    try:
        with _absent_packages(), _models_listed_once(), without_compiler():
            for name in BASE:
                importlib.import_module(name)
    except (ImportError, AttributeError, TypeError) as error:
        log.info("transformers is imported whole: %s", error)
        for name in set(sys.modules) - before:
            if name.startswith("transformers."):
                del sys.modules[name]


class _Hidden:
    """Replacement of a function that says whether a package is available."""

    is_hiding = True

    def __init__(self, name: str) -> None:
        self.name, self.real = name, getattr(import_utils, name)

    def __call__(self) -> bool:
        is_unused = self.name == DISTRIBUTED and not (dist.is_available() and dist.is_initialized())
        if _Hidden.is_hiding or is_unused:
            return False
        _complete()
        return bool(self.real())


@contextmanager
def _absent_packages() -> Iterator[None]:
    places = [(place, name) for place in (transformers.utils, import_utils) for name in ABSENT]
    before = [(place, name, getattr(place, name)) for place, name in places]
    for place, name in places:
        setattr(place, name, _Hidden(name))
    try:
        yield
    finally:
        for place, name, value in before:
            setattr(place, name, value)
        _Hidden.is_hiding = False
    for module, hidden in _incomplete():
        if SCIPY in hidden:  # the losses call what they import without asking again
            setattr(module, MATCHES, partial(_matches, module))


def _matches(module: ModuleType, *given: Any, **named: Any) -> Any:
    _complete()
    return getattr(module, MATCHES)(*given, **named)


def _incomplete() -> list[tuple[ModuleType, dict[str, _Hidden]]]:
    """Return transformers' modules from which packages were hidden, with what replaces functions in them."""
    found = []
    for name, module in list(sys.modules.items()):
        if name.startswith("transformers."):
            hidden = {of: v for of in ABSENT if isinstance(v := vars(module).get(of), _Hidden)}
            found += [(module, hidden)] if hidden else []
    return found


def _complete() -> None:
    """Run what transformers' modules skipped because a package was hidden: their top-level `if is_…_available():`."""
    for module, hidden in _incomplete():
        vars(module).update({name: one.real for name, one in hidden.items()})
        for part in ast.parse(inspect.getsource(module)).body:
            if isinstance(part, ast.If) and not hidden.keys().isdisjoint(ast.unparse(part.test).rstrip("()").split()):
                exec(compile(ast.Module([part], []), str(module.__file__), "exec"), vars(module))


@contextmanager
def _models_listed_once() -> Iterator[None]:
    """Let transformers list the classes of its model files once inside the `with`. It reads all files twice, under two
    names of the same folder; here the second call returns the result of the first.
    """
    before = getattr(import_utils, LISTING, None)
    models = Path(transformers.__file__).parent / "models"
    if before is None:
        yield
        return

    def listed(path: str | Path) -> Any:
        return before(models if Path(path) == models / "__init__.py" else path)

    setattr(import_utils, LISTING, listed)
    try:
        yield
    finally:
        setattr(import_utils, LISTING, before)


def bring_compiler() -> None:
    """Import torch's compiler, on any thread."""
    with _compiler:
        importlib.import_module(COMPILER)


@contextmanager
def without_compiler() -> Iterator[None]:
    """Install stand-ins under the compiler's module names inside the `with`: decorators that change nothing, and a
    class that imports the compiler when it is called. No-op if the compiler is imported.

    Models are loaded inside it, because torch would import the whole compiler only to exclude a few functions from it.
    """
    with _compiler:
        if IS_LIGHT and COMPILER not in sys.modules:
            with _stand_in():
                yield
        else:
            yield


@contextmanager
def _stand_in() -> Iterator[None]:
    package, masks = ModuleType(COMPILER), ModuleType(MASKS)
    for name in DECORATORS:
        setattr(package, name, _undecorated)
    masks.TransformGetItemToIndex = _mode  # type: ignore[attr-defined]
    sys.modules.update({COMPILER: package, MASKS: masks})
    torch._dynamo = package  # type: ignore[assignment]
    try:
        yield
    finally:
        del torch._dynamo, sys.modules[COMPILER], sys.modules[MASKS]


def _undecorated(fn: Any = None, *_: Any, **__: Any) -> Any:
    return fn if fn is not None else _undecorated


def _mode(*given: Any) -> Any:
    return importlib.import_module(MASKS).TransformGetItemToIndex(*given)


import_base()
from transformers import (  # noqa: E402 - what they bring has been kept away
    AttentionInterface,
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    Cache,
    DynamicCache,
    cache_utils,
)
from transformers.cache_utils import StaticLayer  # noqa: E402
from transformers.masking_utils import AttentionMaskInterface  # noqa: E402
from transformers.models.auto.modeling_auto import AutoModelForSpeechSeq2Seq  # noqa: E402

# None: this transformers keeps no states in its cache
LinearAttentionLayer: Any = getattr(cache_utils, "LinearAttentionLayer", None)

__all__ = [
    "AttentionInterface",
    "AttentionMaskInterface",
    "AutoConfig",
    "AutoModelForCausalLM",
    "AutoModelForImageTextToText",
    "AutoModelForSeq2SeqLM",
    "AutoModelForSpeechSeq2Seq",
    "AutoTokenizer",
    "Cache",
    "DynamicCache",
    "LinearAttentionLayer",
    "StaticLayer",
]
