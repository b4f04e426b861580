"""Traces for browser tests."""

from pathlib import Path

from engine.config import EngineConfig, FaultName, SamplingParams
from engine.lab.faults import make_engine
from engine.model.capture import CaptureRequest
from engine.model.loader import from_module
from tests.tiny_models import tiny_model, tiny_tokenizer

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "cache.kvtrace"


def record_prefill(path: Path, num_prompt_tokens: int, fault: FaultName | None) -> Path:
    """Record a prefill of the tiny model, with every array."""
    model = from_module(tiny_model("llama"), tiny_tokenizer(), "tiny-llama")
    config = EngineConfig(block_size=4, num_blocks=16, fault=fault)
    with make_engine(model, config, log_path=path, capture=CaptureRequest(layers=None, heads=None)) as engine:
        engine.add_request(list(range(3, 3 + num_prompt_tokens)), SamplingParams(max_tokens=2, ignore_eos=True))
        engine.step()
    return path
