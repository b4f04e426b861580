"""Checks of further engine features: equal results on the device and on the CPU, in float32."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

import torch

from engine.cache.forget_settings import PolicyName
from engine.cluster.build import local_cluster
from engine.config import USUAL_DRAFTS, EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.capture import CaptureRequest
from engine.model.loaded import LoadedModel
from engine.model.loader import from_module, load_model
from engine.model.plain_check import compare_logits
from engine.model.recompute import recompute_sequence
from engine.requests.request_spec import RequestSpec
from tests import quantized_files
from tests.gpu.results import Run, Skipped
from tests.parity.harness import Driver, mixed_schedule, random_prompt
from tests.tiny_models import VOCAB_SIZE, tiny_model

PROMPTS = ["春江潮水连海平，海上明月共潮生。", "Once upon a time, there was a little girl, and she", "床前明月光，"]
LATENT = "deepseek_v3"
NUM_TOKENS = 24
GREEDY: dict[str, Any] = {"max_tokens": NUM_TOKENS, "ignore_eos": True}


class Setup(NamedTuple):
    """Model and its serving settings."""

    source: str  # a shipped model, or a family of tests/tiny_models.py
    config: dict[str, Any]
    sampling: dict[str, Any] = {}
    captured: bool = False


SERVED = {
    **{f"forgetting by {name}": Setup("bundled", {"forget_policy": name, "forget_budget": 12})
       for name in get_args(PolicyName)},
    "forgetting beside the full cache": Setup(
        "bundled", {"forget_policy": "h2o", "forget_budget": 12, "forget_compare": True}, captured=True),
    "forgetting and preemption": Setup("bundled", {"forget_policy": "snapkv", "forget_budget": 12, "num_blocks": 7}),
    **{f"drafts by {json.loads(text)['method']}": Setup("bundled", {"speculative_config": text})
       for text in USUAL_DRAFTS},
    "a head and a layer off": Setup("bundled", {"ablate": "1.3@4 2@9"}, captured=True),
    "a window with sinks": Setup("bundled", {"attention_window": 8, "attention_sinks": 2}),
    "groups of layers": Setup(
        "bundled", {"attention_window": 8, "attention_sinks": 0, "sliding_window_pattern": 2, "num_blocks": None}),
    "samples": Setup("bundled", {}, {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "seed": 3, "n": 3}),
    "beams": Setup("bundled", {"num_blocks": 24}, {"use_beam_search": True, "beam_width": 3}),
    "penalties and log probabilities": Setup(
        "bundled", {}, {"repetition_penalty": 1.2, "logit_bias": {300: 5.0}, "logprobs": 5, "prompt_logprobs": 2}),
    "states": Setup("bundled-hybrid", {"mamba_block_size": 16, "max_num_batched_tokens": 9}, captured=True),
    "states and preemption": Setup("bundled-hybrid", {"num_blocks": 10}),
    "states in CPU memory": Setup("bundled-hybrid", {"num_blocks": 10, "preemption_mode": "swap"}),
    "latents": Setup(LATENT, {"max_num_batched_tokens": 9}, captured=True),
    "latents and preemption": Setup(LATENT, {"num_blocks": 14}),
    "latents in CPU memory": Setup(LATENT, {"num_blocks": 14, "preemption_mode": "swap"}),
    "latents of 8 bits": Setup(LATENT, {"kv_cache_dtype": "int8"}),
    "a cache for each sequence": Setup("bundled", {"strategy": "dynamic"}),
    "no cache": Setup("bundled", {"strategy": "none"}),
}  # fmt: skip


def checks(run: Run) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield all checks; with `tiny`, one of each kind."""
    names = list(SERVED)[:: 6 if run.tiny else 1]
    for name in names:
        yield name, lambda of=SERVED[name]: _as_on_cpu(run.device, of)  # type: ignore[misc]
    yield "prefill and decode apart", lambda: _instances(run.device)
    yield "recomputing a sequence", lambda: _recomputed(run.device)
    for form in quantized_files.FORMS:
        yield f"weights stored as {form}", lambda of=form: _quantized(run.device, of)  # type: ignore[misc]


