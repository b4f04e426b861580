"""Tables of a monitored server's reports, to which each record adds rows: messages, breaks, metrics, residencies.

For a short log, the page computes the same (`static/js/core/observed_ranks.js`, `observed_residency.js`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from engine.trace.operations import KnownReason, KnownSince, Removed, Stored
from engine.trace.records import StepRecord

GPU = "GPU"
NONE = -1  # no content row: the log index is full
EVER = 1  # bit of a content that was reported; further bits are the groups on the GPU, by index in `groups`
# Table -> column -> type code of `array` and numpy.
# `standings`: residencies of contents. `ends`: their ends. `places`: digest of a content's parent and tokens, and the
# content. `roots`: contents that begin a sequence, each once. `again`: running number of contents stored again while
# cached, and length of the longest prefix that ends with one, in tokens. `lacking`: running number of these that a
# group lacked. `messages`: message number, and running sums.
TABLES: dict[str, dict[str, str]] = {
    "standings": {"rank": "B", "family": "H", "content": "i", "first": "i", "restored": "B"},
    "ends": {"standing": "i", "index": "i"},
    "contents": {"name": "Q", "first": "i"},  # in the order of `ContentColumns`
    "places": {"digest": "Q", "content": "i"},
    "roots": {"rank": "B", "content": "i", "salt": "i", "index": "i"},
    "again": {"rank": "B", "index": "i", "n": "i", "most": "i"},
    "lacking": {"rank": "B", "group": "i", "index": "i", "n": "i"},
    "messages": {"rank": "B", "index": "i", "sequence": "q", "replayed": "i", "unmatched": "i", "unread": "i"},
    "readings": {"rank": "B", "name": "H", "index": "i", "at": "d", "value": "d", "grown": "d"},
    "problems": {"rank": "B", "index": "i"},
}


class Family(Struct, frozen=True, array_like=True):
    """Properties by which cached contents are counted."""

    medium: str
    tier: str | None
    locality: str | None
    group: int | None
    kind: str | None
    window: int | None
    lora: str | None

    @property
    def is_gpu(self) -> bool:
        """Whether the medium is the GPU or unreported."""
        return (self.medium or GPU) == GPU


class Group(Struct):
    """Group of layers whose blocks are cached together on the GPU."""

    id: int  # the server's number of the group; 0 if unreported
    kind: str | None = None
    window: int | None = None  # tokens
    size: int = 0  # tokens of a content; 0: unreported


class Break(Struct, frozen=True, kw_only=True):
    """Point from which a rank's reports are known (`KnownSince`)."""

    rank: int
    index: int  # record index
    at: float  # seconds
    epoch: int
    sequence: int
    reason: KnownReason
    missed: int
    outside: int  # number of contents outside the GPU that become unknown


class ObservedColumns(Struct, kw_only=True, omit_defaults=True):
    """Additions of one update to lists and tables. They are empty for a log that is not of a monitored server."""

    families: list[Family] = []
    groups: list[list[Group]] = []  # all groups so far, by rank
    breaks: list[Break] = []
    salts: list[str] = []
    metrics: list[str] = []  # the server's metric names
    tables: dict[str, dict[str, bytes]] = {}  # tables with new rows


GROWING = ("families", "breaks", "salts", "metrics")


def concatenate(updates: list[ObservedColumns]) -> ObservedColumns:
    """Concatenate updates. Raises KeyError if a column is missing."""
    return ObservedColumns(
        groups=updates[-1].groups if updates else [],
        tables={
            name: {key: b"".join(one.tables[name][key] for one in updates if name in one.tables) for key in columns}
            for name, columns in TABLES.items()
        },
        **{name: [value for one in updates for value in getattr(one, name)] for name in GROWING},
    )


def name_of(block_hash: bytes) -> int:
    """Return a 64-bit digest of a hash. Two million contents collide in about one of 10^7 logs."""
    return int.from_bytes(blake2b(block_hash, digest_size=8).digest(), "little")


def digest_of(parent: int | None, salt: str | None, token_ids: list[int]) -> int:
    """Return the digest of a content from its parent's name and its tokens. Without a parent, the salt is included."""
    parent_bytes = b"" if parent is None else parent.to_bytes(8, "little")
    payload = msgspec.msgpack.encode([parent_bytes, salt if parent is None else None, token_ids])
    return int.from_bytes(blake2b(payload, digest_size=8).digest(), "little")


class _Incomplete(Struct):
    """Content whose tokens or parent are not reported yet."""

    token_ids: list[int] = []
    salt: str | None = None
    parent: bytes | None = None
    has_parent: bool = False  # whether the parent, or its absence, is reported


class _Rank:
    """Current state of a rank."""

    def __init__(self) -> None:
        self.open: dict[tuple[bool, int], int] = {}  # (outside the pool, place) -> current residency
        self.groups: dict[int, int] = {}  # the server's group number -> index in the rank's groups
        self.ever, self.now = array("Q"), array("Q")  # by content: bits of groups, EVER << 1 + group index
        self.copies: dict[tuple[int, int], int] = {}  # content, bit -> residencies in addition to the one in `now`
        self.sums = [0, 0, 0]  # replayed, unmatched, unread
        self.again = [0, 0]  # count, longest prefix in tokens
        self.lacking: dict[int, int] = {}  # group number -> count
        self.numbers: dict[int, tuple[float, float]] = {}  # metric -> last value, total increase


