"""Tokenizer that prompts are counted with. Needs neither torch nor transformers, which take seconds to import."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from engine.model.shipped import SHIPPED

_LENGTH = re.compile(r'"hash":"([0-9a-f]+)","length":(\d+)')
Encode = Callable[[str], Sequence[int]]


def open_encoder(name: str | None = None) -> Encode:
    """Return what encodes a text in the tokens of a folder's tokenizer.json or a hub name's; None: the bundled model's.

    Raises:
        ValueError: there is none; one sentence.
    """
    folder = SHIPPED["bundled"].folder if name is None else Path(name)
    try:
        is_here = folder.is_dir()
        tokenizer = (
            Tokenizer.from_file(str(folder / "tokenizer.json")) if is_here else Tokenizer.from_pretrained(str(name))
        )
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(f"cannot read the tokenizer of {name}: {' '.join(str(error).split())[:200]}") from error
    tokenizer.no_truncation()
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids  # type: ignore[no-any-return]


def characters_of(text: str) -> range:
    """Return a number for each character that private lines have hashed: other numbers for another hash."""
    found = _LENGTH.findall(text)
    start = (hash(text) & 0x3FFFFFFF) << 32
    return range(start, start + (sum(int(length) for _, length in found) if found else len(text)))
