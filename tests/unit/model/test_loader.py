"""Loading of models, refusals, and facts."""

import json
import shutil
import time
from pathlib import Path

import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from engine.accounting.work import StepWork
from engine.model.cpu_layout import store_linear_weights_transposed
from engine.model.cpu_norms import replace_rms_norms
from engine.model.errors import ModelError
from engine.model.loader import from_module, load_model, resolve_device, resolve_dtype
from engine.model.packed_linears import PackedLinear
from engine.model.runner import ModelRunner
from engine.model.shipped import SHIPPED
from engine.trace.records import BatchEntry
from tests.parity.harness import eager_forward
from tests.tiny_models import REFUSED, tiny_model, tiny_tokenizer

MAPS = Path("/proc/self/maps")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    tiny_model("llama_tied").save_pretrained(path)
    tiny_tokenizer().save_pretrained(path)
    return path


def one_sentence(error: pytest.ExceptionInfo[ModelError]) -> str:
    text = str(error.value)
    assert "\n" not in text and not text.endswith(".") and len(text) < 400, text
    return text


def test_folders_are_named_by_their_last_part(folder: Path) -> None:
    model = load_model(str(folder), device="cpu")
    assert model.dtype == torch.float32 and model.device.type == "cpu"
    assert model.tokenizer is not None and model.tokenizer_facts.eos_token_ids == [2]
    assert model.facts.name == folder.name and model.facts.tie_word_embeddings
    assert load_model(str(folder), dtype="bfloat16", device="cpu").facts.dtype == "bfloat16"


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.skipif(not MAPS.exists(), reason="this system has no /proc/self/maps")
@pytest.mark.parametrize("family", ["qwen2", "gpt2", "gemma2"])  # biases; norms with biases; a tied head
def test_packed_weights_release_the_mapped_file(family: str, tmp_path: Path) -> None:
    tiny_model(family).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    loaded = load_model(str(tmp_path), device="cpu")
    if any(isinstance(part, PackedLinear) for part in loaded.module.modules()):
        assert "model.safetensors" not in MAPS.read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_bfloat16_weights_are_lossless_and_rounded_ones_are_counted(folder: Path, tmp_path: Path) -> None:
    """A bfloat16 checkpoint is stored in bfloat16 and gives the logits of float32. The counted bytes follow the stored
    dtype.
    """
    plain = tiny_model("llama_tied").bfloat16()
    plain.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    original, wide = load_model(str(tmp_path), device="cpu"), load_model(str(tmp_path), "float32", "cpu")
    assert original.facts.dtype == wide.facts.dtype == "float32"
    assert original.facts.bytes_per_weight == pytest.approx(2, rel=0.02) and wide.facts.bytes_per_weight is None
    ids = [token % 100 for token in range(40)]
    logits = [eager_forward(model.module, ids).logits for model in (original, wide)]
    assert torch.equal(*logits)
    for name, bits in (("int8", 8), ("int4", 4.5)):
        rounded = load_model(str(folder), f"{name}-weights", "cpu")
        assert rounded.differences and bits / 8 < (rounded.facts.bytes_per_weight or 0) < 2
        assert rounded.facts.rounded_to == name
    batch = [BatchEntry(seq_id=0, phase="decode", start=9, token_ids=[1], context_len=10, samples=True)]
    read = [StepWork(model.facts).of(batch).weight_bytes for model in (original, wide)]
    assert read[0] == pytest.approx(read[1] / 2, rel=0.02)


def test_a_model_without_linear_layers_is_not_rounded() -> None:
    """GPT-2's projections are no `nn.Linear`, and its head is not rounded to int8."""
    with pytest.raises(ModelError, match=r"no linear layer of .* can be stored in int8: ") as error:
        from_module(tiny_model("gpt2"), weights=torch.int8)
    one_sentence(error)
    with pytest.raises(ModelError, match="int8-weights is for the CPU"):
        resolve_dtype("int8-weights", torch.device("cuda"))


@pytest.mark.parametrize("family", sorted(REFUSED))
def test_families_without_the_attention_interface_are_refused(family: str, tmp_path: Path) -> None:
    """The class suffices for the refusal, since the folder has no weights."""
    module = tiny_model(family)
    if module._supports_attention_backend:  # as GPT-J from transformers 5.24 on
        pytest.skip(f"{type(module).__name__} of this transformers follows the attention interface")
    module.config.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"attention interface|only layers with states") as error:
        load_model(str(tmp_path), device="cpu")
    assert "ForCausalLM" in one_sentence(error)


