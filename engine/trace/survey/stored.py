"""A survey as two files: rows of blocks, piece by piece, and an index that is replaced as a whole.

    NAME.rows     pieces, each compressed by zlib: changes of blocks (CHANGE), or all blocks (BLOCK)
    NAME.survey   8 bytes of magic, the CRC-32 of the rest, and an `Index` as msgpack

The index says of which log it is, and how much of that log it knows; what does not fit the log is not used.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import msgspec
from msgspec import Struct

from engine.trace.codec import Frame, prepare
from engine.trace.survey.class_rows import ClassColumns
from engine.trace.survey.sequence_rows import SequenceColumns

MAGIC = b"KVSURV\x00\x02"
LEVEL = 1  # of zlib: reading is what must be quick


class SurveyError(ValueError):
    """A survey that is damaged, of another log, or not there; one sentence."""


class Piece(Struct, frozen=True, array_like=True):
    """Rows in the file NAME.rows. `first`: the first record whose changes they are; of a whole, the one after it."""

    first: int
    count: int  # records; of a whole 0
    offset: int
    length: int  # bytes, compressed
    checksum: int  # CRC-32 of these bytes


class Stamp(Struct, frozen=True, kw_only=True):
    """Which log: its header, and the last record that is known."""

    header_checksum: int
    last_offset: int  # of the last surveyed record's payload
    last_checksum: int

    @classmethod
    def of(cls, header: Frame, last: Frame) -> Stamp:
        return cls(header_checksum=header.checksum, last_offset=last.offset, last_checksum=last.checksum)


class Index(Struct, frozen=True, kw_only=True):
    """What NAME.survey holds."""

    stamp: Stamp
    num_records: int  # surveyed: the first so many
    is_done: bool  # nothing more comes: the log's end, or `problem`
    problem: str = ""  # why it ends before the log does
    num_blocks: int
    changes: list[Piece]
    wholes: list[Piece]
    series: bytes  # RECORD, a row a record
    sequences: SequenceColumns
    classes: ClassColumns


def write_index(path: Path, index: Index) -> None:
    """Replace the index: readers see the one before, or this one."""
    payload = msgspec.msgpack.encode(index)
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(MAGIC + zlib.crc32(payload).to_bytes(4, "little") + payload)
    os.replace(fresh, path)


def read_index(path: Path) -> Index:
    """Raises SurveyError: there is none, or it is damaged."""
    try:
        found = path.read_bytes()
    except OSError as error:
        raise SurveyError(f"there is no survey: {error.strerror or error}") from error
    start = len(MAGIC) + 4
    if found[: len(MAGIC)] != MAGIC or zlib.crc32(found[start:]) != int.from_bytes(found[len(MAGIC) : start], "little"):
        raise SurveyError("the survey is damaged")
    prepare(Index)
    try:
        return msgspec.msgpack.decode(memoryview(found)[start:], type=Index)
    except msgspec.MsgspecError as error:
        raise SurveyError(f"the survey is damaged: {error}") from error