@cache
def _model(source: str, device: str) -> LoadedModel:
    if source.startswith("bundled"):
        return load_model(source, dtype="float32", device=device)
    return from_module(tiny_model(source).to(device))


def _prompts(model: LoadedModel) -> Sequence[str | list[int]]:
    if model.tokenizer is not None:
        return PROMPTS
    return [[3 + (7 * index + 5 * at) % (VOCAB_SIZE - 3) for at in range(23)] for index in range(3)]


def _served(model: LoadedModel, served: Setup) -> list[list[int]]:
    given = {"num_blocks": 96, "block_size": 4 if served.source == LATENT else 8, "enforce_eager": True}
    capture = CaptureRequest(outputs=True) if served.captured else None
    sampling = SamplingParams(**{**GREEDY, **served.sampling})
    with Engine(model, EngineConfig(**{**given, **served.config}), capture=capture) as engine:
        requests = [engine.add_request(prompt, sampling) for prompt in _prompts(model)]
        while engine.has_unfinished():
            engine.step()
        engine.check_integrity()
        return [list(output.output_token_ids) for request in requests for output in request.outputs]


def _as_on_cpu(device: str, served: Setup) -> str:
    found, wanted = (_served(_model(served.source, where), served) for where in (device, "cpu"))
    return _same(found, wanted)


def _same(found: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]) -> str:
    for index, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if list(one) != list(other):
            raise AssertionError(f"output {index} is {list(one)} instead of {list(other)}")
    return f"{sum(map(len, found))} tokens as on the CPU"


def _instances(device: str) -> str:
    def tokens(where: str) -> list[list[int]]:
        config = EngineConfig(num_blocks=96, block_size=4, prefill=1, decode=1, enforce_eager=True)
        cluster = local_cluster(_model("bundled", where), config)
        try:
            cluster.submit([RequestSpec(prompt, SamplingParams(**GREEDY)) for prompt in PROMPTS])
            records = []
            while cluster.num_unfinished:
                records.append(cluster.step())
            return [[output.token_id for output in record.outputs] for record in records if record]
        finally:
            cluster.close()

    return _same(tokens(device), tokens("cpu"))


def _recomputed(device: str) -> str:
    """Check the recomputed arrays and residual stream of one layer, as the page shows them."""
    token_ids = random_prompt(40, 8000, 1)
    one, other = (
        recompute_sequence(_model("bundled", where), 0, token_ids, 2, None, residual=1) for where in (device, "cpu")
    )
    worst = 0.0
    for mine, its in zip(one.layers, other.layers, strict=True):
        for name in ("q", "k", "v"):
            worst = max(worst, float(abs(getattr(mine, name) - getattr(its, name)).max()))
    if not worst <= 1e-3:
        raise AssertionError(f"arrays differ by {worst:.2g}")
    return f"off by {worst:.1e}"


def _quantized(device: str, form: str) -> str:
    """Compare a quantized checkpoint, loaded on the device, with its dequantized weights."""
    from engine.model.errors import ModelError

    with tempfile.TemporaryDirectory() as folder:
        plain = quantized_files.write(form, Path(folder))
        try:
            model = load_model(folder, dtype="float32", device=device)
        except (ModelError, ImportError) as error:
            raise Skipped(" ".join(str(error).split())) from error
    sequences = {seq: random_prompt(length, VOCAB_SIZE, seq) for seq, length in {5: 14, 9: 18, 2: 11}.items()}
    rows = []
    for of in (model, from_module(plain.float())):
        driver = Driver(of, 4, 16)
        mixed_schedule(driver, sequences, None)
        rows.append([driver.logits[key].float().cpu()[None] for key in sorted(driver.logits)])
    found = compare_logits(rows[0], rows[1], torch.float32)
    if not found.share <= 2e-2:
        raise AssertionError(f"logits differ by {found.share:.2g} of their spread")
    return f"off by {found.share:.1e} of their spread"
