"""Quantized checkpoints of small random models, and their dequantized weights."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.tiny_models import tiny_model, tiny_tokenizer

FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])  # OCP Microscaling Formats 1.0, table 5
BLOCK = 16  # rows and columns per fp8 scale
GROUP = 16  # weights per int4 scale
Written = tuple[dict[str, Tensor], Tensor]  # name suffix -> tensor, and the dequantized weight


def fp8(weight: Tensor) -> Written:
    """Quantize with a scale per block, in DeepSeek-V3's format."""
    rows, columns = weight.shape[0] // BLOCK, weight.shape[1] // BLOCK
    blocks = weight.view(rows, BLOCK, columns, BLOCK)
    scales = blocks.abs().amax(dim=(1, 3)) / 448
    bits = (blocks / scales[:, None, :, None]).to(torch.float8_e4m3fn)
    plain = (bits.float() * scales[:, None, :, None]).view(weight.shape)
    return {"weight": bits.view(weight.shape), "weight_scale_inv": scales}, plain


def int4(weight: Tensor) -> Written:
    """Quantize with a scale per group, eight weights in an int32: format pack-quantized of compressed-tensors."""
    groups = weight.view(weight.shape[0], -1, GROUP)
    scales = groups.abs().amax(dim=-1, keepdim=True) / 7
    levels = (groups / scales).round().clamp(-8, 7)
    plain = (levels * scales).view(weight.shape)
    nibbles = (levels.view(weight.shape[0], -1, 8).to(torch.int64) + 8) << (4 * torch.arange(8))
    packed = nibbles.sum(dim=-1)
    packed = torch.where(packed >= 1 << 31, packed - (1 << 32), packed).to(torch.int32)
    parts = {"weight_packed": packed, "weight_scale": scales[..., 0], "weight_shape": torch.tensor(weight.shape)}
    return parts, plain


def mxfp4(weight: Tensor) -> Written:
    """Quantize in groups of 32 with a power of two as scale, in the format of gpt-oss.

    Groups are along the second-to-last dimension, which is stored last.
    """
    groups = weight.transpose(1, 2).reshape(weight.shape[0], weight.shape[2], -1, 32)
    exponents = torch.floor(torch.log2(groups.abs().amax(dim=-1, keepdim=True))) - 2
    scaled = groups / 2**exponents
    levels = (scaled.abs()[..., None] - FP4).abs().argmin(dim=-1)
    plain = (FP4[levels] * scaled.sign() * 2**exponents).reshape(weight.shape[0], weight.shape[2], -1).transpose(1, 2)
    nibbles = (levels | (scaled < 0) << 3).to(torch.uint8)
    blocks = nibbles[..., 0::2] | nibbles[..., 1::2] << 4
    return {"_blocks": blocks, "_scales": (exponents[..., 0] + 127).to(torch.uint8)}, plain


INT4_CONFIG = {
    "quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {
                "num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": GROUP,
                "dynamic": False, "actorder": None, "observer": "minmax",
            },
        }
    },
}  # fmt: skip
SIZES = {"hidden_size": 32, "intermediate_size": 48}
EXPERTS = {"hidden_size": 64, "intermediate_size": 64}
# format -> family, settings, quantization_config, predicate of quantized weights, quantizer
FORMS: dict[str, tuple[str, Mapping[str, Any], dict[str, Any], Callable[[str], bool], Callable[[Tensor], Written]]] = {
    "fp8": (
        "llama", SIZES, {"quant_method": "fp8", "weight_block_size": [BLOCK, BLOCK]},
        lambda name: name.endswith("proj.weight"), fp8,
    ),
    "compressed-tensors": ("qwen3", SIZES, INT4_CONFIG, lambda name: name.endswith("proj.weight"), int4),
    "mxfp4": (
        "gpt_oss", EXPERTS, {"quant_method": "mxfp4"},
        lambda name: name.endswith(("gate_up_proj", "down_proj")), mxfp4,
    ),
}  # fmt: skip


def write(form: str, folder: Path) -> Any:
    """Write a checkpoint in a format; return a model with the dequantized weights."""
    family, settings, quantization, is_quantized, quantize = FORMS[form]
    model = tiny_model(family, **settings)
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    file, tensors, plain = folder / "model.safetensors", dict[str, Tensor](), dict[str, Tensor]()
    for name, weight in load_file(file).items():
        parts, plain[name] = quantize(weight) if is_quantized(name) else ({"": weight}, weight)
        for part, tensor in parts.items():
            tensors[name if not part else name.removesuffix("weight") + part] = tensor.contiguous()
    save_file(tensors, file, metadata={"format": "pt"})
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8")) | {"quantization_config": quantization}
    path.write_text(json.dumps(config), encoding="utf-8")
    missing, unexpected = model.load_state_dict(plain, strict=False)
    assert not unexpected and not missing
    return model
