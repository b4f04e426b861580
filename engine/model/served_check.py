"""Checks of all served paths of a model before it serves, with the comparison of `plain_check`."""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from engine.model.attention_backend import AttentionBackend
from engine.model.attention_reference import ReferenceAttention
from engine.model.batch import SequenceSlice
from engine.model.compiled_forward import CompiledForward
from engine.model.errors import ModelError
from engine.model.loaded import LoadedModel
from engine.model.plain_check import BLOCK_SIZE, LENGTHS, ROUNDINGS, STEPS, TABLES, Difference, compare_logits
from engine.model.runner import ModelRunner
from engine.options.refusal import sentence

log = logging.getLogger(__name__)

# Kinds of KV caches, and their distance between adjacent numbers, relative to the number or (int8, int4) to the largest
# one. A number near the middle may round either way if its last bit differs.
KINDS = {"float32": 2**-24, "float16": 2**-11, "bfloat16": 2**-8, "fp8": 2**-4, "int8": 1 / 127, "int4": 1 / 15}


# Bound on the worst row of models with states in half precision. Rounding and a router's near tie change a row little,
# while a row computed without its state is uncorrelated with the expected one (its share is about 1.4).
HALF_WORST = 0.7


def check_served(model: LoadedModel, compiled: CompiledForward | None = None) -> None:
    """Check that the model, eager or compiled, computes the same over a paged cache as its plain forward pass.

    Raises:
        ModelError: the results differ.
    """
    served = _served(model, "auto", compiled)
    found = compare_logits(served, model.plain.logits, model.dtype)
    if model.plain.rounding is not None:
        found = found._replace(tolerance=min(found.tolerance, ROUNDINGS * model.plain.rounding))
    elif model.states is not None and found.is_rounding:  # half precision: a lost state affects few rows
        worst = compare_logits(served, model.plain.logits, torch.float32).share
        found = Difference(worst, HALF_WORST) if worst > HALF_WORST else found
    _refuse(model, found, sentence("served.compiled" if compiled else "served.packed"), sentence("served.itself"))
    if compiled is None:
        model.differences["auto"] = found


def check_kv_cache_dtype(model: LoadedModel, kv_cache_dtype: str, compiled: CompiledForward | None = None) -> None:
    """Check that attention over a cache of this dtype equals the formula on its rounded keys and values.

    Each kind is checked once per model, with several passes over a few tokens.

    Raises:
        ModelError: the results differ.
    """
    if kv_cache_dtype in model.differences and compiled is None:
        return
    expected = _served(model, kv_cache_dtype, None, ReferenceAttention())
    found = compare_logits(_served(model, kv_cache_dtype, compiled), expected, model.dtype)
    found = found._replace(tolerance=max(found.tolerance, KINDS[kv_cache_dtype.removesuffix("_e4m3")]))
    _refuse(model, found, sentence("served.cache", dtype=kv_cache_dtype), sentence("served.formula"))
    if compiled is None:
        model.differences[kv_cache_dtype] = found


def check_compiled(model: LoadedModel, compiled: CompiledForward) -> None:
    """Check a compiled model over every kind of cache. Kinds over which it differs are recorded in `compiled.refused`;
    the eager path serves them.

    Raises:
        ModelError: the results differ over a cache of the model's dtype.
    """
    check_served(model, compiled)
    for kind in KINDS:
        try:
            check_kv_cache_dtype(model, kind, compiled)
        except ModelError as error:
            compiled.refused[kind] = str(error)
            log.warning("the eager path serves a cache of %s: %s", kind, error)


def _served(
    model: LoadedModel,
    kv_cache_dtype: str,
    compiled: CompiledForward | None,
    backend: AttentionBackend | None = None,
) -> list[Tensor]:
    """Return the logits [T, V] of each sequence, computed in the steps of `STEPS`, as float32 on the CPU."""
    num_blocks = sum(map(len, TABLES))
    runner = ModelRunner(model, num_blocks, BLOCK_SIZE, max(LENGTHS), kv_cache_dtype, backend)
    runner.compiled = compiled
    found: list[list[Tensor]] = [[] for _ in LENGTHS]
    for step in STEPS:
        slices = []
        for index, first, count in step:
            token_ids = model.plain.token_ids[index][first : first + count]
            slices.append(SequenceSlice(index, token_ids, first, [TABLES[index]], samples=True, all_logits=True))
        rows = torch.split(runner.execute(slices).logits.float().cpu(), [count for *_, count in step])
        for (index, *_), part in zip(step, rows, strict=True):
            found[index].append(part)
    return [torch.cat(parts) for parts in found]


def _refuse(model: LoadedModel, found: Difference, served: str, compared: str) -> None:
    if found.is_rounding:
        return
    name = type(model.module).__name__
    raise ModelError(
        sentence(
            "model.differs", name=name, served=served, compared=compared, share=found.share, tolerance=found.tolerance
        )
    )
