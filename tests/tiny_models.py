"""Small random models of many families, made from their configurations, and a small tokenizer.

Nothing is downloaded. Equal family and seed give equal weights.
"""

from collections.abc import Callable
from typing import Any

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

VOCAB_SIZE = 128
COMMON: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
HEADS = {"head_dim": 8}
WINDOW = 5  # smaller than the prompts of the tests
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}


def _config(name: str, **settings: Any) -> Any:
    return getattr(transformers, f"{name}Config")(**{**COMMON, **settings})


def _gpt2(**settings: Any) -> Any:
    return transformers.GPT2Config(
        vocab_size=VOCAB_SIZE,
        n_embd=32,
        n_layer=3,
        n_head=4,
        n_positions=256,
        bos_token_id=1,
        eos_token_id=2,
        **settings,
    )


def _opt() -> Any:
    return transformers.OPTConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=32,
        ffn_dim=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=256,
        word_embed_proj_dim=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )


SLIDING_THEN_FULL = ["sliding_attention", "sliding_attention", "full_attention"]

FAMILIES: dict[str, Callable[[], Any]] = {
    "llama": lambda: _config("Llama"),
    "llama_mha": lambda: _config("Llama", num_key_value_heads=4),
    "llama_mqa": lambda: _config("Llama", num_key_value_heads=1),
    "llama_tied": lambda: _config("Llama", tie_word_embeddings=True),
    "qwen2": lambda: _config("Qwen2"),
    "qwen3": lambda: _config("Qwen3", **HEADS),
    "mistral": lambda: _config("Mistral", sliding_window=WINDOW, **HEADS),
    "gpt2": _gpt2,
    "gemma2": lambda: _config(
        "Gemma2",
        sliding_window=WINDOW,
        query_pre_attn_scalar=8,
        attn_logit_softcapping=2.0,
        final_logit_softcapping=5.0,
        **HEADS,
    ),
    "gemma3": lambda: _config(
        "Gemma3Text", sliding_window=WINDOW, query_pre_attn_scalar=8, layer_types=SLIDING_THEN_FULL, **HEADS
    ),
    "phi3": lambda: _config("Phi3"),
    "gpt_neox": lambda: _config("GPTNeoX"),
    "olmo2": lambda: _config("Olmo2"),
    "opt": _opt,
    "gpt_oss": lambda: _config(
        "GptOss",
        sliding_window=WINDOW,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        num_local_experts=4,
        num_experts_per_tok=2,
        **HEADS,
    ),
    "deepseek_v3": lambda: _config(
        "DeepseekV3",
        num_key_value_heads=4,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=4,
        qk_nope_head_dim=8,
        v_head_dim=6,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=2,
        topk_group=1,
        moe_intermediate_size=16,
        n_shared_experts=1,
        first_k_dense_replace=1,
    ),
    "qwen3_moe": lambda: _config("Qwen3Moe", **MOE, **HEADS),
}

# Families whose KV cache cannot be paged through the attention interface.
REFUSED: dict[str, Callable[[], Any]] = {
    "falcon": lambda: transformers.FalconConfig(
        vocab_size=VOCAB_SIZE, hidden_size=32, num_hidden_layers=2, num_attention_heads=4
    ),
    "gptj": lambda: transformers.GPTJConfig(
        vocab_size=VOCAB_SIZE, n_embd=32, n_layer=2, n_head=4, n_positions=64, rotary_dim=4
    ),
    "bloom": lambda: transformers.BloomConfig(vocab_size=VOCAB_SIZE, hidden_size=32, n_layer=2, n_head=4),
    "mpt": lambda: transformers.MptConfig(vocab_size=VOCAB_SIZE, d_model=32, n_layers=2, n_heads=4),
    "mamba": lambda: transformers.MambaConfig(vocab_size=VOCAB_SIZE, hidden_size=32, num_hidden_layers=2),
}


def tiny_config(family: str) -> Any:
    """Return the configuration of a family."""
    return (FAMILIES.get(family) or REFUSED[family])()


def tiny_model(family: str = "llama", seed: int = 0, dtype: torch.dtype = torch.float32, **settings: Any) -> Any:
    """Return a random transformers model in evaluation mode; `settings` override its configuration.

    Weights are larger than a fresh model's, so that attention is far from uniform and errors show.
    """
    config = tiny_config(family)
    for name, value in settings.items():
        setattr(config, name, value)
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if parameter.dim() > 1:
                fan_in = parameter.shape[-1]
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * (1.2 / fan_in**0.5))
            elif "sinks" in name or "bias" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return model.to(dtype).eval()


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with byte fallback and a few characters. Ids 0 to 2 are special tokens, followed by characters
    and as many bytes as fit.
    """
    characters = list("春江潮水连海平上明月共生，。？！ abcdefghijklmnopqrstuvwxyz.,\n")
    vocabulary = {token: index for index, token in enumerate(["<pad>", "<s>", "</s>", *characters])}
    for byte in range(0x80, 0x80 + VOCAB_SIZE - len(vocabulary)):
        vocabulary[f"<0x{byte:02X}>"] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True, fuse_unk=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "isolated")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True, normalized=False) for name in ("<pad>", "<s>", "</s>")]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>")


def byte_level_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of GPT-2's byte-level alphabet without merges: every token is one byte."""
    vocabulary = {char: index for index, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", special=True, normalized=False)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")
