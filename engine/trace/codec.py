"""Encoding of a trace: msgpack of the types of `records`, arrays as an extension type, frames with a checksum.

Frame layout, little endian: kind u8, payload length u32, CRC-32 of the payload u32, payload.
Array extension (code 1): dtype code u8, number of dimensions u8, each dimension u32, then the elements in C order.
"""

from __future__ import annotations

import math
import os
import struct
import threading
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np
from zlib_ng import zlib_ng as zlib  # CRC-32 in a tenth of the standard module's time

MAGIC = b"KVTRACE\x01"
ARRAY_EXT = 1
MAX_PAYLOAD = 256 * 1024 * 1024  # bytes; a longer frame counts as damaged and is not read

MAX_HEADER = 1024 * 1024  # bytes; every viewer receives it in one message

LARGE = 1 << 12  # bytes; `encode_pieces` does not copy arrays of at least this size
_GAP = os.urandom(16)  # placeholder for bytes that `encode_pieces` does not copy
_FRAME = struct.Struct("<BII")
_DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<f2"),
    2: np.dtype("<f4"),
    3: np.dtype("<i4"),
    4: np.dtype("<u1"),
}
_DTYPE_CODES = {dtype: code for code, dtype in _DTYPES.items()}

FrameKind = Literal["header", "record", "capture", "keyframe"]
_KIND_CODES: dict[FrameKind, int] = {"header": 1, "record": 2, "capture": 3, "keyframe": 4}
_KINDS: dict[int, FrameKind] = {code: kind for kind, code in _KIND_CODES.items()}
_RECORD = _KIND_CODES["record"]
FRAME_OVERHEAD = _FRAME.size

Piece = bytes | bytearray | memoryview
Pieces = list[Piece]
T = TypeVar("T")


class TraceFormatError(ValueError):
    """The bytes are damaged, of another version, or not a trace."""


class Frame(NamedTuple):
    """Position of a frame's payload in its file."""

    kind: FrameKind
    offset: int  # offset of the payload in the file
    length: int
    checksum: int


_prepared: set[Any] = set()
_preparing = threading.Lock()


def prepare(kind: Any) -> None:
    """Make `kind` safe to decode or convert on several threads.

    msgspec builds a type's information on first use. Two threads doing so at once crash the process (msgspec 0.22).
    """
    if kind not in _prepared:
        with _preparing:
            msgspec.msgpack.Decoder(kind)
            _prepared.add(kind)


def encode(value: Any) -> bytes:
    """Encode a header, record, capture or state as msgpack."""
    return _encoder.encode(value)


def encode_pieces(value: Any) -> Pieces:
    """Return the bytes of `encode` in pieces, without copying `Encoded` values and arrays of at least `LARGE` bytes."""
    uncopied: Pieces = []

    def gap(before: bytes, piece: Piece) -> msgspec.Raw:
        uncopied.append(piece)
        return msgspec.Raw(before + _GAP)

    def hook(part: Any) -> msgspec.msgpack.Ext | msgspec.Raw:
        if isinstance(part, Encoded):
            return gap(b"", part.encoded)
        head, numbers = _array_bytes(part)
        if numbers.nbytes < LARGE:
            return _array_extension(head, numbers)
        length = len(head) + numbers.nbytes
        kind, form = (0xC8, ">BHB") if length < 1 << 16 else (0xC9, ">BIB")
        return gap(struct.pack(form, kind, length, ARRAY_EXT) + head, numbers)

    first, *others = msgspec.msgpack.Encoder(enc_hook=hook).encode(value).split(_GAP)
    return [first, *(piece for pair in zip(uncopied, others, strict=True) for piece in pair)]


def decode(payload: Piece, kind: type[T]) -> T:
    """Decode the msgpack `payload` as a `kind`; check the type of every field.

    Raises:
        TraceFormatError: the payload is invalid; the message names the wrong field.
    """
    prepare(kind)
    try:
        return msgspec.msgpack.decode(payload, type=kind, dec_hook=_check_array, ext_hook=_decode_array)
    except (msgspec.MsgspecError, TraceFormatError, UnicodeDecodeError, RecursionError) as error:
        raise TraceFormatError(f"not a valid {kind.__name__}: {error}") from error


def frame(kind: FrameKind, payload: bytes) -> bytes:
    """Return the payload, preceded by its frame head."""
    return frame_at(kind, [payload], 0)[0] + payload


