"""The trained model: a transformers model with the shape of the configuration.

It is a Llama or, if the configuration has `layer_types`, a Qwen3.5, whose `linear_attention` layers have a state.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import torch
from torch.nn import functional
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen3_5ForCausalLM,
    Qwen3_5TextConfig,
)

from training.config import Section
from training.data import IGNORED, Batch
from training.delta_net import separate_documents, spread_decays

LINEAR = "linear_attention"  # layer type with a state in transformers


def build_model(config: Section, vocab_size: int, end_token: int) -> PreTrainedModel:
    """Return a randomly initialized float32 model. The caller seeds torch."""
    kinds = config.get("layer_types")
    shape: LlamaConfig | Qwen3_5TextConfig = (Qwen3_5TextConfig if kinds else LlamaConfig)(
        vocab_size=vocab_size,
        hidden_size=config["hidden"],
        intermediate_size=config["intermediate"],
        num_hidden_layers=config["layers"],
        num_attention_heads=config["heads"],
        num_key_value_heads=config["kv_heads"],
        head_dim=config["hidden"] // config["heads"],
        max_position_embeddings=config["max_positions"],
        rope_parameters={"rope_type": "default", "rope_theta": config["rope_theta"]},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end_token,
        pad_token_id=end_token,
        attn_implementation="sdpa",
        dtype="float32",
        **(_state_shape(config) if kinds else {}),
    )
    model: PreTrainedModel = (Qwen3_5ForCausalLM if kinds else LlamaForCausalLM)(shape)
    if kinds:
        spread_decays(model)
        separate_documents(model)
    with torch.no_grad():
        # pad_token_id zeroes its row; but the end of a document is the same token, which must be learned
        model.model.embed_tokens.padding_idx = None
        model.model.embed_tokens.weight[end_token].normal_(std=shape.initializer_range)
    return model


def _state_shape(config: Section) -> Section:
    """Return the settings of `Qwen3_5TextConfig` that a Llama lacks."""
    return {
        "layer_types": config["layer_types"],
        "linear_num_key_heads": config["state_heads"],
        "linear_num_value_heads": config["state_heads"],
        "linear_key_head_dim": config["state_key_dim"],
        "linear_value_head_dim": config["state_value_dim"],
        "linear_conv_kernel_dim": config["convolution"],
        "partial_rotary_factor": 1.0,  # as in a Llama
    }


def batch_loss(
    model: PreTrainedModel, ids: torch.Tensor, targets: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Return the summed cross entropy, in nats, of a batch's targets (a scalar)."""
    inputs: dict[str, object] = {"attention_mask": mask}
    if hasattr(model.config, "linear_num_key_heads"):
        inputs = {"attention_mask": {"full_attention": mask, LINEAR: None}, "document_positions": positions}
    hidden = model.model(input_ids=ids, position_ids=positions, use_cache=False, **inputs).last_hidden_state
    # hidden: [B, T, hidden]
    logits = model.lm_head(hidden).float()  # [B, T, vocabulary]
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum")


def to_device(batch: Batch, device: torch.device) -> tuple[torch.Tensor, ...]:
    """Return the batch's tensors on `device`, in the order of `batch_loss`."""
    return tuple(part.to(device) for part in (batch.ids, batch.targets, batch.positions, batch.mask))


def export_model(model: PreTrainedModel, folder: Path, dtype: str) -> None:
    """Write `config.json`, `generation_config.json` and `model.safetensors` in `dtype` (name of a torch dtype).

    Each file is replaced atomically.
    """
    end = model.config.eos_token_id
    copy = type(model)(model.config)
    copy.load_state_dict(model.state_dict())
    copy.to(getattr(torch, dtype))
    copy.config.dtype = dtype
    copy.generation_config = GenerationConfig(eos_token_id=end, pad_token_id=end, do_sample=False)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        copy.save_pretrained(scratch)
        for file in Path(scratch).iterdir():
            file.chmod(0o644)
            os.replace(file, folder / file.name)
