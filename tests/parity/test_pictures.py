"""Models that also read pictures: text only is served, equal to their own forward pass."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModelForImageTextToText

from engine.model.loader import load_model
from engine.model.weighing import weight_bytes
from tests.parity.harness import Driver, mixed_schedule, random_prompt
from tests.tiny_models import COMMON, HEADS, SLIDING_THEN_FULL, VOCAB_SIZE, WINDOW, tiny_tokenizer

TEXT: dict[str, Any] = {**COMMON, **HEADS}
VISION: dict[str, Any] = {
    "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 16,
    "patch_size": 8,
}  # fmt: skip
QWEN_VISION: dict[str, Any] = {
    "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "patch_size": 4, "out_hidden_size": 32,
    "num_position_embeddings": 16,
}  # fmt: skip
QWEN_IDS = {
    "image_token_id": 120, "video_token_id": 121, "vision_start_token_id": 122, "vision_end_token_id": 123,
}  # fmt: skip
SLIDING: dict[str, Any] = {"sliding_window": WINDOW, "layer_types": SLIDING_THEN_FULL}
LINEAR = {
    "layer_types": ["linear_attention", "linear_attention", "full_attention"], "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
}  # fmt: skip
# of each a configuration, and the parts that are dropped
TYPES: dict[str, Callable[[], Any]] = {
    "gemma3": lambda: transformers.Gemma3Config(
        text_config={**TEXT, **SLIDING, "query_pre_attn_scalar": 8},
        vision_config={**VISION, "vision_use_head": False},
        mm_tokens_per_image=4,
        image_token_index=120,
    ),
    "gemma4": lambda: transformers.Gemma4Config(
        text_config={
            **TEXT, **SLIDING, "global_head_dim": 8, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0,
        },
        vision_config={**VISION, "num_key_value_heads": 2, "head_dim": 8, "global_head_dim": 8},
        audio_config=None,
    ),
    "ministral3": lambda: transformers.Mistral3Config(
        text_config={**TEXT, "model_type": "ministral3"},
        vision_config={**VISION, "model_type": "pixtral", "head_dim": 8},
        image_token_index=120,
    ),
    "mistral3": lambda: transformers.Mistral3Config(
        text_config={**TEXT, "model_type": "mistral"},
        vision_config={**VISION, "model_type": "pixtral", "head_dim": 8},
        image_token_index=120,
    ),
    "qwen3_5": lambda: transformers.Qwen3_5Config(
        text_config={**TEXT, **LINEAR}, vision_config=QWEN_VISION, **QWEN_IDS
    ),
    "qwen3_vl": lambda: transformers.Qwen3VLConfig(
        text_config=TEXT, vision_config={**QWEN_VISION, "deepstack_visual_indexes": [0]}, **QWEN_IDS
    ),
}  # fmt: skip
TOLERANCE = 5e-5  # of the largest logit


def saved(name: str, folder: Path) -> Any:
    """Save the whole random model with a tokenizer."""
    torch.manual_seed(0)
    whole: Any = AutoModelForImageTextToText.from_config(TYPES[name]()).eval()
    whole.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return whole


@pytest.mark.parametrize("name", TYPES)
def test_only_the_text_model_is_loaded(name: str, tmp_path: Path) -> None:
    whole = saved(name, tmp_path)
    sequences = {seq: random_prompt(length, 100, seq) for seq, length in {5: 14, 9: 18, 2: 11}.items()}
    with torch.inference_mode():
        plain = {
            seq: whole(input_ids=torch.tensor([tokens]), use_cache=False).logits[0] for seq, tokens in sequences.items()
        }
    model = load_model(str(tmp_path), dtype="float32", device="cpu")
    driver = Driver(model, 4, 16)
    mixed_schedule(driver, sequences)
    for (seq, position), logits in driver.logits.items():
        assert float((logits - plain[seq][position]).abs().max() / plain[seq].abs().max()) <= TOLERANCE
    of_text = whole.model.language_model
    expected = sum(p.numel() for p in of_text.parameters()) + (
        0 if whole.config.tie_word_embeddings else VOCAB_SIZE * TEXT["hidden_size"]
    )
    assert model.facts.num_params == expected < sum(p.numel() for p in whole.parameters())
    assert bool(model.dropped) == (type(model.module) is type(whole))  # else the class is one of text
    assert weight_bytes(model.module) < weight_bytes(whole)


def test_no_package_for_pictures_is_needed(tmp_path: Path) -> None:
    """The model is served in a process in which neither pillow nor torchvision can be imported."""
    saved("mistral3", tmp_path)
    code = (
        "import sys; sys.modules |= dict.fromkeys(('PIL', 'torchvision')); from app.__main__ import main; "
        "raise SystemExit(main(sys.argv[1:]))"
    )
    for command in ("info", "size"):
        done = subprocess.run(
            [sys.executable, "-c", code, command, str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert tmp_path.name in done.stdout
        assert command == "size" or "vision_tower and multi_modal_projector are dropped" in done.stdout
