"""Conversion of text to token ids, and of token ids to their exact bytes.

A token need not be a complete character: in byte-level vocabularies a Chinese character can be split over two or three
tokens. So tokens are mapped to bytes; `detokenizer` decodes the bytes to text.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

from engine.model.errors import TemplateSettingError

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_CJK_THEN_ASCII = re.compile(r"(?<=[\u3000-\u303f\u3400-\u9fff\uf900-\ufaff\uff00-\uffef])[,?!]+")
_FULL_WIDTH = {",": "，", "?": "？", "!": "！"}
EMPTY: Mapping[str, Any] = MappingProxyType({})
SENTENCEPIECE_SPACE = "▁"


def normalize_prompt(text: str) -> str:
    """Convert ASCII `,?!` after a CJK character to full width, as in all training text of the bundled model."""
    return _CJK_THEN_ASCII.sub(lambda run: "".join(_FULL_WIDTH[char] for char in run.group()), text)


def _byte_level_table() -> dict[str, int]:
    """Return the map from characters to bytes of GPT-2's byte-level BPE (Radford et al. 2019, `bytes_to_unicode`).

    Printable bytes map to their own character; the other 68 map to the characters from U+0100 on, in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in set(printable)]
    table.update({chr(0x100 + index): byte for index, byte in enumerate(others)})
    return table


class Tokenizer:
    """Wrapper of a transformers tokenizer with the methods that the engine needs."""

    def __init__(self, wrapped: Any, eos_token_id: int | list[int] | None = None) -> None:
        """`eos_token_id`: ids from the model's generation configuration, in addition to the tokenizer's."""
        self._wrapped = wrapped
        ids = [eos_token_id] if isinstance(eos_token_id, int) else list(eos_token_id or [])
        if wrapped.eos_token_id is not None and wrapped.eos_token_id not in ids:
            ids.append(wrapped.eos_token_id)
        self.eos_token_ids: list[int] = ids
        self.vocab_size = len(wrapped)
        added = wrapped.added_tokens_decoder
        self._literal: dict[int, str] = {index: token.content for index, token in added.items()}
        self._special = {index for index, token in added.items() if token.special} | set(wrapped.all_special_ids)
        kinds, self._space = _decoder_of(wrapped)
        self._byte_level = _byte_level_table() if "ByteLevel" in kinds else None
        self._byte_fallback = "ByteFallback" in kinds
        # called for every token of a step and its alternatives
        self.token_bytes = cache(self._token_bytes)
        self.text_bytes = cache(self._text_bytes)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, with the special tokens that the tokenizer adds."""
        return list(self._wrapped(text)["input_ids"])

    @property
    def chat_template(self) -> str:
        """Chat template of the model; that for tools if there are several, "" if there is none."""
        found = self._wrapped.chat_template or ""
        return found.get("tool_use") or found.get("default", "") if isinstance(found, dict) else found

    @property
    def has_chat_template(self) -> bool:
        return bool(self._wrapped.chat_template)

    @property
    def special_tokens(self) -> dict[str, int]:
        """Ids of the special tokens, by name."""
        return {self._literal[index]: index for index in self._special if index in self._literal}

    def chat(
        self,
        messages: list[dict[str, Any]],
        settings: Mapping[str, Any] = EMPTY,
        tools: Sequence[dict[str, Any]] = (),
    ) -> list[int]:
        """Return the token ids of a conversation by the model's template, with its generation prompt.

        `settings`: variables of the template, such as enable_thinking. `tools`: functions that the model may call.

        Raises:
            TemplateSettingError: a setting is an argument of transformers, not a variable of the template.
            ValueError: the template rejects these messages; the message is one sentence.
        """
        apply = self._wrapped.apply_chat_template
        if reserved := sorted(set(settings) & {*inspect.signature(apply).parameters, "messages"}):
            raise TemplateSettingError(f"{reserved[0]} is not a variable of the chat template; leave it out")
        try:
            found = apply(messages, tools=list(tools) or None, add_generation_prompt=True, return_dict=True, **settings)
        except Exception as error:  # a template may raise anything
            raise ValueError(f"the model's chat template fails: {' '.join(str(error).split())[:300]}") from error
        return list(found["input_ids"])

    def _text_bytes(self, token_id: int) -> bytes:
        """Return the bytes that the token adds to a text; b"" for a control token."""
        return b"" if token_id in self._special else self._token_bytes(token_id)

    def _token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of the token: a special token's name, b"" for an id without a token."""
        if token_id in self._literal:
            return self._literal[token_id].encode()
        # A model's vocabulary is often padded and larger than its tokenizer's.
        token = self._wrapped.convert_ids_to_tokens(token_id) if 0 <= token_id < self.vocab_size else None
        if token is None:
            return b""
        if self._byte_level is not None:
            if all(char in self._byte_level for char in token):
                return bytes(self._byte_level[char] for char in token)
            return str(token).encode()
        if self._byte_fallback and (match := _BYTE_TOKEN.fullmatch(token)):
            return bytes([int(match.group(1), 16)])
        if self._space:
            token = token.replace(SENTENCEPIECE_SPACE, " ")
        return str(token).encode()


def _decoder_of(wrapped: Any) -> tuple[set[str], bool]:
    """Return the decoder types of a tokenizer, and whether ▁ represents a space in it."""
    backend = getattr(wrapped, "backend_tokenizer", None)
    if backend is None:
        return {"ByteFallback"}, True  # a tokenizer without a fast form is a sentencepiece one
    decoder = json.loads(backend.to_str())["decoder"] or {}
    parts = decoder.get("decoders", [decoder])
    kinds = {part.get("type") for part in parts}
    space = "Metaspace" in kinds or any(
        part.get("type") == "Replace" and part.get("pattern", {}).get("String") == SENTENCEPIECE_SPACE for part in parts
    )
    return kinds, space
