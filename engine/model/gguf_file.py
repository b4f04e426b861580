"""GGUF files: reads the descriptions of their tensors. transformers reads and expands the tensors themselves."""

from __future__ import annotations

import importlib.util
import math
import os
import struct
from collections import Counter
from pathlib import Path
from typing import BinaryIO, NamedTuple

from engine.model.errors import ModelError
from engine.options.refusal import sentence

SUFFIX = ".gguf"
MAGIC = b"GGUF"
VERSIONS = (2, 3)
CODES = "BbHhIif?__Qqd"  # codes of `struct`, indexed by GGUF's types of metadata values
STRING, ARRAY = 8, 9  # GGUF's other types
ALIGNMENT = 32  # bytes, unless the metadata states another one


class GgufWeights(NamedTuple):
    """Weights of a file or a tensor."""

    form: str  # quantization of most weights, for example Q4_K
    num_bytes: int
    num_weights: int


class GgufHeader(NamedTuple):
    """Header of a file, which precedes the tensors' data."""

    tensors: list[GgufWeights]  # one per tensor
    num_bytes: int  # size of the complete file


def is_gguf(name: str) -> bool:
    """Return whether `name` is the path of an existing GGUF file."""
    return name.endswith(SUFFIX) and Path(name).expanduser().is_file()


def check_gguf_package() -> None:
    """Raise ModelError if the package gguf is not installed."""
    if importlib.util.find_spec("gguf") is None:
        raise ModelError(sentence("gguf.package"))


def gguf_weights(path: str | Path) -> GgufWeights:
    """Count the weights of a file that `check_weight_file` accepts; only the header is read.

    Raises:
        ModelError: the file has no weights.
    """
    with Path(path).expanduser().open("rb") as file:
        tensors = gguf_header(file).tensors
    forms = Counter[str]()
    for tensor in tensors:
        forms[tensor.form] += tensor.num_weights
    if not forms:
        raise ModelError(sentence("gguf.empty", path=path))
    return GgufWeights(forms.most_common(1)[0][0], sum(one.num_bytes for one in tensors), forms.total())


def gguf_header(file: BinaryIO) -> GgufHeader:
    """Read the header of a file from its start, in bounded memory.

    Raises:
        struct.error: the file ends within its header.
        ValueError, LookupError: it is not a GGUF file, or it has an unknown version or type.
    """
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    reader = _Reader(file)
    if file.read(len(MAGIC)) != MAGIC:
        raise ValueError("the file does not begin with GGUF")
    version = reader.number("I")
    if not version & 0xFFFF:
        reader.order, version = ">", int.from_bytes(version.to_bytes(4, "little"), "big")
    if version not in VERSIONS:
        raise ValueError(f"the version must be one of {VERSIONS}, got {version}")
    num_tensors, num_fields = reader.number(), reader.number()
    alignment, end, tensors = ALIGNMENT, 0, []
    for _ in range(num_fields):
        name, value = reader.text(), reader.value(reader.number("I"))
        if name == b"general.alignment" and value is not None:
            alignment = value
    for _ in range(num_tensors):
        reader.text()
        num_weights = math.prod(reader.number() for _ in range(reader.number("I")))
        form = GGMLQuantizationType(reader.number("I"))
        block, block_bytes = GGML_QUANT_SIZES[form]
        tensors.append(GgufWeights(form.name, num_weights // block * block_bytes, num_weights))
        end = max(end, reader.number() + tensors[-1].num_bytes)
    return GgufHeader(tensors, -(-file.tell() // alignment) * alignment + end)


class _Reader:
    """Reader of values in GGUF's encoding; raises struct.error at the end of the file."""

    def __init__(self, file: BinaryIO) -> None:
        self.order = "<"
        self._file, self._num_bytes = file, os.fstat(file.fileno()).st_size

    def number(self, code: str = "Q") -> int:
        found = struct.Struct(self.order + code)
        return found.unpack(self._file.read(found.size))[0]  # type: ignore[no-any-return]

    def text(self) -> bytes:
        begin = self._file.tell() + 8
        self._skip(self.number())
        end = self._file.tell()
        self._file.seek(begin)
        return self._file.read(end - begin)

    def value(self, kind: int) -> int | None:
        """Read a value of type `kind`; strings and arrays are skipped."""
        if kind == STRING:
            self._skip(self.number())
        elif kind == ARRAY:
            kind, count = self.number("I"), self.number()
            if kind in (STRING, ARRAY):
                for _ in range(count):
                    self.value(kind)
            else:
                self._skip(count * struct.calcsize(CODES[kind]))
        else:
            return self.number(CODES[kind])
        return None

    def _skip(self, num_bytes: int) -> None:
        if num_bytes > self._num_bytes - self._file.tell():
            raise struct.error("the file ends within its header")
        self._file.seek(num_bytes, os.SEEK_CUR)
