"""A survey as two files: rows of blocks, piece by piece, and an index that is replaced as a whole.

    NAME.rows     pieces, each compressed by zlib: changes of blocks (CHANGE), or all blocks (BLOCK)
    NAME.survey   an `Index` (`engine.trace.made_file`)

The index says of which log it is, and how much of that log it knows; what does not fit the log is not used.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from engine.trace.made_file import Stamp, read_made, write_made
from engine.trace.survey.class_rows import ClassColumns
from engine.trace.survey.sequence_rows import SequenceColumns

MAGIC = b"KVSURV\x00\x06"
LEVEL = 1  # of zlib: reading is what must be quick


class Piece(Struct, frozen=True, array_like=True):
    """Rows in the file NAME.rows. `first`: the first record whose changes they are; of a whole, the one after it."""

    first: int
    count: int  # records; of a whole 0
    offset: int
    length: int  # bytes, compressed
    checksum: int  # CRC-32 of these bytes


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
    said: list[str]  # names of RECORD of which the log says something
    media: list[str]  # outside the pool, of which the log says what lies there
    sequences: SequenceColumns
    classes: ClassColumns
    contents: msgspec.Raw  # ContentColumns: a server that follows a run reads the index often, and these seldom


def write_index(path: Path, index: Index) -> None:
    """Replace the index: readers see the one before, or this one."""
    write_made(path, MAGIC, index)


def read_index(path: Path) -> Index:
    """Raises MadeFileError: there is none, or it is damaged."""
    return read_made(path, MAGIC, Index, "survey")
