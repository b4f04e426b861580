"""GGUF files: the description of their tensors. transformers reads the tensors and expands them."""

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
CODES = "BbHhIif?__Qqd"  # of `struct`, by the type of a value in the metadata
STRING, ARRAY = 8, 9
ALIGNMENT = 32  # bytes, unless the metadata states another one


class GgufWeights(NamedTuple):
    """Weights of a file or a tensor."""

    form: str  # of most weights, for example Q4_K
    num_bytes: int
    num_weights: int


class GgufHeader(NamedTuple):
    """Description of the tensors, which precedes their data."""

    tensors: list[GgufWeights]  # one each
    num_bytes: int  # of the whole file


def is_gguf(name: str) -> bool:
    """Return whether a name is that of an existing GGUF file."""
    return name.endswith(SUFFIX) and Path(name).expanduser().is_file()


def check_gguf_package() -> None:
    """Raises:
    ModelError: the package is not installed.
    """
    if importlib.util.find_spec("gguf") is None:
        raise ModelError(sentence("gguf.package"))


def gguf_weights(path: str | Path) -> GgufWeights:
    """Count the weights of a file that `check_weight_file` accepts; only their descriptions are read.

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
        ValueError, LookupError: it is no GGUF file, or of an unknown version or type.
    """
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    reader = _Reader(file)
    if file.read(len(MAGIC)) != MAGIC:
        raise ValueError("it does not begin with GGUF")
    version = reader.number("I")
    if not version & 0xFFFF:
        reader.order, version = ">", int.from_bytes(version.to_bytes(4, "little"), "big")
    if version not in VERSIONS:
        raise ValueError(f"version {version} is not of {VERSIONS}")
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
    """Reader of values in GGUF's encoding; raises struct.error where the file ends."""

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
        """Read a value of a type; strings and arrays are skipped."""
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
