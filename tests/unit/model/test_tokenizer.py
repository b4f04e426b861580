"""Bytes of tokens, and incremental decoding of bytes to text."""

from tokenizers import AddedToken, decoders, models
from tokenizers import Tokenizer as Backend
from transformers import PreTrainedTokenizerFast

from engine.model.detokenizer import IncrementalDetokenizer
from engine.model.tokenizer import Tokenizer, normalize_prompt
from tests.tiny_models import byte_level_tokenizer, tiny_tokenizer


def test_every_byte_has_a_byte_level_token() -> None:
    tokenizer = Tokenizer(byte_level_tokenizer())
    assert sorted(tokenizer.token_bytes(index) for index in range(256)) == [bytes([byte]) for byte in range(256)]


def test_byte_level_text_round_trips() -> None:
    tokenizer = Tokenizer(byte_level_tokenizer())
    text = "春江 潮水 👩‍🚀 naïve\n\t\u00ad"
    assert b"".join(tokenizer.token_bytes(index) for index in tokenizer.encode(text)) == text.encode()


def test_characters_outside_the_vocabulary_are_encoded_as_bytes() -> None:
    tokenizer = Tokenizer(tiny_tokenizer())
    pieces = [tokenizer.token_bytes(index) for index in tokenizer.encode("春江é")]
    assert pieces == ["春".encode(), "江".encode(), b"\xc3", b"\xa9"]


def test_special_tokens_have_names_and_no_text() -> None:
    tokenizer = Tokenizer(tiny_tokenizer(), eos_token_id=[2, 5])
    assert [tokenizer.text_bytes(index) for index in range(3)] == [b"", b"", b""]
    assert tokenizer.token_bytes(2) == b"</s>"
    assert tokenizer.eos_token_ids == [2, 5]
    assert tokenizer.vocab_size == 128 and tokenizer.token_bytes(500) == b""


def test_sentencepiece_spaces_are_decoded_except_in_added_tokens() -> None:
    """▁ is a space if the decoder replaces it. Added tokens are literal."""
    backend = Backend(models.BPE(vocab={"▁a": 0, "b": 1, "<0xE6>": 2}, merges=[], byte_fallback=True))
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    backend.add_tokens([AddedToken("▁x", special=False)])
    tokenizer = Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend))
    assert [tokenizer.token_bytes(index) for index in range(4)] == [b" a", b"b", b"\xe6", "▁x".encode()]


def test_prompts_get_full_width_punctuation_after_cjk_only() -> None:
    assert normalize_prompt("春江潮水连海平,海上!好?") == "春江潮水连海平，海上！好？"
    assert normalize_prompt("Once, twice! 3,000?") == "Once, twice! 3,000?"
    assert normalize_prompt("平,,x") == "平，，x"


def test_characters_are_shown_with_their_last_byte() -> None:
    detokenizer = IncrementalDetokenizer()
    text = "春👩‍🚀é"
    parts = [detokenizer.feed(bytes([byte])) for byte in text.encode()]
    assert "".join(parts) == text and "\ufffd" not in "".join(parts)
    assert parts[:3] == ["", "", "春"]
    assert detokenizer.finish() == ""


def test_an_incomplete_character_is_shown_only_at_the_end() -> None:
    detokenizer = IncrementalDetokenizer()
    assert detokenizer.feed("海".encode()[:2]) == ""
    assert detokenizer.finish() == "\ufffd"
    assert detokenizer.feed(b"a") == "a"