def test_an_encoder_decoder_is_refused(tmp_path: Path) -> None:
    from transformers import T5Config

    T5Config(vocab_size=32, d_model=16, num_layers=1, num_heads=2, d_ff=16, d_kv=8).save_pretrained(tmp_path)
    with pytest.raises(ModelError) as error:
        load_model(str(tmp_path))
    one_sentence(error)


def test_layers_without_attention_are_refused(tmp_path: Path) -> None:
    module = tiny_model("llama")
    module.model.layers[1].self_attn.forward = lambda hidden_states, **_: (hidden_states, None)
    with pytest.raises(ModelError, match="2 of its 3 layers use"):
        from_module(module)


def test_a_window_hidden_from_attention_is_refused() -> None:
    class WithoutWindow:  # configuration of a layer from which attention reads no window
        sliding_window = None

        def __init__(self, config: object) -> None:
            self._config = config

        def __getattr__(self, name: str) -> object:
            return getattr(self._config, name)

    module = tiny_model("mistral")
    for layer in module.model.layers:
        layer.self_attn.config = WithoutWindow(layer.self_attn.config)
    with pytest.raises(ModelError, match="sliding window"):
        from_module(module)


def test_missing_files_are_reported_in_one_sentence(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="no folder") as error:
        load_model(str(tmp_path / "nowhere"))
    one_sentence(error)
    with pytest.raises(ModelError, match=r"config\.json is missing") as error:
        load_model(str(tmp_path))
    one_sentence(error)
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_text((folder / name).read_text())
    with pytest.raises(ModelError, match="no safetensors") as error:
        load_model(str(tmp_path), device="cpu")
    one_sentence(error)


def test_unknown_dtypes_and_devices_are_refused() -> None:
    with pytest.raises(ModelError, match="dtype 'float12' is unknown"):
        resolve_dtype("float12", torch.device("cpu"))
    with pytest.raises(ModelError, match="unknown"):
        resolve_device("nonsense")
    with pytest.raises(ModelError, match="not supported"):
        resolve_device("mps")
    if not torch.cuda.is_available():
        with pytest.raises(ModelError, match="finds no GPU") as error:
            load_model("bundled", device="cuda")
        one_sentence(error)


def test_max_model_len_is_bounded_by_the_models_positions() -> None:
    with pytest.raises(ModelError, match="max_model_len 300 is over the 256 positions"):
        ModelRunner(from_module(tiny_model("llama")), 4, 16, 300)


def test_facts_of_a_dense_model_are_counted() -> None:
    """Embedding and output have 128 * 32 parameters each. A layer has q and o of 32 * 32, k and v of 32 * 16, three
    matrices of 32 * 48, and two norms of 32. The last norm has 32.
    """
    facts = from_module(tiny_model("llama")).facts
    assert facts.num_params == 2 * 4096 + 3 * (1024 + 512 + 512 + 1024 + 3 * 1536 + 64) + 32 == 31_456
    assert (facts.num_heads, facts.num_kv_heads, facts.head_dim, facts.v_head_dim) == (4, 2, 8, 8)
    assert facts.num_active_params is None and facts.architecture == "LlamaForCausalLM"


def test_facts_of_latent_expert_and_windowed_models_are_read() -> None:
    """DeepSeek-V3 has expanded keys of width 8 + 4 and values of width 6. Qwen3-MoE skips 2 of 4 experts per layer, of
    three 32 * 16 matrices each. Gemma 2 alternates windows.
    """
    deepseek = from_module(tiny_model("deepseek_v3")).facts
    assert (deepseek.num_kv_heads, deepseek.head_dim, deepseek.v_head_dim) == (4, 12, 6)
    moe = from_module(tiny_model("qwen3_moe")).facts
    assert moe.num_active_params == moe.num_params - 3 * 2 * 1536
    assert (moe.num_experts, moe.num_experts_per_tok) == (4, 2)
    assert from_module(tiny_model("gemma2")).facts.sliding_windows == [5, None, 5]


def test_dynamic_rope_bounds_the_length_at_the_original_positions() -> None:
    module = tiny_model("llama")
    module.config.rope_parameters = {
        "rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": 64,
    }  # fmt: skip
    assert from_module(module).facts.max_position == 64


def test_transposed_weights_preserve_results_and_ties() -> None:
    module = tiny_model("llama_tied")
    before = eager_forward(module, [3, 4, 5]).logits
    embedding = module.model.embed_tokens.weight.clone()
    assert store_linear_weights_transposed(module) == 3 * 7 + 1
    assert store_linear_weights_transposed(module) == 0
    assert (eager_forward(module, [3, 4, 5]).logits - before).abs().max() < 1e-5
    assert module.model.embed_tokens.weight.is_contiguous()
    assert torch.equal(module.lm_head.weight, embedding) and module.lm_head.weight.stride() == (1, 128)


