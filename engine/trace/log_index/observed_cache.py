"""State that a monitored server has reported up to a record, for a log that is too long to load completely.

From a short log, the page computes the same (`static/js/core/observed_cache.js`). The page uses it to explain misses
and to show which blocks of a prompt are cached.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from engine.trace.log import TraceReader
from engine.trace.log_index.observed_ranks import NONE, TABLES, ObservedColumns, digest_of, name_of
from engine.trace.operations import KnownReason, Stored

MAX_POINTS = 120  # latest readings of a metric: two minutes
MAX_ROOTS = 4096  # latest first contents of sequences
QUERIES, HIT = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
Numbers = NDArray[Any]


class Since(Struct, frozen=True, kw_only=True):
    """Point from which a rank's reports are known."""

    at: float  # seconds
    epoch: int
    sequence: int
    reason: KnownReason
    missed: int
    outside: int


class Hits(Struct, frozen=True, kw_only=True):
    """Prefix-cache hits in tokens, since monitoring began."""

    hits: float
    asked: float


class FamilyCount(Struct, frozen=True, kw_only=True):
    """Number of cached contents with the same medium, tier, group and LoRA."""

    medium: str
    tier: str  # store within the medium, and its locality
    group: int | None
    kind: str | None
    window: int | None
    lora: str | None
    count: int


class GroupReport(Struct, frozen=True, kw_only=True):
    """Group of layers on the GPU, as reported in the whole log."""

    id: int
    kind: str | None
    window: int | None
    size: int


class Lacking(Struct, frozen=True, kw_only=True):
    """Number of contents that a group lacked while another group had them."""

    group: int
    count: int


class Again(Struct, frozen=True, kw_only=True):
    """Contents that were stored again while cached."""

    n: int
    most: int  # length of the longest prefix that ends with one of them, in tokens
    lacking: list[Lacking]


class RankReport(Struct, frozen=True, kw_only=True):
    """Reports of one rank up to a record."""

    since: Since | None
    gaps: int
    messages: int
    last: int | None  # number of the last message
    replayed: int
    unmatched: int
    unread: int
    problem: str  # problem since the last message, or ""
    readings: dict[str, list[tuple[float, float]]]  # the server's metric name -> seconds and value
    hits: Hits | None  # None: not reported
    families: list[FamilyCount]  # largest first
    groups: list[GroupReport]
    stored: int  # number of contents stored on the GPU
    restored: int  # number of these that had been on the GPU before
    again: Again
    roots: int  # number of contents that begin a sequence
    elsewhere: int  # number of these that another rank also has stored


class PrefixRoot(Struct, frozen=True, kw_only=True):
    """First content of a sequence."""

    salt: str | None
    tokens: list[int]


class Link(Struct, frozen=True, kw_only=True):
    """Content in the chain of a prompt."""

    end: int  # number of the prompt's tokens up to the end of the content
    groups: list[int]  # groups that have the content on the GPU
    ever: list[int]  # groups that have it on the GPU in any record
    media: list[str]  # media outside the GPU that have it


class Chain(Struct, frozen=True, kw_only=True):
    """Reported contents of a prompt, in blocks of one size."""

    salt: str | None
    size: int
    links: list[Link]


class Chains(Struct, frozen=True, kw_only=True):
    """Cached chains of a prompt on one rank."""

    groups: list[GroupReport]
    chains: list[Chain]
    unkept: int  # number of contents up to the record that cannot be in a chain, because the log index is full


