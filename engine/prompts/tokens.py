"""Tokenizer for counting the tokens of prompts.

Does not import torch or transformers, which takes seconds, except for a GGUF file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from engine.model.gguf_file import is_gguf
from engine.model.shipped import SHIPPED
from engine.model.weight_files import check_weight_file

_LENGTH = re.compile(r'"hash":"([0-9a-f]+)","length":(\d+)')
Encode = Callable[[str], Sequence[int]]


def open_encoder(name: str | None = None) -> Encode:
    """Return the encoder of a folder's tokenizer.json, a GGUF file or a hub name; None: the bundled model's.

    Raises:
        ValueError: the tokenizer cannot be read.
    """
    folder = SHIPPED["bundled"].folder if name is None else Path(name)
    if is_gguf(str(name)):
        check_weight_file(folder, str(name))
    try:
        if folder.is_dir():
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        elif is_gguf(str(name)):
            tokenizer = _of_gguf(folder)
        else:
            tokenizer = Tokenizer.from_pretrained(str(name))
    except Exception as error:  # the library raises no narrower type
        raise ValueError(f"cannot read the tokenizer of {name}: {' '.join(str(error).split())[:200]}") from error
    tokenizer.no_truncation()
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids  # type: ignore[no-any-return]


def _of_gguf(path: Path) -> Tokenizer:
    from transformers import AutoTokenizer

    found: Tokenizer = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name).backend_tokenizer
    return found


def characters_of(text: str) -> range:
    """Return one token id per character of a text or a hashed text. Different texts have different ids."""
    found = _LENGTH.findall(text)
    start = (hash(text) & 0x3FFFFFFF) << 32
    return range(start, start + (sum(int(length) for _, length in found) if found else len(text)))
