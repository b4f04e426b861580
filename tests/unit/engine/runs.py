"""Runs of a small random model that exercise every part of a trace, shared by several tests."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.capture import CaptureRequest
from engine.model.loaded import LoadedModel
from engine.model.loader import from_module
from engine.trace.log import TraceWriter
from engine.trace.records import StepRecord
from tests.tiny_models import tiny_model, tiny_tokenizer

T = TypeVar("T")


@cache
def tiny_llama() -> LoadedModel:
    """Return a random Llama of 3 layers with grouped heads (4:2), and a tokenizer."""
    return from_module(tiny_model("llama"), tiny_tokenizer(), "tiny-llama")


PROMPTS: list[list[int]] = [
    [5, 9, 11, 3, 7, 8, 2, 4, 6, 10, 12, 13, 21, 22, 23, 24, 25],
    [5, 9, 11, 3, 7, 8, 2, 4, 6, 10, 12, 13, 31, 32],
    [40, 41, 42],
    [5, 9, 11, 3, 7, 8, 2, 4, 6, 10, 12, 13, 21, 22, 23, 24, 25],
    [50],
    [60, 61, 62, 63, 64, 65, 66, 67, 68, 69],
]
GREEDY = SamplingParams(max_tokens=12, ignore_eos=True)


def log_of(engine: Engine) -> TraceWriter:
    """Return the engine's log, which must exist. (An empty log is falsy.)"""
    assert engine.log is not None
    return engine.log


def outputs_of(config: EngineConfig, prompts: list[list[int]] | None = None, check: bool = True) -> list[list[int]]:
    """Return greedy outputs under a configuration. The cache's integrity is checked after each step."""
    with Engine(tiny_llama(), config, keep_log=False) as engine:
        requests = [engine.add_request(p, GREEDY) for p in prompts or PROMPTS]
        while engine.has_unfinished():
            engine.step()
            if check:
                engine.check_integrity()
        return [r.output_token_ids for r in requests]


def _drive(engine: Engine) -> Iterator[None]:
    """Run the scenario and yield after every record: requests arrive while others run, one is aborted, one is adjusted
    and gets a chosen token, and samples and beams follow.
    """
    requests = []
    for prompt in PROMPTS[:3]:
        requests.append(engine.add_request(prompt, GREEDY))
        yield
    for _ in range(3):
        engine.step()
        yield
    for prompt in PROMPTS[3:]:
        requests.append(engine.add_request(prompt, GREEDY))
        yield
    engine.step()
    yield
    engine.abort(requests[2].request_id)
    yield
    while engine.has_unfinished():
        engine.step()
        yield
    steered = engine.add_request(PROMPTS[0], GREEDY)
    yield
    engine.choose(steered.seq_id, 17, position=len(PROMPTS[0]) + 2)
    yield
    engine.adjust(steered.request_id, replace(GREEDY, max_tokens=11))
    yield
    samples = 1 if engine.config.strategy == "first_fit" else 2  # first_fit has no forks
    engine.add_request(
        PROMPTS[5], SamplingParams(n=samples, best_of=samples, temperature=1.0, max_tokens=9, prompt_logprobs=1)
    )
    yield
    if engine.config.strategy not in ("none", "first_fit"):
        engine.add_request(PROMPTS[1], SamplingParams(use_beam_search=True, beam_width=2, n=2, max_tokens=9))
        yield
    while engine.has_unfinished():
        engine.step()
        yield


CONFIGS: dict[str, EngineConfig] = {
    "roomy": EngineConfig(block_size=4, num_blocks=64, max_model_len=64),
    "preempting": EngineConfig(block_size=4, num_blocks=14, max_model_len=48),
    "swapping": EngineConfig(block_size=4, num_blocks=14, max_model_len=48, preemption_mode="swap", swap_space=9),
    "chunked": EngineConfig(block_size=4, num_blocks=64, max_model_len=64, max_num_batched_tokens=7),
    "one slot a block": EngineConfig(block_size=1, num_blocks=80, max_model_len=64),
    "few sequences": EngineConfig(block_size=16, num_blocks=8, max_model_len=64, max_num_seqs=2),
    "no prefix caching": EngineConfig(block_size=4, num_blocks=20, max_model_len=64, enable_prefix_caching=False),
    "contiguous": EngineConfig(strategy="contiguous", block_size=4, num_blocks=40, max_model_len=40),
    "first fit": EngineConfig(strategy="first_fit", block_size=2, num_blocks=29, max_model_len=48),
    "no cache": EngineConfig(strategy="none", block_size=4, num_blocks=40, max_model_len=40),
}

# Attention windows, with which outputs differ from those above.
POLICIES: dict[str, EngineConfig] = {
    "sinks and window": EngineConfig(
        block_size=4, num_blocks=14, max_model_len=48, attention_window=6, attention_sinks=3
    ),
    "window and swapping": EngineConfig(
        block_size=2, num_blocks=22, max_model_len=48, attention_window=13, preemption_mode="swap", swap_space=12
    ),
    "hybrid": EngineConfig(
        block_size=4, num_blocks=14, max_model_len=48, attention_window=6, attention_sinks=3, sliding_window_pattern=2
    ),
    "hybrid and swapping": EngineConfig(
        block_size=2,
        num_blocks=26,
        max_model_len=48,
        attention_window=13,
        sliding_window_pattern=2,
        preemption_mode="swap",
        swap_space=14,
    ),
}


def run(name: str, path: Path | None = None, on_record: Callable[[Engine], None] = lambda _: None) -> Engine:
    """Run the scenario under the named configuration. The caller closes the engine."""
    capture = CaptureRequest(layers=None, heads=None)
    engine = Engine(tiny_llama(), {**CONFIGS, **POLICIES}[name], log_path=path, capture=capture)
    for _ in _drive(engine):
        on_record(engine)
    return engine


def ops_of(record: StepRecord, kind: type[T]) -> list[T]:
    """Return the operations of one kind in a record."""
    return [op for op in record.ops if isinstance(op, kind)]
