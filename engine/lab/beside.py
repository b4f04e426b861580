"""Runs the same requests with equal settings in this engine and in vLLM, with a trace of each run.

The step before which a request arrives is given, so runs do not depend on clocks; decoding is greedy. vLLM runs in its
own environment (`engine.observe.vllm_recorder.offline`), this engine in this process. `trace.compare` compares the
traces.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.loaded import LoadedModel
from engine.model.shipped import shipped_model
from engine.system.host import child_environment

EQUAL = ("max_num_seqs", "max_num_batched_tokens", "enable_prefix_caching", "enable_chunked_prefill",
        "scheduler_reserve_full_isl", "scheduling_policy", "seed")  # fmt: skip
REQUIRED = {"strategy": "paged", "preemption_mode": "recompute", "kv_cache_dtype": "auto"}
CPU_CACHE_GIB = "1"  # VLLM_CPU_KVCACHE_SPACE


class BesideError(ValueError):
    """The runs are not possible. The message gives the reason in one sentence."""


class BesideRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request for both engines. A text is tokenized once, so that both get the same tokens."""

    prompt: str | list[int]
    max_tokens: int = 64
    priority: int = 0
    ignore_eos: bool = False
    at_step: int = 0  # arrives before this step, or earlier if the engine is idle
    request_id: str | None = None


class Answer(Struct, frozen=True):
    """Result of vLLM's run."""

    vllm: str
    seconds: float
    ended: str | None  # why its log ended before the run did, or None
    outputs: dict[str, list[int]]


def requests_in(path: Path) -> list[BesideRequest]:
    """Return the requests of a file of JSON lines, in order of arrival.

    Raises:
        BesideError: a line is not a request.
        OSError: the file cannot be read.
    """
    found = list[BesideRequest]()
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(msgspec.json.decode(line, type=BesideRequest))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BesideError(f"{path}, line {number}: {error}") from error
    if not found:
        raise BesideError(f"{path} has no requests")
    return sorted(found, key=lambda one: one.at_step)


def explicit_config(config: EngineConfig, model: LoadedModel) -> EngineConfig:
    """Return explicit settings for both engines. Raises BesideError: vLLM does not support a setting."""
    for name, value in REQUIRED.items():
        if getattr(config, name) != value:
            raise BesideError(f"vLLM does not support {name} {getattr(config, name)}: use {value}")
    if config.num_instances or config.attention_window is not None:
        raise BesideError("several instances or an added attention window cannot be compared: remove these options")
    if config.num_blocks is None:
        raise BesideError("give --num-blocks, so that both pools have the same size")
    length = config.max_model_len or min(model.facts.max_position, config.num_blocks * config.block_size)
    return msgspec.structs.replace(config, max_model_len=length, enforce_eager=True)


def serve_here(model: LoadedModel, config: EngineConfig, requests: list[BesideRequest], trace: Path) -> None:
    """Serve the requests with this engine. Raises BesideError: a request does not fit."""
    todo, num_steps = list(enumerate(requests)), 0
    with Engine(model, config, log_path=trace) as engine:
        while todo or engine.has_unfinished():
            while todo and (todo[0][1].at_step <= num_steps or not engine.has_unfinished()):
                number, one = todo.pop(0)
                sampling = SamplingParams(max_tokens=one.max_tokens, ignore_eos=one.ignore_eos, temperature=0.0)
                try:
                    engine.add_request(one.prompt, sampling, name_of(number, one), one.priority)
                except ValueError as error:
                    raise BesideError(f"request {name_of(number, one)}: {error}") from error
            engine.step()
            num_steps += 1


def serve_vllm(
    python: Path,
    model: LoadedModel,
    config: EngineConfig,
    requests: list[BesideRequest],
    trace: Path,
    gpu_memory_utilization: float,
) -> Answer:
    """Serve the requests with the vLLM of that Python interpreter. Raises BesideError: it failed."""
    job = {
        "engine": {
            "model": _folder(model),
            "dtype": model.facts.dtype,
            "block_size": config.block_size,
            "num_gpu_blocks_override": (config.num_blocks or 0) + 1,  # plus vLLM's null block
            "max_model_len": config.max_model_len,
            "enforce_eager": True,
            "gpu_memory_utilization": gpu_memory_utilization,
            **{name: getattr(config, name) for name in EQUAL},
        },
        "requests": [
            {
                "request_id": name_of(number, one),
                "prompt": tokens_of(model, one),
                "max_tokens": one.max_tokens,
                "priority": one.priority,
                "ignore_eos": one.ignore_eos,
                "at_step": one.at_step,
            }
            for number, one in enumerate(requests)
        ],
        "trace": str(trace.resolve()),
    }
    env = {"VLLM_CPU_KVCACHE_SPACE": CPU_CACHE_GIB, "VLLM_NO_USAGE_STATS": "1", **child_environment()}
    with tempfile.TemporaryDirectory(prefix="kvtheater-beside-") as folder:
        job_file = Path(folder) / "job.json"
        job_file.write_text(json.dumps(job), encoding="utf-8")
        command = [str(python), "-m", "engine.observe.vllm_recorder.offline", str(job_file)]
        try:
            done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True)
        except OSError as error:
            raise BesideError(f"{python} cannot be run: {error.strerror or error}") from error
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        raise BesideError(f"vLLM did not run: {_last_line(done.stderr)}")
    return msgspec.json.decode(lines[-1].encode(), type=Answer)


def name_of(number: int, one: BesideRequest) -> str:
    """Return the id of a request in both traces."""
    return one.request_id or f"request-{number}"


def tokens_of(model: LoadedModel, one: BesideRequest) -> list[int]:
    """Return the prompt's tokens. Raises BesideError for a text if the model has no tokenizer."""
    if not isinstance(one.prompt, str):
        return one.prompt
    if model.tokenizer is None:
        raise BesideError("the model has no tokenizer: give prompts as token ids")
    return model.tokenizer.encode(one.prompt)


def _folder(model: LoadedModel) -> str:
    name = model.opened.name if model.opened else model.facts.name
    shipped: Any = shipped_model(name)
    if shipped is not None and shipped.folder != shipped.tokenizer_folder:
        raise BesideError(f"{name} shares another model's tokenizer, which vLLM cannot find: use the model bundled")
    return str(shipped.folder if shipped is not None else name)


def _last_line(text: str) -> str:
    """Return the last line with an error, or else the last line that is not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line]
    return (errors or lines or ["it printed nothing"])[-1][:300]
