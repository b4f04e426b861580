"""Checkpoints with quantized weights, which are served as stored, expanded with a message, or refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from transformers.quantizers.auto import register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from engine.model import device
from engine.model.device import Allocator, DeviceMemory
from engine.model.errors import ModelError
from engine.model.loader import load_model
from engine.model.weighing import estimated_weight_bytes
from tests import quantized_files
from tests.parity.harness import Driver, mixed_schedule, random_prompt
from tests.tiny_models import tiny_config, tiny_model, tiny_tokenizer


@pytest.mark.parametrize("form", quantized_files.FORMS)
def test_expanded_weights_give_the_logits_of_the_quantized_ones(form: str, tmp_path: Path) -> None:
    plain = quantized_files.write(form, tmp_path)
    model = load_model(str(tmp_path), dtype="float32", device="cpu")
    sequences = {seq: random_prompt(length, 100, seq) for seq, length in {5: 14, 9: 18, 2: 11}.items()}
    driver = Driver(model, 4, 16)
    mixed_schedule(driver, sequences)
    with torch.inference_mode():
        expected = {s: plain(input_ids=torch.tensor([ids]), use_cache=False).logits[0] for s, ids in sequences.items()}
    for (seq, position), logits in driver.logits.items():
        assert float((logits - expected[seq][position]).abs().max() / expected[seq].abs().max()) <= 5e-5
    stored = sum(path.stat().st_size for path in tmp_path.glob("*.safetensors"))
    taken = 4 * sum(parameter.numel() for parameter in plain.parameters())
    assert model.stored is not None and model.stored.form == form and model.stored.expanded_to == "float32"
    assert model.stored.stored_bytes == stored and taken <= model.stored.taken_bytes <= 1.2 * taken
    assert model.stored.taken_bytes == estimated_weight_bytes(str(tmp_path), "float32", "cpu")
    assert str(model.stored).endswith("of float32") and f"in {form}, expanded to" in str(model.stored)


def test_expanded_weights_that_exceed_the_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class SmallAllocator(Allocator):
        def memory(self, device: torch.device) -> DeviceMemory:
            return DeviceMemory(1 << 10, 1 << 20)

    quantized_files.write("fp8", tmp_path)
    monkeypatch.setattr(device, "ALLOCATOR", SmallAllocator())
    with pytest.raises(ModelError, match=r"in fp8 \(0 MiB\).* expanded on cpu: to 0 MiB of float32, but 0 MiB of 1"):
        load_model(str(tmp_path), device="cpu")


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}


@pytest.mark.parametrize(
    ("quantization", "reason"),
    [
        (AWQ, "in awq .*not supported here: .*gptqmodel.*they would take"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "in gptq .*not supported here: .*optimum"),
        ({"quant_method": "torchao", "quant_type": {"default": "int4"}}, "in torchao .*not supported here"),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True},
            "in bitsandbytes .*not supported here: .*bitsandbytes",
        ),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "in modelopt .*not supported here: .*no reader"),
        ({"quant_algo": "FP8"}, "in an unnamed form .*not supported here"),
    ],
)
def test_unsupported_weights_are_refused_before_loading(
    quantization: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    """The weight file does not belong to the model."""
    config = tiny_config("qwen2").to_dict() | {"quantization_config": quantization}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file({"none": torch.zeros(3 << 20, dtype=torch.uint8)}, tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match=reason) as error:
        load_model(str(tmp_path), device="cpu")
    text = str(error.value)
    assert "(3 MiB)" in text and "\n" not in text and len(text) < 500, text


def test_quantization_in_a_separate_file_is_found(tmp_path: Path) -> None:
    tiny_model("llama").save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    config = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelError, match="in modelopt"):
        load_model(str(tmp_path), device="cpu")


class Int8Linear(nn.Module):
    """Linear layer with int8 weights, like those of a quantization package."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty((rows, columns), dtype=torch.int8), requires_grad=False)
        self.scale = nn.Parameter(torch.empty(rows), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ (self.weight.float() * self.scale[:, None]).t()


@register_quantization_config("of-a-test")
class Int8Config(QuantizationConfigMixin):  # type: ignore[misc]
    def __init__(self, **_: Any) -> None:
        self.quant_method = "of-a-test"


@register_quantizer("of-a-test")
class Int8Quantizer(HfQuantizer):  # type: ignore[misc]
    requires_calibration = is_trainable = False

    def _process_model_before_weight_loading(self, model: Any, **_: Any) -> None:
        for layer in model.model.layers:
            for part, name in ((layer.self_attn, "q_proj"), (layer.mlp, "up_proj")):
                plain = getattr(part, name)
                setattr(part, name, Int8Linear(plain.out_features, plain.in_features))

    def is_serializable(self) -> bool:
        return True


def test_quantized_weights_with_kernels_are_served_as_stored(tmp_path: Path) -> None:
    plain = tiny_model("llama")
    num_params = sum(parameter.numel() for parameter in plain.parameters())
    Int8Quantizer(Int8Config())._process_model_before_weight_loading(plain)
    for part in (part for part in plain.modules() if isinstance(part, Int8Linear)):
        part.weight.copy_(torch.randint(-127, 128, part.weight.shape))
        part.scale.copy_(torch.rand(part.scale.shape) / 500)
    plain.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text()) | {"quantization_config": {"quant_method": "of-a-test"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = load_model(str(tmp_path), device="cpu")
    assert any(isinstance(part, Int8Linear) for part in model.module.modules())
    stored = sum(path.stat().st_size for path in tmp_path.glob("*.safetensors"))
    assert str(model.stored) == "0 MiB in of-a-test" and estimated_weight_bytes(str(tmp_path), device="cpu") == stored
    assert model.facts.num_params == num_params and model.facts.bytes_per_weight == stored / num_params < 4
    assert model.differences["auto"].is_rounding
