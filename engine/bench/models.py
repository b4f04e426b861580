"""Models of benchmarks: shipped models, folders, hub names, and models with random weights, created on demand.

A peer loads its own copy of the weights from the same folder: the engine's module has another attention function and
layout.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.utils import logging

from engine.model.compiled import compile_model
from engine.model.light_transformers import AutoModelForCausalLM
from engine.model.loaded import WEIGHTS, LoadedModel
from engine.model.loader import from_module, load_model
from engine.model.shipped import BUNDLED, shipped_model

TINY = "tiny-llama"
SMALL = "llama-135m-random"
QWEN2 = "qwen2-0.5b-random"
QWEN = "qwen3-0.6b-random"
LLAMA_8B = "llama-8b-random"
SEED = 0


class Models:
    """Opens each model once. `close` drops the models and deletes created files."""

    def __init__(self) -> None:
        self._loaded: dict[tuple[str, str], LoadedModel] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def engine_model(self, name: str, dtype: str, compiled: bool = False) -> LoadedModel:
        """Return the model for this engine. `compiled`: compile its forward pass, which takes tens of seconds once.

        Raises:
            ModelError: the model cannot be opened.
            Exception: the model cannot be compiled.
        """
        key = (name, dtype)
        if key not in self._loaded:
            if name in RANDOM_MODELS:
                weights = WEIGHTS.get(dtype)
                module = self.transformers_model(name, "float32" if weights or dtype == "auto" else dtype)
                self._loaded[key] = from_module(module, None, name, weights)
            else:
                self._loaded[key] = load_model(name, dtype=dtype)
        model = self._loaded[key]
        if compiled and model.compiled is None:
            model.compiled = compile_model(model)
        return model

    def transformers_model(self, name: str, dtype: str) -> Any:
        """Return a new transformers model with the same weights, on the engine's default device."""
        device, kind = default_device(), getattr(torch, dtype)
        if name in RANDOM_MODELS:
            module = _with_random_weights(*RANDOM_MODELS[name], device).to(kind)
        else:
            with _without_progress_bars():
                module = AutoModelForCausalLM.from_pretrained(
                    self.source(name), dtype=kind, use_safetensors=True, trust_remote_code=False
                )
        return module.eval().requires_grad_(False).to(device)

    def source(self, name: str) -> str:
        """Return the source of the weights: a folder, or a hub name."""
        if name in RANDOM_MODELS:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="kvtheater-bench-")
            folder = Path(self._folder.name) / name
            if not folder.exists():
                with _without_progress_bars():
                    _with_random_weights(*RANDOM_MODELS[name], device=default_device()).save_pretrained(folder)
                words = shipped_model(BUNDLED)  # some peers require a vocabulary
                for file in sorted(words.tokenizer_folder.glob("tokenizer*.json")) if words else ():
                    shutil.copy(file, folder)
            return str(folder)
        shipped = shipped_model(name)
        return str(shipped.folder if shipped else name)

    def close(self) -> None:
        """Drop the models and delete created files."""
        self._loaded.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def default_device() -> str:
    """Return the engine's default device."""
    return "cuda" if torch.cuda.is_available() else "cpu"


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Disable transformers' progress bars within the context; the benchmark shows its own."""
    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()


def _with_random_weights(config: Any, dtype: torch.dtype, device: str = "cpu") -> Any:
    """Return a model with seeded random weights, generated on `device` because a large model takes minutes on a CPU."""
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(SEED)
        return AutoModelForCausalLM.from_config(copy.deepcopy(config), dtype=dtype)


# name -> config and dtype of the weights
RANDOM_MODELS: dict[str, tuple[Any, torch.dtype]] = {
    # 8 layers × 256, GQA with 8 query and 2 KV heads; the bundled model's vocabulary
    TINY: (
        transformers.LlamaConfig(
            vocab_size=8192,
            hidden_size=256,
            intermediate_size=704,
            num_hidden_layers=8,
            num_attention_heads=8,
            num_key_value_heads=2,
            max_position_embeddings=2048,
            tie_word_embeddings=True,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=0,
        ),
        torch.float32,
    ),
    # shape of HuggingFaceTB/SmolLM2-135M, from its config.json
    SMALL: (
        transformers.LlamaConfig(
            vocab_size=49152,
            hidden_size=576,
            intermediate_size=1536,
            num_hidden_layers=30,
            num_attention_heads=9,
            num_key_value_heads=3,
            max_position_embeddings=8192,
            rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
            tie_word_embeddings=True,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=0,
        ),
        torch.float32,
    ),
    # shape of Qwen/Qwen2.5-0.5B, from its config.json; q, k and v have biases
    QWEN2: (
        transformers.Qwen2Config(
            vocab_size=151936,
            hidden_size=896,
            intermediate_size=4864,
            num_hidden_layers=24,
            num_attention_heads=14,
            num_key_value_heads=2,
            max_position_embeddings=32768,
            rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
            tie_word_embeddings=True,
            bos_token_id=151643,
            eos_token_id=151643,
            pad_token_id=151643,
        ),
        torch.float32,
    ),
    # shape of Qwen/Qwen3-0.6B, from its config.json
    QWEN: (
        transformers.Qwen3Config(
            vocab_size=151936,
            hidden_size=1024,
            intermediate_size=3072,
            num_hidden_layers=28,
            num_attention_heads=16,
            num_key_value_heads=8,
            head_dim=128,
            max_position_embeddings=40960,
            rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
            tie_word_embeddings=True,
            bos_token_id=151643,
            eos_token_id=151645,
            pad_token_id=151643,
        ),
        torch.bfloat16,
    ),
    # shape of meta-llama/Llama-3.1-8B, from its config.json
    LLAMA_8B: (
        transformers.LlamaConfig(
            vocab_size=128256,
            hidden_size=4096,
            intermediate_size=14336,
            num_hidden_layers=32,
            num_attention_heads=32,
            num_key_value_heads=8,
            max_position_embeddings=131072,
            rope_parameters={"rope_type": "default", "rope_theta": 500_000.0},
            tie_word_embeddings=False,
            bos_token_id=128000,
            eos_token_id=128001,
            pad_token_id=128001,
        ),
        torch.bfloat16,
    ),
}
