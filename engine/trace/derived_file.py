"""File derived from a log, with a stamp of the log and a checksum.

Layout: 8 bytes of magic, the CRC-32 of the rest, a struct as msgpack.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from engine.trace.codec import prepare
from engine.trace.log import TraceReader

T = TypeVar("T", bound=Struct)


class DerivedFileError(ValueError):
    """The file is missing, damaged, or derived from another log. The message is one sentence."""


class Stamp(Struct, frozen=True, kw_only=True):
    """Identity of a log: its header and its last record."""

    header_checksum: int
    last_offset: int  # offset of the last record's payload; -1 if the log has no records
    last_checksum: int

    @classmethod
    def of(cls, log: TraceReader, num_records: int) -> Stamp:
        """Return the stamp of the first `num_records` of a log."""
        header = log.header_frame.checksum
        if not num_records:
            return cls(header_checksum=header, last_offset=-1, last_checksum=0)
        last = log.record_frame(num_records - 1)
        return cls(header_checksum=header, last_offset=last.offset, last_checksum=last.checksum)


def write_derived(path: Path, magic: bytes, value: Struct) -> None:
    """Write the file atomically: readers see either the old file or the new one."""
    payload = msgspec.msgpack.encode(value)
    new = path.with_name(path.name + ".new")
    new.write_bytes(magic + zlib.crc32(payload).to_bytes(4, "little") + payload)
    os.replace(new, path)


def read_derived(path: Path, magic: bytes, kind: type[T], name: str) -> T:
    """Read a derived file. `name`: its name in errors. Raises DerivedFileError if it is missing or damaged."""
    try:
        found = path.read_bytes()
    except OSError as error:
        raise DerivedFileError(f"there is no {name}: {error.strerror or error}") from error
    start = len(magic) + 4
    if found[: len(magic)] != magic or zlib.crc32(found[start:]) != int.from_bytes(found[len(magic) : start], "little"):
        raise DerivedFileError(f"the {name} is damaged")
    prepare(kind)
    try:
        return msgspec.msgpack.decode(memoryview(found)[start:], type=kind)
    except msgspec.MsgspecError as error:
        raise DerivedFileError(f"the {name} is damaged: {error}") from error
