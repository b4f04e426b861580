"""Tables of a monitored server's reports, extended by each record: messages, breaks, metrics, residencies.

The page does the same for a short log (`static/js/core/observed_ranks.js`, `observed_residency.js`).
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
EVER = 1  # bit of a content: it was reported; further bits are the groups on the GPU, by index in `groups`
# `again`: running sums of contents stored again while cached, and the longest prefix that ends with one, in tokens.
# `lacking`: how many of them a group lacked. `roots`: contents that begin a sequence, each once. `places`: digest of a
# content's parent and tokens, and the content. `messages`: message number, and running sums.
TABLES: dict[str, dict[str, str]] = {  # columns with their type code of `array` and numpy
    "standings": {"rank": "B", "family": "H", "content": "i", "first": "i", "restored": "B"},
    "ends": {"standing": "i", "index": "i"},
    "contents": {"name": "Q", "first": "i"},  # in the order of `ContentColumns`
    "places": {"digest": "Q", "content": "i"},
    "roots": {
        "rank": "B",
        "content": "i",
        "salt": "i",
        "index": "i",
    },  # contents that begin a sequence, each once
    "again": {
        "rank": "B",
        "index": "i",
        "n": "i",
        "most": "i",
    },  # sums: contents stored again while cached; `most`: longest prefix that ends with one, in tokens
    "lacking": {"rank": "B", "group": "i", "index": "i", "n": "i"},
    "messages": {"rank": "B", "index": "i", "sequence": "q", "replayed": "i", "unmatched": "i", "unread": "i"},
    "readings": {"rank": "B", "name": "H", "index": "i", "at": "d", "value": "d", "grown": "d"},
    "problems": {"rank": "B", "index": "i"},
}


class Family(Struct, frozen=True, array_like=True):
    """Properties by which the server's cached contents are counted."""

    medium: str
    tier: str | None
    locality: str | None
    group: int | None
    kind: str | None
    window: int | None
    lora: str | None

    @property
    def is_gpu(self) -> bool:
        """Whether the medium is the GPU; an unreported medium counts as the GPU."""
        return (self.medium or GPU) == GPU


class Group(Struct):
    """Group of layers whose blocks are cached together on the GPU."""

    id: int  # 0: unreported, or the first
    kind: str | None = None
    window: int | None = None  # tokens
    size: int = 0  # tokens of a content; 0: unreported


class Break(Struct, frozen=True, kw_only=True):
    """Point where the knowledge of a rank begins or restarts."""

    rank: int
    index: int  # of the record
    at: float  # seconds
    epoch: int
    sequence: int
    reason: KnownReason
    missed: int
    outside: int  # contents outside the GPUs that are unknown from then on


class ObservedColumns(Struct, kw_only=True, omit_defaults=True):
    """Columns of one update: additions to lists and tables. Empty for a log that is not of a monitored server."""

    families: list[Family] = []
    groups: list[list[Group]] = []  # by rank: all groups so far
    breaks: list[Break] = []
    salts: list[str] = []
    metrics: list[str] = []  # the server's metric names
    tables: dict[str, dict[str, bytes]] = {}  # tables with new rows


GROWING = ("families", "breaks", "salts", "metrics")


def joined(updates: list[ObservedColumns]) -> ObservedColumns:
    """Concatenate updates. Raises KeyError: a table is missing."""
    return ObservedColumns(
        groups=updates[-1].groups if updates else [],
        tables={
            name: {key: b"".join(some.tables[name][key] for some in updates if name in some.tables) for key in of}
            for name, of in TABLES.items()
        },
        **{name: [one for some in updates for one in getattr(some, name)] for name in GROWING},
    )


def name_of(block_hash: bytes) -> int:
    """Return a 64-bit digest of a hash; two million contents collide in about one of 10^7 logs."""
    return int.from_bytes(blake2b(block_hash, digest_size=8).digest(), "little")


def digest_of(parent: int | None, salt: str | None, token_ids: list[int]) -> int:
    """Return the digest of a content from its parent's name and its tokens; without a parent also from the salt."""
    begins = b"" if parent is None else parent.to_bytes(8, "little")
    named = msgspec.msgpack.encode([begins, salt if parent is None else None, token_ids])
    return int.from_bytes(blake2b(named, digest_size=8).digest(), "little")


class _Unplaced(Struct):
    """Content whose tokens or parent are not reported yet."""

    token_ids: list[int] = []
    salt: str | None = None
    parent: bytes | None = None
    is_said: bool = False  # whether the parent is reported


