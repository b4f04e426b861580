"""Detects incomplete downloads, web pages and Git LFS pointers before files are read."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import BinaryIO

from engine.model.errors import ModelError
from engine.model.gguf_file import SUFFIX, check_gguf_package, gguf_header
from engine.options.refusal import sentence

POINTER = b"version https://git-lfs.github.com/spec/"
PAGE = (b"<!doctype", b"<html", b"<?xml")
MAX_HEADER = 100_000_000  # bytes; safetensors' own limit


def check_weight_file(path: Path, name: str) -> None:
    """Check that a safetensors or GGUF file is as long as its header states. `name`: file name for error messages.

    Raises:
        ModelError: the file is incomplete or of another kind, or the package that reads it is missing.
    """
    check_pointer(path, name)
    if is_gguf := path.suffix == SUFFIX:
        check_gguf_package()
    form, num_bytes = "GGUF" if is_gguf else "safetensors", path.stat().st_size
    with path.open("rb") as file:
        begin = file.read(64)
        file.seek(0)
        if not begin:
            raise ModelError(sentence("file.empty", file=name))
        if begin.lstrip().lower().startswith(PAGE):
            raise ModelError(sentence("file.page", file=name, form=form))
        try:
            expected = gguf_header(file).num_bytes if is_gguf else _safetensors_bytes(file)
        except struct.error as error:
            raise ModelError(sentence("file.header", file=name, num_bytes=num_bytes)) from error
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:  # another kind of file
            raise ModelError(sentence("file.other", file=name, form=form, begin=str(begin[:8])[1:])) from error
    if num_bytes < expected or (num_bytes > expected and not is_gguf):
        raise ModelError(sentence("file.length", file=name, num_bytes=num_bytes, expected=expected))


def check_pointer(path: Path, name: str) -> None:
    """Raise ModelError if the file is a Git LFS pointer."""
    with path.open("rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise ModelError(sentence("file.pointer", file=name))


def _safetensors_bytes(file: BinaryIO) -> int:
    """Return the file length that the header of a safetensors file states.

    Raises:
        struct.error: the file ends within its header.
        ValueError, LookupError, TypeError, AttributeError: the file is not a safetensors file.
    """
    length: int = struct.unpack("<Q", file.read(8))[0]
    if length > MAX_HEADER:
        raise ValueError("the header is too long")
    header = file.read(length)
    if len(header) < length and header.startswith(b"{"):
        raise struct.error("the file ends within its header")
    tensors = json.loads(header)
    tensors.pop("__metadata__", None)
    data: int = max((tensor["data_offsets"][1] for tensor in tensors.values()), default=0)
    return 8 + length + data
