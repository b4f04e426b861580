"""Every model type of transformers' causal mapping, small and random, is served correctly or refused in one
sentence.
"""

import re
from typing import Any

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from engine.model.errors import ModelError
from engine.model.facts import refuse_unsupported
from engine.model.loader import from_module
from tests.causal_types import TYPES, VOCAB_SIZE, causal_config, causal_model
from tests.parity.harness import Driver, mixed_schedule, random_prompt

TOLERANCE = 5e-5  # of the largest logit
LENGTHS = {5: 14, 9: 18, 2: 11}  # seq_id -> tokens; longer than the sliding windows
# What a class or a configuration says of itself, before any weight is read.
AT_ONCE = (
    "attention interface, so its KV cache cannot be paged",
    "encoder-decoder",
    "has layers of type",
    "has only layers with states",
)
# And what is found out by running it: a word of the reason.
REASONS = {
    "diffllama": "attends 2 times per pass",
    "doge": "uses its own attention mask",
    "hrm_text": "3 of its 24 layers",
    "moshi": "sliding window that it does not pass",
    "phimoe": "sliding window that it does not pass",
    **dict.fromkeys(
        ("bert", "bert-generation", "camembert", "data2vec-text", "electra", "ernie", "roberta", "roberta-prelayernorm",
         "roc_bert", "xlm-roberta", "xlm-roberta-xl"), "attends to later tokens",
    ),
}  # fmt: skip
# Models that cannot be built here: draft models that want another one's keys and values, and one with an image encoder
# of a package that is not installed (its text model is `gemma3n_text`).
NOT_BUILT = {"gemma4_assistant", "gemma4_unified_assistant", "gemma3n"}
SERVED = {
    "afmoe", "apertus", "arcee", "aria_text", "bitnet", "cohere", "cohere2", "cohere2_moe", "cwm", "dbrx",
    "deepseek_v2", "deepseek_v3", "dots1", "emu3", "ernie4_5", "ernie4_5_moe", "exaone4", "exaone_moe",
    "flex_olmo", "gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n_text", "gemma4", "gemma4_text", "glm",
    "glm4", "glm4_moe", "glm4_moe_lite", "gpt2", "gpt_neox", "gpt_oss", "granite", "granitemoe",
    "granitemoeshared", "helium", "hunyuan_v1_dense", "hunyuan_v1_moe", "hyperclovax", "jais2", "jetmoe",
    "llama", "minicpm3", "minimax_m2", "ministral", "ministral3", "mistral", "mixtral", "modernbert-decoder",
    "nanochat", "nemotron", "olmo", "olmo2", "olmo3", "olmoe", "opt", "persimmon", "phi", "phi3", "qwen2",
    "qwen2_moe", "qwen3", "qwen3_moe", "seed_oss", "smollm3", "starcoder2", "vaultgemma", "youtu",
}  # fmt: skip


def refusal(error: ModelError) -> str:
    """Return the text of a refusal, which must be one sentence."""
    text = str(error)
    assert "\n" not in text and len(text) < 500, text
    assert not re.search(r"\b(?:Key|Type|Value|Attribute|Index|Runtime)Error\b|Traceback", text), text
    return text


def refused_at_once(model_type: str) -> str | None:
    """Return why a family is refused by class and configuration alone, or None."""
    try:
        config = CONFIG_MAPPING[model_type]()
    except StrictDataclassError as error:
        pytest.skip(f"this transformers refuses the type's own defaults: {error}")
    model_class: Any = AutoModelForCausalLM._model_mapping.get(type(config), None)
    try:
        refuse_unsupported(model_class[0] if isinstance(model_class, tuple) else model_class, config)
    except ModelError as error:
        return refusal(error)
    return None


def served_or_refused(module: Any) -> str | None:
    """Return None if the model is served and every logit of a mixed schedule is the module's own; else the refusal."""
    sequences = {seq: random_prompt(length, VOCAB_SIZE, seq) for seq, length in LENGTHS.items()}
    with torch.inference_mode():
        plain = {}
        for seq, tokens in sequences.items():
            try:
                plain[seq] = module(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
            except Exception:  # then it had better be refused
                plain[seq] = torch.full((len(tokens), VOCAB_SIZE), float("nan"))
    try:
        model = from_module(module)
    except ModelError as error:
        return refusal(error)
    driver = Driver(model, 4, 16)
    mixed_schedule(driver, sequences)
    assert len(driver.logits) == 25
    for (seq, position), logits in driver.logits.items():
        worst = float((logits - plain[seq][position]).abs().max() / plain[seq].abs().max())
        assert worst <= TOLERANCE, (seq, position, worst)
    return None


@pytest.mark.parametrize("model_type", TYPES)
def test_served_right_or_refused(model_type: str) -> None:
    if model_type in NOT_BUILT:
        pytest.skip("needs another model, or a package that is not installed")
    why = refused_at_once(model_type)
    if why is not None and model_type not in SERVED:
        assert any(reason in why for reason in AT_ONCE), why
        return
    why = served_or_refused(causal_model(causal_config(model_type)))
    if model_type in REASONS:
        assert why is not None and REASONS[model_type] in why
    elif model_type in SERVED:
        assert why is None, why


def test_the_lists_name_types_that_exist() -> None:
    assert len(SERVED) == 69 and not SERVED & set(REASONS)
    known = set(TYPES)
    assert len(SERVED & known) >= 60 and NOT_BUILT | set(REASONS) <= known


ALL_FULL = {"layer_types": ["full_attention"] * 3}
PAIRS = {"num_hidden_layers": 6, "num_kv_shared_layers": 2, "layer_types": ["sliding_attention", "full_attention"] * 3}
UNSCALED = {**ALL_FULL, "no_rope_layers": [1, 1, 0], "attn_temperature_tuning": False}


@pytest.mark.parametrize(
    ("model_type", "settings", "reason"),
    [
        ("gemma4_text", PAIRS, None),
        ("gemma3n_text", {**PAIRS, "activation_sparsity_pattern": [0.0] * 6}, None),
        ("gemma3_text", {"use_bidirectional_attention": True}, "attends to later tokens"),
        ("llama4_text", UNSCALED, None),
        # from 8,192 tokens in a row on: no comparison of a few tokens sees it
        ("llama4_text", {**UNSCALED, "attn_temperature_tuning": True, "floor_scale": 8192}, "uses a token's place"),
        ("bert", {"is_decoder": True}, None),
        # its positions begin behind that of the padding, and what is packed names its own
        ("roberta", {"is_decoder": True}, "its logits differ by"),
        ("xlm-roberta", {"is_decoder": True}, "its logits differ by"),
        ("doge", {"keep_window_size": 64}, "uses its own attention mask"),
    ],
)  # fmt: skip
def test_every_attention_setting_is_honoured(model_type: str, settings: dict[str, Any], reason: str | None) -> None:
    """Settings include shared keys and values, bidirectional attention, scaled queries, and decoders."""
    why = served_or_refused(causal_model(causal_config(model_type, **settings)))
    assert (why is None) if reason is None else (why is not None and reason in why), why