def frame_at(kind: FrameKind, pieces: Pieces, offset: int) -> tuple[bytes, Frame]:
    """Return the head of a frame that is written at byte `offset` of a file, and its `Frame`.

    `pieces`: parts of the payload, in order.
    """
    length = sum(map(len, pieces))
    if length > _max_length(kind):
        raise TraceFormatError(_too_long(kind, length))
    checksum = 0
    for piece in pieces:
        checksum = zlib.crc32(piece, checksum)
    return _FRAME.pack(_KIND_CODES[kind], length, checksum), Frame(kind, offset + FRAME_OVERHEAD, length, checksum)


def _max_length(kind: FrameKind) -> int:
    return MAX_HEADER if kind == "header" else MAX_PAYLOAD


def _too_long(kind: FrameKind, length: int) -> str:
    return f"a {kind} of {length} bytes exceeds the limit of {_max_length(kind)} bytes"


def parse_frame_head(head: bytes, offset: int, file_size: int) -> Frame:
    """Parse the frame head at byte `offset` of a file of `file_size` bytes.

    Raises:
        TraceFormatError: unknown kind, or the payload would end past the file's end.
    """
    if len(head) < FRAME_OVERHEAD:
        raise TraceFormatError(f"the file ends inside a frame head at byte {offset}")
    code, length, checksum = _FRAME.unpack(head)
    kind = _KINDS.get(code)
    if kind is None or length > MAX_PAYLOAD:
        raise TraceFormatError(f"no valid frame at byte {offset}")
    if length > _max_length(kind):
        raise TraceFormatError(_too_long(kind, length))
    start = offset + FRAME_OVERHEAD
    if start + length > file_size:
        raise TraceFormatError(f"the file ends inside the {kind} that starts at byte {offset}")
    return Frame(kind, start, length, checksum)


def record_head(head: bytes) -> tuple[int, int] | None:
    """Return length and checksum of a record's payload, given its frame head; None if it is no valid record head."""
    if len(head) < FRAME_OVERHEAD:
        return None
    code, length, checksum = _FRAME.unpack(head)
    return (length, checksum) if code == _RECORD and length <= MAX_PAYLOAD else None


def check_payload(found: Frame, payload: bytes) -> bytes:
    """Return `payload` if its checksum is correct.

    Raises:
        TraceFormatError: the checksum is wrong.
    """
    if zlib.crc32(payload) != found.checksum:
        raise TraceFormatError(f"the {found.kind} at byte {found.offset - FRAME_OVERHEAD} fails its checksum")
    return payload


class Encoded:
    """Value that is already encoded as msgpack."""

    def __init__(self, encoded: Piece) -> None:
        self.encoded = encoded


def _encode_array(value: Any) -> msgspec.msgpack.Ext | msgspec.Raw:
    return msgspec.Raw(value.encoded) if isinstance(value, Encoded) else _array_extension(*_array_bytes(value))


def _array_extension(head: bytes, numbers: memoryview) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(ARRAY_EXT, b"".join((head, numbers)))


def _array_bytes(value: Any) -> tuple[bytes, memoryview]:
    """Return an array's dtype and shape as bytes, and its elements, copied only if they are not contiguous."""
    if not isinstance(value, np.ndarray) or value.dtype not in _DTYPE_CODES:
        raise TypeError(f"a trace cannot hold {type(value).__name__} {getattr(value, 'dtype', '')}".rstrip())
    head = struct.pack(f"<BB{value.ndim}I", _DTYPE_CODES[value.dtype], value.ndim, *value.shape)
    return head, np.ascontiguousarray(value).reshape(-1).view(np.uint8).data


def _decode_array(code: int, data: memoryview) -> np.ndarray[Any, Any]:
    if code != ARRAY_EXT or len(data) < 2 or data[0] not in _DTYPES:
        raise TraceFormatError("the extension type or array type is unknown")
    dtype, ndim = _DTYPES[data[0]], data[1]
    start = 2 + 4 * ndim
    if ndim > 8 or len(data) < start:
        raise TraceFormatError("the shape of an array is truncated")
    shape = struct.unpack_from(f"<{ndim}I", data, 2)
    too_large = math.prod(max(n, 1) for n in shape) > MAX_PAYLOAD  # other dimensions are bounded even if one is 0
    if too_large or len(data) - start != math.prod(shape) * dtype.itemsize:
        raise TraceFormatError(f"an array of shape {shape} has {len(data) - start} bytes")
    return np.frombuffer(bytes(data[start:]), dtype).reshape(shape)


_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_array)


def _check_array(kind: Any, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value
    raise TraceFormatError("expected an array, got a number or text")