def test_only_norms_with_the_same_results_are_replaced() -> None:
    """Llama has two norms per layer and a last one, Gemma four per layer, and GPT-2 layer norms. Norms that compute
    something else are not replaced.
    """
    for family, count in (("llama", 7), ("gemma2", 13), ("gpt2", 0)):
        module = tiny_model(family)
        generator = torch.Generator().manual_seed(0)
        for name, parameter in module.named_parameters():
            if "norm" in name:
                parameter.data.add_(torch.randn(parameter.shape, generator=generator) * 0.3)
        before = eager_forward(module, [3, 4, 5]).logits
        assert replace_rms_norms(module) == count
        assert (eager_forward(module, [3, 4, 5]).logits - before).abs().max() < 1e-5

    class HalfRMSNorm(LlamaRMSNorm):  # type: ignore[misc]
        def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
            normed: torch.Tensor = super().forward(hidden_states)
            return 0.5 * normed

    class GatedRMSNorm(LlamaRMSNorm):  # type: ignore[misc]
        def forward(self, hidden_states: torch.Tensor, gate: torch.Tensor | None = None) -> torch.Tensor:
            normed: torch.Tensor = super().forward(hidden_states)
            return normed if gate is None else normed * gate

    assert replace_rms_norms(torch.nn.Sequential(HalfRMSNorm(8), GatedRMSNorm(8), LlamaRMSNorm(8))) == 1


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_shipped_models_load_quickly_without_network(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds on two cores are four seconds of processor time, which does not depend on other load."""
    import socket

    def refuse(*args: object) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    load_model("bundled", device="cpu")  # imports
    begin = time.process_time()
    model = load_model(name, device="cpu")
    assert time.process_time() - begin < 4
    assert model.facts.name == name
    assert model.tokenizer is not None and len(model.tokenizer.encode("春江潮水连海平，")) == 8


def test_sibling_models_differ_only_in_their_kv_heads() -> None:
    facts = {name: load_model(f"bundled-{name}", device="cpu").facts for name in ("mha", "gqa", "mqa")}
    assert [facts[name].num_kv_heads for name in ("mha", "gqa", "mqa")] == [8, 2, 1]
    same = {
        (f.num_layers, f.hidden_size, f.intermediate_size, f.num_heads, f.head_dim, f.vocab_size)
        for f in facts.values()
    }
    assert len(same) == 1
    for name in ("mha", "gqa", "mqa"):
        assert (SHIPPED[f"bundled-{name}"].folder / "model.safetensors").stat().st_size <= 3 * 1024**2


def test_the_hybrid_model_has_two_state_layers_and_one_key_layer() -> None:
    """A state has 4 heads of 16 by 32 numbers, and 4 inputs of a convolution over 2 · 4 · 16 + 4 · 32 channels."""
    model = load_model("bundled-hybrid", device="cpu")
    facts, gqa = model.facts, load_model("bundled-gqa", device="cpu").facts
    assert facts.layer_kinds == ["state", "state", "keys"]
    assert facts.state_bytes == 2 * (4 * 16 * 32 + 4 * 256) * 4
    assert len(facts.layer_kinds) == gqa.num_layers and facts.hidden_size == gqa.hidden_size
    assert abs(facts.num_params / gqa.num_params - 1) < 0.1
    assert model.only_eager
    assert (SHIPPED["bundled-hybrid"].folder / "model.safetensors").stat().st_size <= 3 * 1024**2


def test_measured_heads_are_part_of_the_facts(folder: Path, tmp_path: Path) -> None:
    """The opening pattern comes first. A model without measured heads has an empty list."""
    assert load_model(str(folder), device="cpu").facts.heads == []
    copy = tmp_path / "measured"
    shutil.copytree(folder, copy)
    entries = [
        {"pattern": name, "layer": 0, "head": head, "mean_weight": 0.5, "uniform": 0.1, "queries": 9}
        for head, name in enumerate(("itself", "previous_token"))
    ]
    (copy / "heads.json").write_text(json.dumps({"opening": "previous_token", "patterns": entries}))
    heads = load_model(str(copy), device="cpu").facts.heads
    assert [head.pattern for head in heads] == ["previous_token", "itself"]
    assert heads[0].head == 1
