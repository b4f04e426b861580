"""Imports transformers without dependencies that no model here uses.

transformers imports torch's compiler (for decorators, and for masks defined by functions), torch's distributed tensors
and flexible attention, and scipy (for the loss of an object detector). Together they take more time and memory than
torch itself. While transformers' base is imported here, these packages appear to be absent; later imports are
unaffected. If a program uses one of them through transformers, it is imported at that moment (`_complete`). Everything
is imported if transformers or torch have unexpected versions, if ranks of `torch.distributed` are started, or if the
environment variable KVTHEATER_LIGHT_IMPORT is 0.

Other modules import transformers' names from here, so that none of them imports transformers first.
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
_compiler = threading.RLock()  # guards the compiler's entries in sys.modules
IS_LIGHT = os.environ.get("KVTHEATER_LIGHT_IMPORT") != "0" and "WORLD_SIZE" not in os.environ
DISTRIBUTED, FLEX, SCIPY = ABSENT = (
    "is_torch_distributed_available",
    "is_torch_flex_attn_available",
    "is_scipy_available",
)
ASSIGNMENT = "linear_sum_assignment"  # scipy's function
LISTING = "create_import_structure_from_path"
COMPILER = "torch._dynamo"
# decorators that configure the compiler
DECORATORS = ("allow_in_graph", "assume_constant_result", "disable", "mark_static_address")
MASKS = f"{COMPILER}._trace_wrapped_higher_order_op"  # has a mode for masks defined by functions
BASE = ("transformers.modeling_utils", "transformers.generation.utils")


def import_base() -> None:
    """Import the parts of transformers that every model needs. No-op if they or the compiler are already imported."""
    if not IS_LIGHT or BASE[0] in sys.modules or COMPILER in sys.modules:
        return
    before = set(sys.modules)
    try:
        with _absent_packages(), _models_listed_once(), without_compiler():
            for name in BASE:
                importlib.import_module(name)
    except (ImportError, AttributeError, TypeError) as error:
        log.info("transformers is imported with all dependencies: %s", error)
        for name in set(sys.modules) - before:
            if name.startswith("transformers."):
                del sys.modules[name]


class _Hidden:
    """Replacement of a function that returns whether a package is available."""

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
        if SCIPY in hidden:  # the losses call the function without checking for scipy again
            setattr(module, ASSIGNMENT, partial(_assign, module))


def _assign(module: ModuleType, *args: Any, **kwargs: Any) -> Any:
    _complete()
    return getattr(module, ASSIGNMENT)(*args, **kwargs)


def _incomplete() -> list[tuple[ModuleType, dict[str, _Hidden]]]:
    """Return transformers' modules from which packages were hidden, with the replaced functions in them."""
    found = []
    for name, module in list(sys.modules.items()):
        if name.startswith("transformers."):
            hidden = {of: v for of in ABSENT if isinstance(v := vars(module).get(of), _Hidden)}
            found += [(module, hidden)] if hidden else []
    return found


def _complete() -> None:
    """Run the top-level `if is_…_available():` statements that transformers' modules skipped."""
    for module, hidden in _incomplete():
        vars(module).update({name: one.real for name, one in hidden.items()})
        for part in ast.parse(inspect.getsource(module)).body:
            if isinstance(part, ast.If) and not hidden.keys().isdisjoint(ast.unparse(part.test).rstrip("()").split()):
                exec(compile(ast.Module([part], []), str(module.__file__), "exec"), vars(module))


@contextmanager
def _models_listed_once() -> Iterator[None]:
    """Make transformers list the classes of its model files only once inside the `with`. It lists the same folder under
    two names; here the second call returns the result of the first.
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


def import_compiler() -> None:
    """Import torch's compiler; callable on any thread."""
    with _compiler:
        importlib.import_module(COMPILER)


@contextmanager
def without_compiler() -> Iterator[None]:
    """Replace the compiler's modules inside the `with` by stubs: decorators without effect, and a class that imports
    the compiler when it is called. No-op if the compiler is imported.

    Models are loaded inside it, because torch would import the whole compiler only to exclude a few functions from it.
    """
    with _compiler:
        if IS_LIGHT and COMPILER not in sys.modules:
            with _stubs():
                yield
        else:
            yield


@contextmanager
def _stubs() -> Iterator[None]:
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


def _mode(*args: Any) -> Any:
    return importlib.import_module(MASKS).TransformGetItemToIndex(*args)


import_base()
from transformers import (  # noqa: E402 - `import_base` has to run first
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

# None: this version of transformers has no states in its cache
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
