"""Mutation of traces, by damage of disks and transfers, or by an attacker who repairs the checksums."""

import random
import struct
import zlib
from typing import Any

import msgspec

from engine.trace.codec import FRAME_OVERHEAD, MAGIC

FRAME = struct.Struct("<BII")
MARKS = [0, 1, 0x7F, 0x80, 0xC0, 0xC4, 0xC9, 0xCF, 0xD3, 0xDC, 0xDD, 0xDE, 0xDF, 0xFF]  # msgpack's own among them
NUMBERS = [
    0,
    1,
    -1,
    2,
    3,
    7,
    64,
    255,
    1 << 16,
    (1 << 31) - 1,
    1 << 32,
    (1 << 53) - 1,
    1 << 53,
    -(1 << 63),
    (1 << 64) - 1,
]
VALUES: list[Any] = [None, True, False, "", "x", b"", b"\x00", [], {}, [[]], [0], 0.5, float("nan"), float("inf")]
MAX_BYTES = 1 << 20  # of a changed file

Frames = list[tuple[int, bytes]]


def frames_of(data: bytes) -> Frames:
    """Return kind and payload of each frame of a sound file."""
    found, offset = [], len(MAGIC)
    while offset < len(data):
        kind, length, _ = FRAME.unpack_from(data, offset)
        found.append((kind, data[offset + FRAME_OVERHEAD : offset + FRAME_OVERHEAD + length]))
        offset += FRAME_OVERHEAD + length
    return found


def joined(frames: Frames) -> bytes:
    """Return the file of these frames, with valid checksums."""
    return MAGIC + b"".join(FRAME.pack(kind, len(p), zlib.crc32(p)) + p for kind, p in frames)


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Mutate in a random way; the result has at most a megabyte."""
    way = chance.choice((_damage, _change_frames, _change_values, _change_values))
    return way(data, chance)[:MAX_BYTES]


def _damage(data: bytes, chance: random.Random) -> bytes:
    content = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 8])):
        place = chance.randrange(len(content))
        match chance.randrange(4):
            case 0:
                content[place] ^= 1 << chance.randrange(8)
            case 1:
                content[place] = chance.choice(MARKS)
            case 2:
                del content[place : place + chance.choice([1, 4, 1000])]
            case 3:
                content[place:place] = chance.randbytes(chance.choice([1, 9, 100]))
        if not content:
            break
    return bytes(content)


def _change_frames(data: bytes, chance: random.Random) -> bytes:
    frames = frames_of(data)
    for _ in range(chance.choice([1, 1, 2, 4])):
        place = chance.randrange(len(frames))
        kind, payload = frames[place]
        match chance.randrange(6):
            case 0:
                frames.insert(chance.randrange(len(frames)), frames[place])
            case 1 if len(frames) > 1:
                del frames[place]
            case 2:
                frames[place] = chance.choice([0, 1, 2, 3, 4, 5]), payload
            case _:
                content = bytearray(payload)
                for _ in range(chance.choice([1, 1, 3])):
                    if content:
                        content[chance.randrange(len(content))] = chance.choice([*MARKS, chance.randrange(256)])
                frames[place] = kind, bytes(content)
    return joined(frames)


def _change_values(data: bytes, chance: random.Random) -> bytes:
    """Change fields of records, headers and keyframes: numbers, values, their count and their order."""
    frames = frames_of(data)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        place = chance.randrange(len(frames))
        kind, payload = frames[place]
        try:
            value = msgspec.msgpack.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError):  # a hostile seed
            continue
        parents = _containers(value, [])
        holder = chance.choice(parents) if parents else None
        if isinstance(holder, dict) and holder:
            _change_map(holder, chance)
        elif isinstance(holder, list) and holder:
            _change_list(holder, chance)
        frames[place] = kind, msgspec.msgpack.encode(value)
    return joined(frames)


def _containers(value: Any, found: list[Any]) -> list[Any]:
    if isinstance(value, dict | list):
        found.append(value)
        for item in value.values() if isinstance(value, dict) else value:
            _containers(item, found)
    return found


def _change_map(holder: dict[Any, Any], chance: random.Random) -> None:
    key = chance.choice(list(holder))
    if chance.random() < 0.1:
        del holder[key]
    else:
        holder[key] = _another(holder[key], chance)


def _change_list(holder: list[Any], chance: random.Random) -> None:
    place = chance.randrange(len(holder))
    match chance.randrange(6):
        case 0:
            del holder[place]
        case 1:
            holder.insert(chance.randrange(len(holder) + 1), holder[place])
        case 2:
            chance.shuffle(holder)
        case 3 if len(holder) < 1000:
            holder.extend([holder[place]] * chance.choice([1, 10, 300]))
        case _:
            holder[place] = _another(holder[place], chance)


def _another(value: Any, chance: random.Random) -> Any:
    """Return another value, of the same kind most of the time, near the old one half of that."""
    if chance.random() < 0.1 or isinstance(value, bool):
        return chance.choice([*VALUES, *NUMBERS])
    if isinstance(value, int):
        near = max(-(1 << 63), min(value + chance.choice([-2, -1, 1, 2]), (1 << 64) - 1))
        return near if chance.random() < 0.5 else chance.choice(NUMBERS)
    if isinstance(value, float):
        return chance.choice([0.5, -0.5, float("nan"), float("inf"), 1e300, value / 3])
    if isinstance(value, str | bytes):
        return chance.choice([value[:-1], value * 2, value[:0]])
    return chance.choice([*VALUES, *NUMBERS])
