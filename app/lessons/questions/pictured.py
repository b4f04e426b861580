"""Positions of answers in the page's picture. A question is sent with the positions of all its options."""

from __future__ import annotations

from msgspec import Struct

from app.lessons.scene import Scene


class _Place(Struct, frozen=True, kw_only=True, tag_field="kind"):
    pass


class AtBlock(_Place, frozen=True, kw_only=True, tag="block"):
    """Block of the pool."""

    block: int


class AtSlot(_Place, frozen=True, kw_only=True, tag="slot"):
    """Slot of a block of the pool."""

    block: int
    offset: int


class AtTokens(_Place, frozen=True, kw_only=True, tag="tokens"):
    """`count` columns of a sequence from position `first` on. If `count` is 0, the edge before that column."""

    seq: int
    first: int
    count: int


class AtRequest(_Place, frozen=True, kw_only=True, tag="request"):
    """Row of a sequence."""

    seq: int


class AtStep(_Place, frozen=True, kw_only=True, tag="step"):
    """Step of the engine, on the timeline."""

    step: int


class AtBytes(_Place, frozen=True, kw_only=True, tag="bytes"):
    """Bytes on the memory bar."""

    bytes: int


Place = AtBlock | AtSlot | AtTokens | AtRequest | AtStep | AtBytes


def nowhere(number: float) -> Place | None:
    """Return None, the place of answers without a position."""
    return None


def first_tokens(seq: int, count: float, after: int = 0) -> AtTokens:
    """Return `count` tokens from position `after` on."""
    return AtTokens(seq=seq, first=after, count=int(count))


def last_tokens(seq: int, count: float, end: int) -> AtTokens:
    """Return the `count` tokens before position `end`."""
    return AtTokens(seq=seq, first=max(0, end - int(count)), count=min(int(count), end))


def block(scene: Scene, number: float) -> AtBlock | None:
    """Return a block by its id, or None."""
    return AtBlock(block=int(number)) if 0 <= number < len(scene.state.blocks) else None


def slot(scene: Scene, number: float) -> AtSlot | None:
    """Return a slot by its number in the pool, or None."""
    of, offset = divmod(int(number), scene.block_size)
    return AtSlot(block=of, offset=offset) if block(scene, of) else None
