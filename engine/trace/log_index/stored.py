"""Files of a log index, which are append-only: one with the rows of blocks, and one with all other data.

    NAME.rows     pieces, each compressed by zlib: changes of blocks (CHANGE), or all blocks (BLOCK)
    NAME.survey   8 bytes of magic, 8 random bytes that identify the file, and updates
    an update     length u32 and CRC-32 u32, little endian, and an `Update` as msgpack

An update has the differences from the previous one. Its CRC continues that of all bytes before it, so it is valid only
at its position in its file. A truncated or damaged file is read up to the last valid update, which has the number of
records and the stamp of the log.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from engine.trace.codec import prepare
from engine.trace.derived_file import DerivedFileError, Stamp
from engine.trace.log_index.class_rows import ClassColumns
from engine.trace.log_index.columns import Patch, apply_patch, copy_columns
from engine.trace.log_index.sequence_rows import SequenceColumns, SpanColumns

MAGIC = b"KVSURV\x00\x09"
LEVEL = 1  # zlib level: reading must be fast
FILE_ID_BYTES = 8  # number of random bytes that identify a file
_HEAD = struct.Struct("<II")


class Piece(Struct, frozen=True, array_like=True):
    """Piece of NAME.rows: changes of `count` records, or a complete piece with all blocks before record `first`."""

    first: int  # index of the first record
    count: int  # number of records; 0 for a complete piece
    offset: int
    length: int  # compressed bytes
    checksum: int  # CRC-32 of the compressed bytes


class Update(Struct, frozen=True, kw_only=True):
    """Update of a log index. Lists and columns have only additions, unless noted."""

    stamp: Stamp
    num_records: int  # number of indexed records
    is_done: bool  # no update follows, because the log has ended or there is a `problem`
    problem: str = ""  # reason why the index ends before the log
    num_blocks: int
    changes: list[Piece]
    wholes: list[Piece]  # complete pieces
    series: bytes  # a RECORD per record
    said: list[str]  # fields of RECORD for which the log has values (complete list)
    media: list[str]  # media outside the pool that occur in the log (complete list)
    sequences: Patch[SequenceColumns]
    spans: Patch[SpanColumns]
    classes: Patch[ClassColumns]
    contents: msgspec.Raw  # Patch[ContentColumns]; not decoded, because a server often reads updates without using them
    heard: msgspec.Raw  # ObservedColumns of a monitored server's log; not decoded for the same reason


class Position(NamedTuple):
    """Position up to which a file was read."""

    file_id: bytes  # random bytes that identify the file
    offset: int
    checksum: int  # CRC-32 of all bytes before it


class Index(Struct, kw_only=True):
    """Content of NAME.survey, with all updates merged; see `Update`."""

    position: Position
    stamp: Stamp = Stamp(header_checksum=0, last_offset=-1, last_checksum=0)
    num_records: int = 0
    is_done: bool = False
    problem: str = ""
    num_blocks: int = 0
    changes: list[Piece] = []
    wholes: list[Piece] = []
    series: bytearray = msgspec.field(default_factory=bytearray)
    said: list[str] = []
    media: list[str] = []
    sequences: SequenceColumns = msgspec.field(default_factory=SequenceColumns)
    spans: SpanColumns = msgspec.field(default_factory=SpanColumns)
    classes: ClassColumns = msgspec.field(default_factory=ClassColumns)
    contents: list[msgspec.Raw] = []  # patches in order
    heard: list[msgspec.Raw] = []  # patches in order


class IndexWriter:
    """Writer of a new NAME.survey. It replaces an existing file, whose readers get no further updates."""

    def __init__(self, path: Path) -> None:
        """Delete an existing file. The first update creates the new one."""
        path.unlink(missing_ok=True)
        self._path = path
        self._head = MAGIC + os.urandom(FILE_ID_BYTES)  # b"" once it is written
        self._checksum = zlib.crc32(self._head)

    def append(self, update: Update) -> None:
        """Append an update, atomically for readers. Raises OSError if the disk is full or the file was deleted."""
        payload = msgspec.msgpack.encode(update)
        self._checksum = zlib.crc32(payload, self._checksum)
        with self._path.open("xb" if self._head else "r+b") as file:  # a deleted file is not created again
            file.seek(0, os.SEEK_END)
            file.write(self._head + _HEAD.pack(len(payload), self._checksum) + payload)
        self._head = b""


def read_index(path: Path, known: Index | None = None) -> Index:
    """Read the index file up to its last valid update. `known`: an earlier result to continue; it is not modified.

    Raises:
        DerivedFileError: the file is missing, or its beginning is damaged.
    """
    prepare(Update)
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC) + FILE_ID_BYTES)
            if head[: len(MAGIC)] != MAGIC or len(head) < len(MAGIC) + FILE_ID_BYTES:
                raise DerivedFileError("the log index is damaged")
            size, file_id = os.fstat(file.fileno()).st_size, head[len(MAGIC) :]
            if known is None or known.position.file_id != file_id or size < known.position.offset:
                found = Index(position=Position(file_id, len(head), zlib.crc32(head)))
            else:
                found = _copy(known)
            _read_updates(file, found, size)
    except OSError as error:
        raise DerivedFileError(f"there is no log index: {error.strerror or error}") from error
    if not found.num_records:
        raise DerivedFileError("the log index is damaged")
    return found


def _read_updates(file: IO[bytes], index: Index, size: int) -> None:
    """Merge the updates that follow the index's position."""
    while True:
        file.seek(index.position.offset)
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return
        length, checksum = _HEAD.unpack(head)
        end = index.position.offset + _HEAD.size + length
        if end > size or zlib.crc32(payload := file.read(length), index.position.checksum) != checksum or not payload:
            return
        try:
            _merge(index, msgspec.msgpack.decode(payload, type=Update))
        except (msgspec.MsgspecError, IndexError) as error:
            raise DerivedFileError(f"the log index is damaged: {error}") from error
        index.position = Position(index.position.file_id, end, checksum)


def _merge(index: Index, update: Update) -> None:
    index.stamp, index.num_records, index.num_blocks = update.stamp, update.num_records, update.num_blocks
    index.is_done, index.problem = update.is_done, update.problem
    index.said, index.media = update.said, update.media
    index.changes += update.changes
    index.wholes += update.wholes
    index.series += update.series
    apply_patch(index.sequences, update.sequences)
    apply_patch(index.spans, update.spans)
    apply_patch(index.classes, update.classes)
    index.contents.append(update.contents.copy())
    index.heard.append(update.heard.copy())


def _copy(index: Index) -> Index:
    return replace(
        index,
        changes=list(index.changes),
        wholes=list(index.wholes),
        series=bytearray(index.series),
        sequences=copy_columns(index.sequences),
        spans=copy_columns(index.spans),
        classes=copy_columns(index.classes),
        contents=list(index.contents),
        heard=list(index.heard),
    )
