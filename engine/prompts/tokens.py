"""Tokenizer that prompts are counted with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from transformers import AutoTokenizer

from engine.model.shipped import SHIPPED

Encode = Callable[[str], Sequence[int]]


def open_encoder(name: str | None = None) -> Encode:
    """Return what encodes a text in the tokens of a hub name or a folder; None: of the bundled model.

    Raises:
        OSError, ValueError: there is none.
    """
    tokenizer = AutoTokenizer.from_pretrained(name or str(SHIPPED["bundled"].folder))
    return lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]  # type: ignore[no-any-return]