class ObservedCache:
    """Reports of a monitored server. Safe for any number of threads."""

    def __init__(self, data: ObservedColumns) -> None:
        """Read the columns of all updates (`observed_ranks.concatenate`)."""
        self._data = data
        self._tables = {
            name: {key: np.frombuffer(data.tables[name][key], np.dtype(code)) for key, code in of.items()}
            for name, of in TABLES.items()
        }
        self._is_gpu = np.array([family.is_gpu for family in data.families], bool)
        self._group = np.array([family.group or 0 for family in data.families], np.int64)

    @property
    def num_ranks(self) -> int:
        return len(self._data.groups)

    def report(self, log: TraceReader, rank: int, index: int) -> RankReport:
        """Return the reports of one rank up to record `index` of `log`, the indexed log."""
        breaks = [one for one in self._data.breaks if one.rank == rank and one.index <= index]
        messages, problems = self._until("messages", rank, index), self._until("problems", rank, index)
        last = {name: column[-1] for name, column in messages.items() if len(column)}
        is_fresh = len(problems["index"]) and problems["index"][-1] >= last.get("index", NONE)
        seen = log.record(int(problems["index"][-1])).seen if is_fresh else None
        residencies = self._until("standings", rank, index, "first")
        on_gpu = self._is_gpu[residencies["family"]]
        again = self._until("again", rank, index)
        roots = self._until("roots", rank, index)
        return RankReport(
            since=_since(breaks[-1]) if breaks else None,
            gaps=sum(one.reason == "gap" for one in breaks),
            messages=len(messages["index"]),
            last=int(last["sequence"]) if last else None,
            replayed=int(last.get("replayed", 0)),
            unmatched=int(last.get("unmatched", 0)),
            unread=int(last.get("unread", 0)),
            problem=seen.problem if seen is not None else "",
            **self._numbers(rank, index),
            families=self._families(rank, index),
            groups=self._groups(rank),
            stored=int(on_gpu.sum()),
            restored=int(residencies["restored"].sum()),
            again=Again(
                n=int(again["n"][-1]) if len(again["n"]) else 0,
                most=int(again["most"][-1]) if len(again["n"]) else 0,
                lacking=self._lacking(rank, index),
            ),
            roots=len(roots["index"]),
            elsewhere=self._elsewhere(rank, index, roots["content"]),
        )

    def roots(self, log: TraceReader, rank: int, index: int) -> list[PrefixRoot]:
        """Return the latest first contents of sequences up to record `index` of `log`."""
        found = self._until("roots", rank, index)
        names = set(self._tables["contents"]["name"][found["content"][-MAX_ROOTS:]].tolist())
        roots: list[PrefixRoot] = []
        for record in sorted(set(found["index"][-MAX_ROOTS:].tolist())):
            for op in log.record(record).ops:
                if isinstance(op, Stored) and not op.again and (name := name_of(op.block_hash)) in names:
                    names.discard(name)
                    roots.append(PrefixRoot(salt=op.extra_keys, tokens=op.token_ids))
        return roots

    def chains(self, rank: int, token_ids: list[int], index: int) -> Chains:
        """Return the chains of a prompt on a rank after record `index`, without a salt and with each known salt."""
        groups = self._groups(rank)
        salts = [int(one) for one in np.unique(self._until("roots", rank, index)["salt"]) if one != NONE]
        sizes = sorted({group.size for group in groups if group.size})
        found = list[Chain]()
        for salt in (None, *(self._data.salts[one] for one in salts)):
            for size in sizes:
                rows = self._chain(token_ids, salt, size, index)
                if rows or salt is None:
                    found.append(Chain(salt=salt, size=size, links=self._links(rank, rows, size, index)))
        unkept = int((self._until("standings", rank, index, "first")["content"] == NONE).sum())
        return Chains(groups=groups, chains=found, unkept=unkept)

    def _until(self, table: str, rank: int, index: int, by: str = "index") -> dict[str, Numbers]:
        """Return the rows of a rank up to a record. The table is in ascending order of column `by`."""
        columns = self._tables[table]
        end = int(np.searchsorted(columns[by], index, "right"))
        own = columns["rank"][:end] == rank
        return {name: column[:end][own] for name, column in columns.items()}

    @cached_property
    def _end(self) -> Numbers:
        """Index of the record in which each residency ends."""
        found = np.full(len(self._tables["standings"]["first"]), np.iinfo(np.int32).max, np.int32)
        ends = self._tables["ends"]
        found[ends["standing"]] = ends["index"]
        return found

    @cached_property
    def _places(self) -> tuple[Numbers, Numbers]:
        """Digests in ascending order, and their contents. Contents with equal digests are in log order."""
        digest, content = self._tables["places"]["digest"], self._tables["places"]["content"]
        order = np.argsort(digest, kind="stable")
        return digest[order], content[order]

    @cached_property
    def _by_content(self) -> tuple[Numbers, Numbers]:
        """Contents in ascending order, and their residencies."""
        content = self._tables["standings"]["content"]
        order = np.argsort(content, kind="stable")
        return content[order], order

    def _numbers(self, rank: int, index: int) -> dict[str, Any]:
        """Return `readings` and `hits`."""
        rows = self._until("readings", rank, index)
        readings, grown = dict[str, list[tuple[float, float]]](), dict[str, float]()
        for number, name in enumerate(self._data.metrics):
            own = np.flatnonzero(rows["name"] == number)
            if len(own):
                latest = own[-MAX_POINTS:]
                readings[name] = list(zip(rows["at"][latest].tolist(), rows["value"][latest].tolist(), strict=True))
                grown[name] = float(rows["grown"][own[-1]])
        hits = Hits(hits=grown[HIT], asked=grown[QUERIES]) if HIT in grown and QUERIES in grown else None
        return {"readings": readings, "hits": hits}

    def _families(self, rank: int, index: int) -> list[FamilyCount]:
        columns = self._tables["standings"]
        end = int(np.searchsorted(columns["first"], index, "right"))
        is_cached = (columns["rank"][:end] == rank) & (self._end[:end] > index)
        counts = np.bincount(columns["family"][:end][is_cached], minlength=len(self._data.families))
        found = [
            FamilyCount(
                medium=one.medium,
                tier=" ".join(part for part in (one.tier, one.locality) if part),
                group=one.group,
                kind=one.kind,
                window=one.window,
                lora=one.lora,
                count=int(count),
            )
            for one, count in zip(self._data.families, counts, strict=True)
            if count
        ]
        return sorted(found, key=lambda one: -one.count)

    def _groups(self, rank: int) -> list[GroupReport]:
        return [
            GroupReport(id=one.id, kind=one.kind, window=one.window, size=one.size) for one in self._data.groups[rank]
        ]

    def _lacking(self, rank: int, index: int) -> list[Lacking]:
        rows = self._until("lacking", rank, index)
        last = dict(zip(rows["group"].tolist(), rows["n"].tolist(), strict=True))  # the last row of each group
        return [Lacking(group=group, count=count) for group, count in last.items()]

    def _elsewhere(self, rank: int, index: int, roots: Numbers) -> int:
        if self.num_ranks == 1:
            return 0
        columns = self._tables["standings"]
        end = int(np.searchsorted(columns["first"], index, "right"))
        return int(np.isin(roots, columns["content"][:end][columns["rank"][:end] != rank]).sum())

    def _chain(self, token_ids: list[int], salt: str | None, size: int, index: int) -> list[int]:
        """Return the contents of a prompt that were reported up to a record, up to the first gap."""
        digests, contents = self._places
        parent: int | None = None
        found: list[int] = []
        for end in range(size, len(token_ids) + 1, size):
            digest = np.uint64(digest_of(parent, salt, token_ids[end - size : end]))
            at = int(np.searchsorted(digests, digest, "right")) - 1
            if at < 0 or digests[at] != digest or self._tables["contents"]["first"][contents[at]] > index:
                break
            found.append(int(contents[at]))
            parent = int(self._tables["contents"]["name"][contents[at]])
        return found

    def _links(self, rank: int, rows: list[int], size: int, index: int) -> list[Link]:
        contents, order = self._by_content
        columns = self._tables["standings"]
        found: list[Link] = []
        for number, row in enumerate(rows, 1):
            residencies = order[np.searchsorted(contents, row, "left") : np.searchsorted(contents, row, "right")]
            residencies = residencies[columns["rank"][residencies] == rank]
            family = columns["family"][residencies]
            is_cached = (columns["first"][residencies] <= index) & (self._end[residencies] > index)
            on_gpu = self._is_gpu[family]
            found.append(
                Link(
                    end=number * size,
                    groups=sorted(set(self._group[family[is_cached & on_gpu]].tolist())),
                    ever=sorted(set(self._group[family[on_gpu]].tolist())),
                    media=sorted({self._data.families[one].medium for one in family[is_cached & ~on_gpu].tolist()}),
                )
            )
        return found


def _since(one: Any) -> Since:
    return Since(**{name: getattr(one, name) for name in Since.__struct_fields__})
