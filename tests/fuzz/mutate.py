"""Mutation of traces, as by disks and transfers, or by an attacker who repairs the checksums."""

import random
import struct
import zlib
from typing import Any

import msgspec

from engine.trace.codec import FRAME_OVERHEAD, MAGIC

FRAME = struct.Struct("<BII")
MARKS = [0, 1, 0x7F, 0x80, 0xC0, 0xC4, 0xC9, 0xCF, 0xD3, 0xDC, 0xDD, 0xDE, 0xDF, 0xFF]  # some are msgpack types
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
MAX_BYTES = 1 << 20  # of a mutated file

Frames = list[tuple[int, bytes]]


def frames_of(data: bytes) -> Frames:
    """Return kind and payload of each frame of a valid file."""
    found, offset = [], len(MAGIC)
    while offset < len(data):
        kind, length, _ = FRAME.unpack_from(data, offset)
        found.append((kind, data[offset + FRAME_OVERHEAD : offset + FRAME_OVERHEAD + length]))
        offset += FRAME_OVERHEAD + length
    return found


def joined(frames: Frames) -> bytes:
    """Return the file of these frames, with valid checksums."""
    return MAGIC + b"".join(FRAME.pack(kind, len(p), zlib.crc32(p)) + p for kind, p in frames)


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Apply a random mutation, and truncate the result to a megabyte."""
    mutation = rng.choice((_damage, _change_frames, _change_values, _change_values))
    return mutation(data, rng)[:MAX_BYTES]


def _damage(data: bytes, rng: random.Random) -> bytes:
    content = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        place = rng.randrange(len(content))
        match rng.randrange(4):
            case 0:
                content[place] ^= 1 << rng.randrange(8)
            case 1:
                content[place] = rng.choice(MARKS)
            case 2:
                del content[place : place + rng.choice([1, 4, 1000])]
            case 3:
                content[place:place] = rng.randbytes(rng.choice([1, 9, 100]))
        if not content:
            break
    return bytes(content)


def _change_frames(data: bytes, rng: random.Random) -> bytes:
    frames = frames_of(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        place = rng.randrange(len(frames))
        kind, payload = frames[place]
        match rng.randrange(6):
            case 0:
                frames.insert(rng.randrange(len(frames)), frames[place])
            case 1 if len(frames) > 1:
                del frames[place]
            case 2:
                frames[place] = rng.choice([0, 1, 2, 3, 4, 5]), payload
            case _:
                content = bytearray(payload)
                for _ in range(rng.choice([1, 1, 3])):
                    if content:
                        content[rng.randrange(len(content))] = rng.choice([*MARKS, rng.randrange(256)])
                frames[place] = kind, bytes(content)
    return joined(frames)


def _change_values(data: bytes, rng: random.Random) -> bytes:
    """Change values of records, headers and keyframes, their number and their order."""
    frames = frames_of(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        place = rng.randrange(len(frames))
        kind, payload = frames[place]
        try:
            value = msgspec.msgpack.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError):  # a hostile seed
            continue
        parents = _containers(value, [])
        container = rng.choice(parents) if parents else None
        if isinstance(container, dict) and container:
            _change_map(container, rng)
        elif isinstance(container, list) and container:
            _change_list(container, rng)
        frames[place] = kind, msgspec.msgpack.encode(value)
    return joined(frames)


def _containers(value: Any, found: list[Any]) -> list[Any]:
    if isinstance(value, dict | list):
        found.append(value)
        for item in value.values() if isinstance(value, dict) else value:
            _containers(item, found)
    return found


def _change_map(container: dict[Any, Any], rng: random.Random) -> None:
    key = rng.choice(list(container))
    if rng.random() < 0.1:
        del container[key]
    else:
        container[key] = _changed(container[key], rng)


def _change_list(container: list[Any], rng: random.Random) -> None:
    place = rng.randrange(len(container))
    match rng.randrange(6):
        case 0:
            del container[place]
        case 1:
            container.insert(rng.randrange(len(container) + 1), container[place])
        case 2:
            rng.shuffle(container)
        case 3 if len(container) < 1000:
            container.extend([container[place]] * rng.choice([1, 10, 300]))
        case _:
            container[place] = _changed(container[place], rng)


def _changed(value: Any, rng: random.Random) -> Any:
    """Return another value, mostly of the same type. Half of the integers are close to the old value."""
    if rng.random() < 0.1 or isinstance(value, bool):
        return rng.choice([*VALUES, *NUMBERS])
    if isinstance(value, int):
        adjacent = max(-(1 << 63), min(value + rng.choice([-2, -1, 1, 2]), (1 << 64) - 1))
        return adjacent if rng.random() < 0.5 else rng.choice(NUMBERS)
    if isinstance(value, float):
        return rng.choice([0.5, -0.5, float("nan"), float("inf"), 1e300, value / 3])
    if isinstance(value, str | bytes):
        return rng.choice([value[:-1], value * 2, value[:0]])
    return rng.choice([*VALUES, *NUMBERS])