class _Rank:
    """Current state of a rank."""

    def __init__(self) -> None:
        self.open: dict[tuple[bool, int], int] = {}  # by (outside the pool, place): the current residency
        self.groups: dict[int, int] = {}  # by the server's group number: index
        self.ever, self.now = array("Q"), array("Q")  # by content: bits of groups, EVER << 1 + group index
        self.copies: dict[tuple[int, int], int] = {}  # by content and bit: residencies in addition to the one in `now`
        self.sums = [0, 0, 0]  # replayed, unmatched, unread
        self.again = [0, 0]  # count, longest prefix in tokens
        self.lacking: dict[int, int] = {}  # by group
        self.numbers: dict[int, tuple[float, float]] = {}  # by metric: the last value, and its growth


class ObservedRows:
    """Tables, filled record by record."""

    def __init__(self, num_ranks: int) -> None:
        self._groups: list[list[Group]] = [[] for _ in range(num_ranks)]
        self._breaks: list[Break] = []
        self._taken: dict[str, int] = {}  # by list: length at the last `take`
        self._ranks = [_Rank() for _ in range(num_ranks)]
        self._tables: dict[str, dict[str, array[Any]]] = {
            name: {key: array(code) for key, code in of.items()} for name, of in TABLES.items()
        }
        self._appends = {name: [column.append for column in of.values()] for name, of in self._tables.items()}
        self._families: list[Family] = []
        self._family_places: dict[Family, int] = {}
        self._salts: dict[str, int] = {}
        self._metrics: dict[str, int] = {}
        self._logical, self._length = array("i"), array("i")  # by content: index in its prefix, number of tokens
        self._unplaced: dict[int, _Unplaced] = {}
        self._fresh: set[tuple[int, int]] = set()  # content and bit stored in this record

    def take(self) -> ObservedColumns:
        """Return the difference since the last call."""
        before = self._taken
        self._taken = {name: len(column) for name, column in self._lists()}
        new = {name: column[before.get(name, 0) :] for name, column in self._lists()}
        tables = {name: {key: new[f"{name}.{key}"].tobytes() for key in of} for name, of in TABLES.items()}
        return ObservedColumns(
            groups=[list(groups) for groups in self._groups],
            tables={name: columns for name, columns in tables.items() if any(columns.values())},
            **{name: new[name] for name in GROWING},
        )

    def _lists(self) -> Iterator[tuple[str, Any]]:
        """Yield the growing lists by name."""
        yield from {"families": self._families, "breaks": self._breaks}.items()
        yield from {"salts": list(self._salts), "metrics": list(self._metrics)}.items()
        for name, of in self._tables.items():
            yield from ((f"{name}.{key}", column) for key, column in of.items())

    def add(self, record: StepRecord, rows: dict[bytes, int]) -> None:
        """Read the next record of a monitored server; `rows`: rows of all contents so far, by hash."""
        which, index = record.instance, record.index
        rank = self._ranks[which]
        self._fresh.clear()
        again, lacking = list(rank.again), dict(rank.lacking)
        for op in record.ops:
            if isinstance(op, Stored):
                row = rows.get(op.block_hash, NONE)
                self._know(op, index, row, rows)
                bit = self._group(which, op)
                if op.again:
                    self._name_again(rank, op, row, bit)
                else:
                    self._stand(which, op, index, row, bit)
            elif isinstance(op, Removed):
                if not op.num_left:
                    self._leave(rank, (op.outside, op.place), index)
            elif isinstance(op, KnownSince):
                self._break(which, op, record)
        if rank.again != again:
            self._put("again", which, index, *rank.again)
        for group, n in rank.lacking.items():
            if n != lacking.get(group, 0):
                self._put("lacking", which, group, index, n)
        self._add_message(which, record)

    def _put(self, table: str, *values: float) -> None:
        """Append a row, values in column order."""
        for append, value in zip(self._appends[table], values, strict=True):
            append(value)

    def _add_message(self, which: int, record: StepRecord) -> None:
        """Append the server message or metrics reading of a record."""
        seen, rank, index = record.seen, self._ranks[which], record.index
        if seen is None:
            return
        if seen.problem:
            self._put("problems", which, index)
        if seen.sequence is not None:
            more = (int(seen.replayed), seen.num_unmatched, seen.num_unread)
            rank.sums = [before + one for before, one in zip(rank.sums, more, strict=True)]
            self._put("messages", which, index, seen.sequence, *rank.sums)
        for name, value in seen.metrics.items():
            number = self._metrics.setdefault(name, len(self._metrics))
            before, grown = rank.numbers.get(number, (value, 0.0))
            grown += value - before if value >= before else value  # a counter that falls has restarted
            rank.numbers[number] = (value, grown)
            self._put("readings", which, number, index, record.timing.at, value, grown)

    def _know(self, op: Stored, index: int, row: int, rows: dict[bytes, int]) -> None:
        """Record a content's rank-independent facts; later messages may complete them."""
        if row == len(self._logical):
            self._put("contents", name_of(op.block_hash), index)
            self._logical.append(0)
            self._length.append(0)
            for rank in self._ranks:
                rank.ever.append(0)
                rank.now.append(0)
            if op.token_ids and not op.parent_unsaid:  # the usual case: all facts in one message
                self._length[row] = len(op.token_ids)
                self._follow(row, op.parent_hash, rows)
                self._place(row, op.parent_hash, op.extra_keys, op.token_ids, rows)
                return
            self._unplaced[row] = _Unplaced()
        content = self._unplaced.get(row)
        if content is None:
            return
        if op.token_ids and not content.token_ids:
            content.token_ids = op.token_ids
            self._length[row] = len(op.token_ids)
        if content.salt is None:
            content.salt = op.extra_keys
        if not op.parent_unsaid and not content.is_said:
            content.is_said, content.parent = True, op.parent_hash
            self._follow(row, op.parent_hash, rows)
        if content.is_said and content.token_ids:
            self._place(row, content.parent, content.salt, content.token_ids, rows)
            del self._unplaced[row]

    def _follow(self, row: int, parent_hash: bytes | None, rows: dict[bytes, int]) -> None:
        """Set the number of contents that precede a content."""
        if parent_hash is not None:
            before = rows.get(parent_hash, NONE)
            self._logical[row] = 1 + (self._logical[before] if NONE < before < len(self._logical) else 0)

    def _place(
        self, row: int, parent_hash: bytes | None, salt: str | None, token_ids: list[int], rows: dict[bytes, int]
    ) -> None:
        """Make a content findable by its parent and tokens."""
        parent = None
        if parent_hash is not None:
            names, before = self._tables["contents"]["name"], rows.get(parent_hash, NONE)
            parent = names[before] if NONE < before < len(names) else name_of(parent_hash)
        self._put("places", digest_of(parent, salt, token_ids), row)

    def _group(self, which: int, op: Stored) -> int:
        """Return the bit of the content's group on the rank; 0: not on the GPU."""
        groups, known = self._groups[which], self._ranks[which].groups
        number = op.group or 0
        place = known.get(number)
        if place is None:
            if (op.medium or GPU) != GPU:
                return 0  # the group may be unreported outside the GPU
            place = known[number] = len(groups)
            groups.append(Group(number))
        group = groups[place]
        group.kind = op.kind if group.kind is None else group.kind
        group.window = op.window if group.window is None else group.window
        group.size = group.size or len(op.token_ids)
        return EVER << 1 + place

    def _stand(self, which: int, op: Stored, index: int, row: int, bit: int) -> None:
        rank = self._ranks[which]
        family = Family(op.medium, op.tier, op.locality, op.group, op.kind, op.window, op.lora_name)
        is_restored = False
        if row != NONE:
            if not rank.ever[row] and op.parent_hash is None and not op.parent_unsaid and op.token_ids:
                salt = NONE if op.extra_keys is None else self._salts.setdefault(op.extra_keys, len(self._salts))
                self._put("roots", which, row, salt, index)
            rank.ever[row] |= EVER
            if family.is_gpu:
                is_restored = bool(rank.ever[row] & bit)
                rank.ever[row] |= bit
                if rank.now[row] & bit:
                    rank.copies[row, bit] = rank.copies.get((row, bit), 0) + 1
                else:
                    rank.now[row] |= bit
                    self._fresh.add((row, bit))
        place = self._family_places.setdefault(family, len(self._families))
        if place == len(self._families):
            self._families.append(family)
        rank.open[op.outside, op.place] = len(self._tables["standings"]["first"])
        self._put("standings", which, place, row, index, int(is_restored))

    def _name_again(self, rank: _Rank, op: Stored, row: int, bit: int) -> None:
        """Count a content stored again while cached: the server did not find it; record which groups lack it."""
        if row == NONE or (op.medium or GPU) != GPU or not rank.now[row] & bit or (row, bit) in self._fresh:
            return  # twice in one message: both at the same time
        rank.again[0] += 1
        rank.again[1] = max(rank.again[1], (self._logical[row] + 1) * self._length[row])
        for number, place in rank.groups.items():
            other = EVER << 1 + place
            if not rank.now[row] & other or (row, other) in self._fresh:
                rank.lacking[number] = rank.lacking.get(number, 0) + 1

    def _leave(self, rank: _Rank, place: tuple[bool, int], index: int) -> None:
        standing = rank.open.pop(place, None)
        if standing is None:
            return
        self._put("ends", standing, index)
        columns = self._tables["standings"]
        row = columns["content"][standing]
        family = self._families[columns["family"][standing]]
        if row == NONE or not family.is_gpu:
            return
        bit = EVER << 1 + rank.groups[family.group or 0]
        if (row, bit) in rank.copies:
            rank.copies[row, bit] -= 1
            if not rank.copies[row, bit]:
                del rank.copies[row, bit]
        else:
            rank.now[row] &= ~bit

    def _break(self, which: int, op: KnownSince, record: StepRecord) -> None:
        rank = self._ranks[which]
        places = list(rank.open)
        for place in places:
            self._leave(rank, place, record.index)
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
