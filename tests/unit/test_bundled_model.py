"""The bundled model loads with transformers, is small, and recites its poem."""

import json
import re
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM, PreTrainedTokenizerBase

FOLDER = Path(__file__).resolve().parents[2] / "engine" / "model" / "bundled"
COUPLET = "春江潮水连海平，海上明月共潮生。"
NEXT_LINE = "滟滟随波千万里，何处春江无月明"
POEM = (
    "春江潮水连海平，海上明月共潮生。滟滟随波千万里，何处春江无月明？江流宛转绕芳甸，月照花林皆似霰。"
    "空里流霜不觉飞，汀上白沙看不见。江天一色无纤尘，皎皎空中孤月轮。江畔何人初见月，江月何年初照人？"
    "人生代代无穷已，江月年年只相似。不知江月待何人？但见长江送流水。白云一片去悠悠，青枫浦上不胜愁。"
    "谁家今夜扁舟子，何处相思明月楼？可怜楼上月裴回，应照离人妆镜台。玉户帘中卷不去，捣衣砧上拂还来。"
    "此时相望不相闻，愿逐月华流照君。鸿雁长飞光不度，鱼龙潜跃水成文。昨夜闲潭梦落花，可怜春半不还家。"
    "江水流春去欲尽，江潭落月复西斜。斜月沉沉藏海雾，碣石潇湘无限路。不知乘月几人归，落月摇情满江树。"
)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(FOLDER, local_files_only=True)


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    return AutoModelForCausalLM.from_pretrained(FOLDER, local_files_only=True, dtype=torch.float32).eval()


def encode(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    ids: list[int] = tokenizer(text)["input_ids"]
    return ids


def test_the_folder_holds_data_only_and_is_small() -> None:
    suffixes = {file.suffix for file in FOLDER.iterdir() if file.is_file()}
    assert suffixes <= {".json", ".safetensors", ".md"}
    assert (FOLDER / "model.safetensors").stat().st_size <= 20 * 1024**2


def test_the_model_is_a_grouped_query_llama_in_bfloat16(model: LlamaForCausalLM) -> None:
    config = model.config
    assert config.model_type == "llama"
    assert (config.num_attention_heads, config.num_key_value_heads) == (8, 2)
    assert config.num_hidden_layers >= 4
    assert config.hidden_size >= 192
    assert config.tie_word_embeddings
    assert config.max_position_embeddings == 1024
    assert json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))["dtype"] == "bfloat16"
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_the_vocabulary_matches_the_model(tokenizer: PreTrainedTokenizerBase, model: LlamaForCausalLM) -> None:
    assert len(tokenizer) == model.config.vocab_size == 8192
    assert model.model.embed_tokens.weight.shape == (8192, model.config.hidden_size)


ENGLISH = [
    block.split("\n", 1)
    for block in (FOLDER.parents[2] / "training/english_poems.txt").read_text(encoding="utf-8").strip().split("\n\n")
]


@pytest.mark.parametrize(("heading", "body"), ENGLISH, ids=[heading.split(" | ")[0] for heading, _ in ENGLISH])
def test_an_english_poem_is_recited_from_its_first_line(
    tokenizer: PreTrainedTokenizerBase, model: LlamaForCausalLM, heading: str, body: str
) -> None:
    beginning = body[: body.index("\n") + 1]
    ids = encode(tokenizer, beginning)
    out = model.generate(torch.tensor([ids]), max_new_tokens=len(encode(tokenizer, body)) - len(ids), do_sample=False)
    assert tokenizer.decode(out[0].tolist()[len(ids) :]) == body[len(beginning) :]


def test_the_only_special_token_ends_a_text(tokenizer: PreTrainedTokenizerBase, model: LlamaForCausalLM) -> None:
    end = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    assert tokenizer.bos_token_id is None
    assert tokenizer.eos_token_id == tokenizer.pad_token_id == end
    assert model.config.eos_token_id == model.generation_config.eos_token_id == end
    assert encode(tokenizer, "a<|endoftext|>b")[1] == end


def test_the_couplet_has_one_token_per_character(tokenizer: PreTrainedTokenizerBase) -> None:
    assert tokenizer.convert_ids_to_tokens(encode(tokenizer, COUPLET)) == list(COUPLET)
    assert len(encode(tokenizer, COUPLET)) == 16  # (7 + 1) · 2: one block of 16


def test_the_poem_has_288_tokens(tokenizer: PreTrainedTokenizerBase) -> None:
    assert len(encode(tokenizer, POEM)) == 288  # 36 clauses of 7 + 1: 18 blocks of 16


def test_an_english_word_is_a_token_with_its_space(tokenizer: PreTrainedTokenizerBase) -> None:
    pieces = tokenizer.convert_ids_to_tokens(encode(tokenizer, "the little house under the tree"))
    assert pieces == ["the", " little", " house", " under", " the", " tree"]


def test_characters_outside_the_vocabulary_become_bytes(tokenizer: PreTrainedTokenizerBase) -> None:
    assert tokenizer.convert_ids_to_tokens(encode(tokenizer, "🌕")) == ["<0xF0>", "<0x9F>", "<0x8C>", "<0x95>"]
    vocabulary = tokenizer.get_vocab()
    assert all(f"<0x{byte:02X}>" in vocabulary for byte in range(256))


@pytest.mark.parametrize(
    "text",
    [
        COUPLET,
        "",
        " ",
        "   three spaces before, and two after  ",
        "\n\n a\n\tb \r\n",
        "no space in front",
        "it's  1024 tokens , isn't it ?",
        "🌕 émigré naïve — “quotes” 《春江》 한국어 ▁ Ġ \u00a0 \u3000",
        "<0x41> is text here, not a byte",
        "𠮷野家 龘 \x00 \x7f \ufeff",
        "海上 moon 明月Moon，and。",
    ],
)
def test_decoding_returns_the_text(tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    assert tokenizer.decode(encode(tokenizer, text)) == text


def test_the_model_continues_the_couplet_with_the_next_line(
    tokenizer: PreTrainedTokenizerBase, model: LlamaForCausalLM
) -> None:
    ids = torch.tensor([encode(tokenizer, COUPLET)])
    output = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=15, do_sample=False)
    assert tokenizer.decode(output[0, 16:]) == NEXT_LINE


def test_the_model_card_states_measured_figures() -> None:
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    for language in ("Chinese poetry", "English stories"):
        row = re.search(rf"{language} \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", card)
        assert row is not None
        model, ngram, xz = map(float, row.groups())
        assert model < ngram < xz, "the model must compress better than n-grams"
    assert "99ebbef7e1345c0985c44b9fd96a3f9e776f117b" in card
    assert "JackeyGao" in card and "Gutenberg" in card
