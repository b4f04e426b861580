"""Checkpoints in half precision, whose linear layers keep the dtype of the file until they are packed."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from engine.model import loader
from engine.model.loader import from_module, load_model
from engine.model.packed_linears import PackedEmbedding, PackedLinear, pack_linears
from tests.parity.harness import eager_forward
from tests.tiny_models import tiny_model, tiny_tokenizer

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


def _load(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, dict[str, torch.dtype]]:
    """Return the model, and the dtypes of its parameters before packing."""
    before: dict[str, torch.dtype] = {}

    def packing(module: nn.Module, *args: Any) -> int:
        before.update({name: parameter.dtype for name, parameter in module.named_parameters()})
        return pack_linears(module, *args)

    monkeypatch.setattr(loader, "pack_linears", packing)
    return load_model(str(folder), device="cpu"), before


@pytest.mark.parametrize("family", ["llama", "llama_tied", "qwen2", "gpt2", "gemma3"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_weights_compute_like_float32(
    family: str, dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The models have untied or tied weights, biases, no linear layers, or a scaled embedding."""
    plain = tiny_model(family).to(dtype)
    plain.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    loaded, before = _load(tmp_path, monkeypatch)
    matrices = {name for name, part in plain.named_modules() if isinstance(part, nn.Linear | nn.Embedding)}
    assert before and all(
        found == (dtype if name.removesuffix(".weight") in matrices else torch.float32)
        for name, found in before.items()
    )
    packed = {id(p.panels) for p in loaded.module.modules() if isinstance(p, PackedLinear | PackedEmbedding)}
    assert all(p.dtype == torch.float32 for p in loaded.module.parameters() if id(p) not in packed)
    assert type(loaded.module) is type(plain) and loaded.facts.dtype == "float32"
    expected = from_module(type(plain).from_pretrained(tmp_path, dtype=torch.float32))
    ids = [token % 100 for token in range(40)]
    assert torch.equal(eager_forward(loaded.module, ids).logits, eager_forward(expected.module, ids).logits)
    assert loaded.facts.num_params == expected.facts.num_params == sum(p.numel() for p in plain.parameters())


def test_files_of_several_dtypes_are_read_in_float32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix in float32 is not rounded to the half precision that the configuration names."""
    tiny_model("llama").bfloat16().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    name = "model.layers.0.mlp.up_proj.weight"
    tensors[name] = tensors[name].float() * 1.001
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    loaded, before = _load(tmp_path, monkeypatch)
    assert set(before.values()) == {torch.float32}
    assert torch.equal(loaded.module.get_submodule(name.removesuffix(".weight")).weight, tensors[name])
