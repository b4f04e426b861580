"""Checks of whole models with a paged cache on the device, in each dtype: eager, compiled, and with captures."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from engine.model.capture import CaptureRequest
from engine.model.errors import ModelError
from engine.model.loaded import LoadedModel
from engine.model.loader import from_module, load_model
from engine.model.plain_check import compare_logits
from engine.model.served_check import KINDS, check_compiled, check_kv_cache_dtype
from tests.gpu.results import Run
from tests.parity.harness import Driver, eager_forward, mixed_schedule, random_prompt
from tests.tiny_models import VOCAB_SIZE, tiny_model

# grouped heads; windows and softcaps; sinks; norms of queries and keys; latent attention of two widths
FAMILIES = ["llama", "gemma2", "gpt_oss", "qwen3", "deepseek_v3"]
ROUTED = ("gpt_oss", "deepseek_v3")  # experts
SEQUENCES = {seq: random_prompt(length, VOCAB_SIZE, seq) for seq, length in {5: 14, 9: 18, 2: 11}.items()}
ROUNDED = {torch.float32: 1e-4, torch.bfloat16: 0.1, torch.float16: 0.05}  # relative to the spread of the logits


def checks(run: Run) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield every check of a model."""
    dtypes = (
        [torch.float32] if run.tiny else [torch.float32, torch.bfloat16, torch.float16][: 2 + (run.device != "cpu")]
    )
    families = FAMILIES[:2] if run.tiny else FAMILIES
    for dtype, family in itertools.product(dtypes, families):
        label = f"{family}, {str(dtype)[6:]}"
        yield f"{label}: logits", lambda d=dtype, f=family, at=label: _logits(run, f, d, at)  # type: ignore[misc]
        yield f"{label}: kinds of cache", lambda d=dtype, f=family: _kinds(run, f, d)  # type: ignore[misc]
        yield f"{label}: capture", lambda d=dtype, f=family: _capture(run, f, d)  # type: ignore[misc]
    yield "weights of fewer bits", lambda: _int8_weights(run)
    if not run.tiny:
        yield "compiled forward pass", lambda: _compiled(run)


def _on_device(run: Run, family: str, dtype: torch.dtype) -> LoadedModel:
    return from_module(tiny_model(family, dtype=dtype).to(run.device))


def _driven(model: LoadedModel, capture: CaptureRequest | None = None) -> tuple[Driver, list[Any]]:
    driver = Driver(model, 4, 16)
    return driver, mixed_schedule(driver, SEQUENCES, capture)


def _logits(run: Run, family: str, dtype: torch.dtype, label: str) -> str:
    """Compare mixed steps over scattered blocks with transformers in float32 on the CPU."""
    plain = tiny_model(family, dtype=dtype).float()  # same weights, rounded to dtype
    expected = {seq: eager_forward(plain, tokens).logits[0] for seq, tokens in SEQUENCES.items()}
    driver, _ = _driven(_on_device(run, family, dtype))
    keys = sorted(driver.logits)
    rows = [driver.logits[key].float()[None] for key in keys]
    wanted = [expected[seq][position][None] for seq, position in keys]
    found = compare_logits(rows, wanted, dtype)
    if not found.share <= ROUNDED[dtype]:
        run.mismatch(label, {"found": torch.cat(rows), "expected": torch.cat(wanted)}, {"keys": keys, "of": SEQUENCES})
        raise AssertionError(f"logits differ by {found.share:.2g} of their spread, allowed {ROUNDED[dtype]:g}")
    return f"off by {found.share:.1e} of their spread"


def _kinds(run: Run, family: str, dtype: torch.dtype) -> str:
    model = _on_device(run, family, dtype)
    for kind in KINDS:
        check_kv_cache_dtype(model, kind)
    worst = max(KINDS, key=lambda kind: model.differences[kind].share)
    return f"{', '.join(KINDS)}; worst {worst}: {model.differences[worst].share:.1e}"


def _capture(run: Run, family: str, dtype: torch.dtype) -> str:
    """Check that capturing does not change the logits, and that captures equal those on the CPU."""
    request = CaptureRequest(dtype="float32", outputs=True)
    model = _on_device(run, family, dtype)
    (plain, _), (watched, kept) = _driven(model), _driven(model, request)
    changed = [key for key, row in plain.logits.items() if not torch.equal(row, watched.logits[key])]
    if changed:
        raise AssertionError(f"capturing changes the logits of {len(changed)} of {len(plain.logits)} tokens")
    _, wanted = _driven(from_module(tiny_model(family, dtype=dtype).float()), request)
    worst = 0.0
    for mine, other in zip(kept, wanted, strict=True):
        first_only = dtype != torch.float32 and family in ROUTED
        for one, its in zip(mine.layers[: 1 if first_only else None], other.layers, strict=not first_only):
            pairs = [(getattr(one, name), getattr(its, name)) for name in ("q", "k", "v", "out")]
            pairs += [(row.weights, reference.weights) for row, reference in zip(one.rows, its.rows, strict=True)]
            worst = max(worst, *(float(np.abs(a - b).max()) for a, b in pairs if a.size))
    # arrays have magnitude 1 and rounding of three layers; after a near tie in a router they may differ arbitrarily
    allowed = 1e-4 if dtype == torch.float32 else 0.5
    if not worst <= allowed:
        raise AssertionError(f"captured arrays differ by {worst:.2g}, allowed {allowed:g}")
    return f"no logit changed; arrays off by {worst:.1e}"


def _int8_weights(run: Run) -> str:
    """Check that a GPU refuses int8 weights, which the CPU serves, with one sentence."""
    if run.device == "cpu":
        return f"{load_model(dtype='int8-weights', device='cpu').facts.bytes_per_weight:.2f} bytes a weight"
    try:
        load_model(dtype="int8-weights", device=run.device)
    except ModelError as error:
        return f"refused: {error}"
    raise AssertionError("int8-weights were accepted on a GPU, where nothing computes with them")


def _compiled(run: Run) -> str:
    from engine.model.compiled import compile_model

    model = load_model(device=run.device)
    check_compiled(model, compile_model(model))
    return "all kinds of cache"
