"""Files of a log index, both append-only: block rows in pieces, and everything else.

    NAME.rows     pieces, each compressed by zlib: changes of blocks (CHANGE), or all blocks (BLOCK)
    NAME.survey   8 bytes of magic, 8 random bytes that identify the file, and updates
    an update     length u32 and CRC-32 u32, little endian, and an `Update` as msgpack

An update has the difference to the previous one. Its CRC continues that of everything before it, so it is valid only
where it was written. A truncated or damaged file is read up to the last valid update, which has the number of records
and the stamp of the log.
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
from engine.trace.log_index.columns import Patch, copied, put_patch
from engine.trace.log_index.sequence_rows import SequenceColumns, SpanColumns

MAGIC = b"KVSURV\x00\x09"
LEVEL = 1  # of zlib: reading must be fast
OWN = 8  # random bytes of each file
_HEAD = struct.Struct("<II")


class Piece(Struct, frozen=True, array_like=True):
    """Rows in NAME.rows. `first`: the first record of the changes; of a complete piece, the record after it."""

    first: int
    count: int  # records; 0 for a complete piece
    offset: int
    length: int  # bytes, compressed
    checksum: int  # CRC-32 of these bytes


class Update(Struct, frozen=True, kw_only=True):
    """Update of a log index. Lists and columns hold only additions, unless noted."""

    stamp: Stamp
    num_records: int  # indexed records from the first
    is_done: bool  # no update follows: end of the log, or `problem`
    problem: str = ""  # why the index ends before the log
    num_blocks: int
    changes: list[Piece]
    wholes: list[Piece]
    series: bytes  # RECORD, a row per record
    said: list[str]  # fields of RECORD that the log has values of (complete list)
    media: list[str]  # every medium outside the pool that the log describes
    sequences: Patch[SequenceColumns]
    spans: Patch[SpanColumns]
    classes: Patch[ClassColumns]
    contents: msgspec.Raw  # Patch[ContentColumns]; raw because a server reads updates often and rarely needs these
    heard: msgspec.Raw  # ObservedColumns of a monitored server's log; raw for the same reason


class Place(NamedTuple):
    """Position up to which a file was read."""

    own: bytes
    offset: int
    checksum: int  # of everything before it


class Index(Struct, kw_only=True):
    """Contents of NAME.survey, updates merged; see `Update`."""

    place: Place
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
        """The file is created by the first update."""
        path.unlink(missing_ok=True)
        self._path = path
        self._before = MAGIC + os.urandom(OWN)
        self._checksum = zlib.crc32(self._before)

    def append(self, update: Update) -> None:
        """Append an update atomically for readers. Raises OSError: the disk is full, or the file was deleted."""
        payload = msgspec.msgpack.encode(update)
        self._checksum = zlib.crc32(payload, self._checksum)
        with self._path.open("xb" if self._before else "r+b") as file:  # a deleted file is not created again
            file.seek(0, os.SEEK_END)
            file.write(self._before + _HEAD.pack(len(payload), self._checksum) + payload)
        self._before = b""


def read_index(path: Path, known: Index | None = None) -> Index:
    """Read the index file up to its last complete update. `known`: an earlier result, which is not changed.

    Raises:
        DerivedFileError: the file is missing, or its beginning is damaged.
    """
    prepare(Update)
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC) + OWN)
            if head[: len(MAGIC)] != MAGIC or len(head) < len(MAGIC) + OWN:
                raise DerivedFileError("the log index is damaged")
            size, own = os.fstat(file.fileno()).st_size, head[len(MAGIC) :]
            if known is None or known.place.own != own or size < known.place.offset:
                found = Index(place=Place(own, len(head), zlib.crc32(head)))
            else:
                found = _copied(known)
            _read_on(file, found, size)
    except OSError as error:
        raise DerivedFileError(f"there is no log index: {error.strerror or error}") from error
    if not found.num_records:
        raise DerivedFileError("the log index is damaged")
    return found


def _read_on(file: IO[bytes], index: Index, size: int) -> None:
    """Merge the updates after those that the index has."""
    while True:
        file.seek(index.place.offset)
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return
        length, checksum = _HEAD.unpack(head)
        end = index.place.offset + _HEAD.size + length
        if end > size or zlib.crc32(payload := file.read(length), index.place.checksum) != checksum or not payload:
            return
        try:
            _put(index, msgspec.msgpack.decode(payload, type=Update))
        except (msgspec.MsgspecError, IndexError) as error:
            raise DerivedFileError(f"the log index is damaged: {error}") from error
        index.place = Place(index.place.own, end, checksum)


def _put(index: Index, update: Update) -> None:
    index.stamp, index.num_records, index.num_blocks = update.stamp, update.num_records, update.num_blocks
    index.is_done, index.problem = update.is_done, update.problem
    index.said, index.media = update.said, update.media
    index.changes += update.changes
    index.wholes += update.wholes
    index.series += update.series
    put_patch(index.sequences, update.sequences)
    put_patch(index.spans, update.spans)
    put_patch(index.classes, update.classes)
    index.contents.append(update.contents.copy())
    index.heard.append(update.heard.copy())


def _copied(index: Index) -> Index:
    return replace(
        index,
        changes=list(index.changes),
        wholes=list(index.wholes),
        series=bytearray(index.series),
        sequences=copied(index.sequences),
        spans=copied(index.spans),
        classes=copied(index.classes),
        contents=list(index.contents),
        heard=list(index.heard),
    )