class ObservedRows:
    """Builder of the tables, record by record."""

    def __init__(self, num_ranks: int) -> None:
        self._groups: list[list[Group]] = [[] for _ in range(num_ranks)]
        self._breaks: list[Break] = []
        self._taken: dict[str, int] = {}  # name of a list -> length at the last `take`
        self._ranks = [_Rank() for _ in range(num_ranks)]
        self._tables: dict[str, dict[str, array[Any]]] = {
            name: {key: array(code) for key, code in columns.items()} for name, columns in TABLES.items()
        }
        self._appends = {name: [column.append for column in columns.values()] for name, columns in self._tables.items()}
        self._families: list[Family] = []
        self._family_indices: dict[Family, int] = {}
        self._salts: dict[str, int] = {}
        self._metrics: dict[str, int] = {}
        self._logical, self._length = array("i"), array("i")  # by content: index in its prefix, number of tokens
        self._incomplete: dict[int, _Incomplete] = {}  # by content
        self._new: set[tuple[int, int]] = set()  # content and bit of residencies that begin in this record

    def take(self) -> ObservedColumns:
        """Return the difference since the last call."""
        before = self._taken
        self._taken = {name: len(column) for name, column in self._lists()}
        new = {name: column[before.get(name, 0) :] for name, column in self._lists()}
        tables = {name: {key: new[f"{name}.{key}"].tobytes() for key in keys} for name, keys in TABLES.items()}
        return ObservedColumns(
            groups=[list(groups) for groups in self._groups],
            tables={name: columns for name, columns in tables.items() if any(columns.values())},
            **{name: new[name] for name in GROWING},
        )

    def _lists(self) -> Iterator[tuple[str, Any]]:
        """Yield the growing lists by name."""
        yield from {"families": self._families, "breaks": self._breaks}.items()
        yield from {"salts": list(self._salts), "metrics": list(self._metrics)}.items()
        for name, columns in self._tables.items():
            yield from ((f"{name}.{key}", column) for key, column in columns.items())

    def add(self, record: StepRecord, rows: dict[bytes, int]) -> None:
        """Read the next record of a monitored server. `rows`: hash -> row, for all contents so far."""
        which, index = record.instance, record.index
        rank = self._ranks[which]
        self._new.clear()
        again, lacking = list(rank.again), dict(rank.lacking)
        for op in record.ops:
            if isinstance(op, Stored):
                row = rows.get(op.block_hash, NONE)
                self._add_facts(op, index, row, rows)
                bit = self._group(which, op)
                if op.again:
                    self._count_again(rank, op, row, bit)
                else:
                    self._begin_residency(which, op, index, row, bit)
            elif isinstance(op, Removed):
                if not op.num_left:
                    self._end_residency(rank, (op.outside, op.place), index)
            elif isinstance(op, KnownSince):
                self._add_break(which, op, record)
        if rank.again != again:
            self._append("again", which, index, *rank.again)
        for group, n in rank.lacking.items():
            if n != lacking.get(group, 0):
                self._append("lacking", which, group, index, n)
        self._add_message(which, record)

    def _append(self, table: str, *values: float) -> None:
        """Append a row, with values in column order."""
        for append, value in zip(self._appends[table], values, strict=True):
            append(value)

    def _add_message(self, which: int, record: StepRecord) -> None:
        """Append the server message or metrics reading of a record."""
        seen, rank, index = record.seen, self._ranks[which], record.index
        if seen is None:
            return
        if seen.problem:
            self._append("problems", which, index)
        if seen.sequence is not None:
            added = (int(seen.replayed), seen.num_unmatched, seen.num_unread)
            rank.sums = [before + one for before, one in zip(rank.sums, added, strict=True)]
            self._append("messages", which, index, seen.sequence, *rank.sums)
        for name, value in seen.metrics.items():
            number = self._metrics.setdefault(name, len(self._metrics))
            before, grown = rank.numbers.get(number, (value, 0.0))
            grown += value - before if value >= before else value  # a counter that decreases has restarted
            rank.numbers[number] = (value, grown)
            self._append("readings", which, number, index, record.timing.at, value, grown)

    def _add_facts(self, op: Stored, index: int, row: int, rows: dict[bytes, int]) -> None:
        """Record the facts of a content that do not depend on the rank. Later messages may complete them."""
        if row == len(self._logical):
            self._append("contents", name_of(op.block_hash), index)
            self._logical.append(0)
            self._length.append(0)
            for rank in self._ranks:
                rank.ever.append(0)
                rank.now.append(0)
            if op.token_ids and not op.parent_unsaid:  # the usual case: all facts in one message
                self._length[row] = len(op.token_ids)
                self._set_logical(row, op.parent_hash, rows)
                self._add_digest(row, op.parent_hash, op.extra_keys, op.token_ids, rows)
                return
            self._incomplete[row] = _Incomplete()
        content = self._incomplete.get(row)
        if content is None:
            return
        if op.token_ids and not content.token_ids:
            content.token_ids = op.token_ids
            self._length[row] = len(op.token_ids)
        if content.salt is None:
            content.salt = op.extra_keys
        if not op.parent_unsaid and not content.has_parent:
            content.has_parent, content.parent = True, op.parent_hash
            self._set_logical(row, op.parent_hash, rows)
        if content.has_parent and content.token_ids:
            self._add_digest(row, content.parent, content.salt, content.token_ids, rows)
            del self._incomplete[row]

    def _set_logical(self, row: int, parent_hash: bytes | None, rows: dict[bytes, int]) -> None:
        """Set the number of contents that precede a content in its prefix."""
        if parent_hash is not None:
            before = rows.get(parent_hash, NONE)
            self._logical[row] = 1 + (self._logical[before] if NONE < before < len(self._logical) else 0)

    def _add_digest(
        self, row: int, parent_hash: bytes | None, salt: str | None, token_ids: list[int], rows: dict[bytes, int]
    ) -> None:
        """Add the digest by which a content is found from its parent and tokens."""
        parent = None
        if parent_hash is not None:
            names, before = self._tables["contents"]["name"], rows.get(parent_hash, NONE)
            parent = names[before] if NONE < before < len(names) else name_of(parent_hash)
        self._append("places", digest_of(parent, salt, token_ids), row)

    def _group(self, which: int, op: Stored) -> int:
        """Return the bit of the content's group on the rank, or 0 if the group is not known from the GPU."""
        groups, known = self._groups[which], self._ranks[which].groups
        number = op.group or 0
        position = known.get(number)
        if position is None:
            if (op.medium or GPU) != GPU:
                return 0  # the group may be unreported outside the GPU
            position = known[number] = len(groups)
            groups.append(Group(number))
        group = groups[position]
        group.kind = op.kind if group.kind is None else group.kind
        group.window = op.window if group.window is None else group.window
        group.size = group.size or len(op.token_ids)
        return EVER << 1 + position

    def _begin_residency(self, which: int, op: Stored, index: int, row: int, bit: int) -> None:
        rank = self._ranks[which]
        family = Family(op.medium, op.tier, op.locality, op.group, op.kind, op.window, op.lora_name)
        is_restored = False
        if row != NONE:
            if not rank.ever[row] and op.parent_hash is None and not op.parent_unsaid and op.token_ids:
                salt = NONE if op.extra_keys is None else self._salts.setdefault(op.extra_keys, len(self._salts))
                self._append("roots", which, row, salt, index)
            rank.ever[row] |= EVER
            if family.is_gpu:
                is_restored = bool(rank.ever[row] & bit)
                rank.ever[row] |= bit
                if rank.now[row] & bit:
                    rank.copies[row, bit] = rank.copies.get((row, bit), 0) + 1
                else:
                    rank.now[row] |= bit
                    self._new.add((row, bit))
        position = self._family_indices.setdefault(family, len(self._families))
        if position == len(self._families):
            self._families.append(family)
        rank.open[op.outside, op.place] = len(self._tables["standings"]["first"])
        self._append("standings", which, position, row, index, int(is_restored))

    def _count_again(self, rank: _Rank, op: Stored, row: int, bit: int) -> None:
        """Count a content that was stored again while cached because a lookup missed it, and the groups without it.

        A content that occurs twice in one message does not count.
        """
        if row == NONE or (op.medium or GPU) != GPU or not rank.now[row] & bit or (row, bit) in self._new:
            return
        rank.again[0] += 1
        rank.again[1] = max(rank.again[1], (self._logical[row] + 1) * self._length[row])
        for number, position in rank.groups.items():
            other = EVER << 1 + position
            if not rank.now[row] & other or (row, other) in self._new:
                rank.lacking[number] = rank.lacking.get(number, 0) + 1

    def _end_residency(self, rank: _Rank, place: tuple[bool, int], index: int) -> None:
        residency = rank.open.pop(place, None)
        if residency is None:
            return
        self._append("ends", residency, index)
        columns = self._tables["standings"]
        row = columns["content"][residency]
        family = self._families[columns["family"][residency]]
        if row == NONE or not family.is_gpu:
            return
        bit = EVER << 1 + rank.groups[family.group or 0]
        if (row, bit) in rank.copies:
            rank.copies[row, bit] -= 1
            if not rank.copies[row, bit]:
                del rank.copies[row, bit]
        else:
            rank.now[row] &= ~bit

    def _add_break(self, which: int, op: KnownSince, record: StepRecord) -> None:
        rank = self._ranks[which]
        places = list(rank.open)
        for place in places:
            self._end_residency(rank, place, record.index)
        self._breaks.append(
            Break(
                rank=which,
                index=record.index,
                at=record.timing.at,
                epoch=op.epoch,
                sequence=op.sequence,
                reason=op.reason,
                missed=op.num_missed,
                outside=sum(outside for outside, _ in places),
            )
        )
