"""The layout digest of an engine covers all settings that its keys and values depend on."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from engine.config import EngineConfig
from engine.connector.layout import layout_of
from engine.model.loaded import LoadedModel
from engine.model.loader import from_module, load_model
from engine.setup.resolve import resolve_for
from tests.tiny_models import tiny_model, tiny_tokenizer
from tests.unit.connector.pair import PLAIN


def layout(model: LoadedModel, config: EngineConfig = PLAIN) -> bytes:
    resolved = resolve_for(config, model.facts)
    return layout_of(model, resolved.config, resolved.groups, [4096] * len(resolved.groups))


def tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return all parameters and buffers by each of their names."""
    return dict([*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)])


def change(tensor: torch.Tensor) -> None:
    """Change one bit of the last number."""
    with torch.no_grad():
        raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8).clone()
        raw[-1 if tensor.is_floating_point() else 0] ^= 1
        tensor.copy_(raw.view(tensor.dtype).reshape(tensor.shape))


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3"])
def test_the_layout_covers_every_parameter_and_buffer(family: str) -> None:
    model = from_module(tiny_model(family), tiny_tokenizer(), family)
    names, expected = list(tensors(model.module)), layout(model)
    unsaved = set(names) - set(model.module.state_dict())
    assert unsaved, "a checkpoint lacks some buffers"
    assert layout(replace(model, module=deepcopy(model.module))) == expected
    same = []
    for name in names:
        module = deepcopy(model.module)
        change(tensors(module)[name])
        if layout(replace(model, module=module)) == expected:
            same.append(name)
    assert not same


def test_checkpoints_that_differ_in_one_norm_have_different_layouts(tmp_path: Path) -> None:
    module = tiny_model("llama")
    found = []
    for name in ("base", "tuned"):
        module.save_pretrained(tmp_path / name)
        tiny_tokenizer().save_pretrained(tmp_path / name)
        found.append(layout(load_model(str(tmp_path / name))))
        change(module.model.layers[1].input_layernorm.weight)
    assert found[0] != found[1]


def test_the_layout_covers_the_engines_settings() -> None:
    model = from_module(tiny_model("llama"), tiny_tokenizer(), "llama")
    settings = [
        PLAIN,
        EngineConfig(block_size=8, num_blocks=40),
        EngineConfig(block_size=4, num_blocks=40, kv_cache_dtype="int8"),
        EngineConfig(block_size=4, num_blocks=40, attention_window=8),
        EngineConfig(block_size=4, num_blocks=40, attention_window=8, attention_sinks=4),
        EngineConfig(block_size=4, num_blocks=40, attention_window=8, sliding_window_pattern=2),
    ]
    assert len({layout(model, config) for config in settings}) == len(settings)


def test_the_layout_covers_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    model = from_module(tiny_model("llama"), tiny_tokenizer(), "llama")
    found = {layout(model)}
    for package in ("torch", "transformers", "engine"):
        with monkeypatch.context() as patch:
            patch.setattr(f"{layout_of.__module__}.{package}.__version__", "0.0.0")
            found.add(layout(model))
    assert len(found) == 4
