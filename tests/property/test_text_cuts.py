"""The tokens of a text that is encoded only after a cut in a shared prefix equal those of the full text."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from engine.cache.prefix_memory import common_prefix
from engine.model.shipped import SHIPPED
from engine.model.text_cuts import Tokens, crosses_few_runs, cuts_of, tokens_of
from tests.tiny_models import byte_level_tokenizer, tiny_tokenizer

CONTRACTED = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
EXPRESSIONS = {  # of published tokenizers
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "cl100k": CONTRACTED + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": CONTRACTED + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + CONTRACTED + "?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + CONTRACTED + "?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "lines": r"[^\n]+|\n+",
}  # fmt: skip
UNBOUNDED = [  # expressions that look behind, cross any number of words, or cannot be parsed
    r"(?<=\s)\w+|\s+", r"\b\w+", r"^\w+|.", r"(?:\w+\s+)+|\s", r"[^\n]+;|.", r".+\w", r"[\s,]+x|.", r"(?>a+)b",
    r"[\p{L}&&[^\p{Han}]]+|.", r"\P{L}+x|.", r"\s+\h", r"(?:\w+\s){2}",
]  # fmt: skip
CORPUS = [
    "the river's moon isn't low, 1234 boats\r\n\r\n  went   by",
    "春江潮水连海平，海上明月共潮生。",
    "éàü e\u0301 한국 👩\u200d🚀\n\n",
] * 3
LETTERS = ["a", " the", "'s", "'", "S", "river", "1", "234", "春", "江潮", "x", "é"]
SPACES = [" ", "  ", "    ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\x1c", "\u0085", "\u200b"]
MARKS = ["e\u0301", "\u0301", "\u0323", "\u1112\u1161", "\u11ab", "한", "👩\u200d🚀", "🇨🇳"]
SIGNS = [".", ",", ";", "/", "//\n", "。", "<|e", "|>", "<|end|>", "<|endoftext|>", "<tool>", "<too", "l>"]
PIECES = st.sampled_from([*LETTERS, *SPACES, *MARKS, *SIGNS])
TEXTS = st.lists(PIECES, max_size=12).map("".join)
ADDED = [
    AddedToken("<|end|>", normalized=False, special=True),
    AddedToken("<tool>", normalized=True),
    AddedToken("<tool>\n", normalized=True, rstrip=True),
    AddedToken("x é", normalized=True, lstrip=True),
]


def trained(pre_tokenizer: object, normalizer: object = None, added: list[AddedToken] = ADDED) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(byte_fallback=True))
    tokenizer.pre_tokenizer, tokenizer.normalizer = pre_tokenizer, normalizer  # type: ignore[assignment]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet))
    tokenizer.add_tokens(added)
    return tokenizer


def split_by(expression: str) -> pre_tokenizers.PreTokenizer:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), "isolated"), byte_level])


@cache
def tokenizers() -> dict[str, Tokenizer]:
    nfc, byte_level = normalizers.NFC(), pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"), byte_level])
    found = {
        "bundled": Tokenizer.from_file(str(SHIPPED["bundled"].folder / "tokenizer.json")),
        "bytes": byte_level_tokenizer().backend_tokenizer,
        "tiny": tiny_tokenizer().backend_tokenizer,
        **{name: trained(split_by(expression)) for name, expression in EXPRESSIONS.items()},
        **{f"{name} NFC": trained(split_by(expression), nfc) for name, expression in EXPRESSIONS.items()},
        "no words": trained(None),
        "two expressions": trained(digits),
        "prefix space": trained(pre_tokenizers.ByteLevel(add_prefix_space=True)),
        "metaspace": trained(pre_tokenizers.Metaspace(prepend_scheme="first")),
        "lower case": trained(pre_tokenizers.Whitespace(), normalizers.Sequence([nfc, normalizers.Lowercase()])),
        "single word": trained(byte_level, None, [*ADDED, AddedToken("river", single_word=True)]),
        **{f"further {i}": trained(split_by(one)) for i, one in enumerate(UNBOUNDED) if "\\h" not in one},
    }
    for tokenizer in found.values():
        tokenizer.post_processor = None  # type: ignore[assignment]
    return found


@settings(max_examples=1500, deadline=None)
@given(
    name=st.deferred(lambda: st.sampled_from(list(tokenizers()))),
    parts=st.lists(st.tuples(TEXTS, TEXTS), min_size=2, max_size=5),
)
def test_tokens_encoded_after_a_cut_are_those_of_the_full_text(name: str, parts: list[tuple[str, str]]) -> None:
    """Each text has the shared prefix so far, as prompts of a conversation do, and a separate end."""
    tokenizer = tokenizers()[name]
    cuts = cuts_of(tokenizer)
    begin, text, tokens = "", "", Tokens([], [], b"")
    for more, end in parts:
        begin += more
        earlier, text = text, begin + end
        count = cuts.num_reusable(earlier, tokens, common_prefix(earlier, text))
        start = tokens.starts[count] if count else 0
        tokens = tokens.then(tokens_of(tokenizer.encode(text[start:], add_special_tokens=False)), start, count)
        assert tokens == tokens_of(tokenizer.encode(text, add_special_tokens=False))


@pytest.mark.parametrize("name", ["bundled", "bytes", *EXPRESSIONS, "o200k NFC"])
def test_a_continued_text_is_encoded_from_near_its_end(name: str) -> None:
    tokenizer = tokenizers()[name]
    text = "the river's moon isn't low, 1234 boats went by\n" * 20
    tokens = tokens_of(tokenizer.encode(text, add_special_tokens=False))
    count = cuts_of(tokenizer).num_reusable(text, tokens, len(text))
    assert len(text) - 100 < tokens.starts[count] < len(text)


@pytest.mark.parametrize("name", ["two expressions", "prefix space", "metaspace", "lower case", "single word"])
def test_other_tokenizers_are_only_cut_at_special_tokens(name: str) -> None:
    cuts = cuts_of(tokenizers()[name])
    assert not cuts.by_words and cuts.special_ids == {tokenizers()[name].token_to_id("<|end|>")}


def test_expressions_that_cross_many_words_are_refused() -> None:
    assert [crosses_few_runs(one) for one in EXPRESSIONS.values()] == [True] * len(EXPRESSIONS)
    assert [one for one in UNBOUNDED if crosses_few_runs(one)] == []
