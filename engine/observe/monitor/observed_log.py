"""Log of a monitored server, with a record per message and per changed metrics reading."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from engine import __version__
from engine.observe.monitor.contents import Contents, Places
from engine.observe.monitor.events import AllBlocksCleared, EventError, decode
from engine.observe.monitor.sequence import Break, Message, SequenceEvent
from engine.trace.log import TraceWriter
from engine.trace.operations import KnownSince, Op
from engine.trace.records import (
    BlockGroup,
    Header,
    InstanceFacts,
    Machine,
    Memory,
    ModelFacts,
    Observed,
    Seen,
    StepRecord,
    Timing,
    TokenizerFacts,
    Unknown,
)

# placeholders for model facts that the server does not report; `unknown` lists "model"
UNKNOWN_MODEL = ModelFacts(
    name="",
    architecture="",
    num_params=0,
    num_layers=1,
    hidden_size=1,
    intermediate_size=1,
    num_heads=1,
    num_kv_heads=1,
    head_dim=1,
    v_head_dim=1,
    vocab_size=1,
    max_position=1,
    dtype="float16",
    sliding_windows=[None],
)
UNKNOWN_BYTES = 4  # placeholder for the K and V bytes of a token
MAX_BYTES = 1 << 30  # default size limit of a log
MAX_RESTATED = 512  # contents per record at the beginning of a new log
UNKNOWN: list[Unknown] = [
    "ids", "ref_counts", "copies", "requests", "partial_blocks", "preemptions", "steps", "arrays", "before", "model",
    "texts",
]  # fmt: skip


def header_of(*, model: str, source: str, block_size: int, num_blocks: int, events: list[str]) -> Header:
    """Return the header for a server with `num_blocks` per rank. `events`: address of each rank's events."""
    instances = [InstanceFacts(name=f"rank {rank}", role="mixed") for rank in range(len(events))]
    groups = [
        BlockGroup(
            instance=rank,
            layers=[0],
            first_block=rank * num_blocks,
            num_blocks=num_blocks,
            kv_bytes_per_token=UNKNOWN_BYTES,
        )
        for rank in range(len(events))
    ]
    facts = {**{name: getattr(UNKNOWN_MODEL, name) for name in ModelFacts.__struct_fields__}, "name": model}
    return Header(
        generator=f"kvtheater {__version__}",
        created=_now(),
        model=ModelFacts(**facts),
        tokenizer=TokenizerFacts(name="", vocab_size=1, eos_token_ids=[]),
        engine={"block_size": block_size, "num_blocks": num_blocks * len(events), "strategy": "paged"},
        kv_bytes_per_token=UNKNOWN_BYTES,
        machine=Machine(device="", processor="", num_threads=0, versions={}),
        block_groups=groups,
        instances=instances if len(events) > 1 else [],
        observed=Observed(source=source, events=events, unknown=UNKNOWN),
    )


class ObservedLog:
    """Log of a server's ranks. Thread-safe.

    When a log exceeds the size limit, a new log begins with the known contents, so a server can be monitored for days.
    """

    def __init__(
        self,
        header: Header,
        path: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        max_bytes: int = MAX_BYTES,
        max_parts: int | None = None,
    ) -> None:
        """Begin the first log.

        `clock`: monotonic seconds. After `max_bytes` a new log begins in the folder of `path`, named NAME-2, NAME-3,
        and so on. The last `max_parts` logs are kept (None: all).
        """
        self._clock = clock
        self._path, self._max_bytes, self._max_parts = path, max_bytes, max_parts
        self._parts = [path] if path is not None else []
        self._rotate_at = max_bytes
        self.log = TraceWriter(header, path)
        self._on_next: Callable[[TraceWriter], None] | None = None
        self._next: list[int | None] = [None] * len(header.block_groups)  # expected number of each rank's next message
        outside = Places()
        groups = header.block_groups
        self._ranks = [Contents(group.first_block, group.num_blocks, outside) for group in groups]
        self._epochs = [0] * len(groups)
        self._numbers: list[dict[str, float]] = [{} for _ in groups]
        self._problems: dict[str, str] = {}  # last recorded problem by source
        self._num_blocks = sum(group.num_blocks for group in groups)
        self._block_size = int(header.engine["block_size"] or 1)
        self._began = clock()
        self._lock = threading.Lock()
        self._is_rotating = False

    def known(self, rank: int) -> Contents:
        """Return the known cached contents of a rank."""
        return self._ranks[rank]

    def on_next(self, call: Callable[[TraceWriter], None]) -> None:
        """Set a callback for new logs. It must close the previous log, which otherwise is closed here."""
        self._on_next = call

    def receive(self, rank: int, received: SequenceEvent) -> None:
        """Record the next message or break of a rank's publisher."""
        with self._lock:
            contents = self._ranks[rank]
            self._next[rank] = received.sequence + isinstance(received, Message)
            if isinstance(received, Break):
                self._epochs[rank] += received.reason == "restarted"
                known = contents.forget(self._epochs[rank], received.sequence, received.reason, received.num_missed)
                self._append(rank, [known], Seen())
                return
            ops: list[Op] = []
            published, problem, num_unread = None, "", 0
            contents.num_unmatched = contents.num_unplaced = 0
            try:
                batch = decode(received.payload)
            except EventError as error:  # the effect of the message is unknown
                problem = f"message {received.sequence}: {error}"
                ops.append(contents.forget(self._epochs[rank], received.sequence + 1, "gap", 1))
            else:
                published, num_unread = batch.published, batch.num_unread
                for event in batch.events:
                    if isinstance(event, AllBlocksCleared):
                        ops.append(contents.forget(self._epochs[rank], received.sequence, "cleared"))
                    else:
                        ops += contents.ops(event)
                if contents.num_unplaced:
                    contents_text = "1 content" if contents.num_unplaced == 1 else f"{contents.num_unplaced} contents"
                    problem = (
                        f"{contents_text} had no place: the server has more blocks than it reported, or more contents "
                        "outside its GPUs than a log can hold"
                    )
            seen = Seen(
                sequence=received.sequence,
                published=published,
                replayed=received.replayed,
                num_unmatched=contents.num_unmatched,
                num_unread=num_unread,
                problem=problem,
            )
            self._append(rank, ops, seen)

    def numbers(self, by_rank: dict[int, dict[str, float]]) -> None:
        """Record a metrics reading, for ranks whose values have changed."""
        with self._lock:
            self._problems.pop("metrics", None)
            for rank, numbers in sorted(by_rank.items()):
                if rank < len(self._ranks) and numbers != self._numbers[rank]:
                    self._numbers[rank] = numbers
                    self._append(rank, [], Seen(metrics=numbers))

    def problem(self, rank: int, about: str, sentence: str) -> None:
        """Record a problem, unless it equals the last recorded problem of that source."""
        with self._lock:
            if self._problems.get(about) != sentence:
                self._problems[about] = sentence
                self._append(rank, [], Seen(problem=sentence))

    def _append(self, rank: int, ops: list[Op], seen: Seen, num_cached: int | None = None) -> None:
        """Append a record. `num_cached`: number of contents in the pools; None: count the known contents."""
        if num_cached is None:
            num_cached = sum(contents.num_in_pool for contents in self._ranks)
        record = StepRecord(
            index=len(self.log),
            instance=rank,
            kind="observed",
            step=0,
            ops=ops,
            timing=Timing(at=self._clock() - self._began),
            memory=Memory.counted(
                num_blocks=self._num_blocks,
                block_size=self._block_size,
                blocks_held=0,
                blocks_cached=num_cached,
                tokens_held=0,
                tokens_logical=0,
                kv_bytes_per_token=UNKNOWN_BYTES,
            ),
            seen=seen,
        )
        self.log.append(record)
        if self.log.num_bytes >= self._rotate_at and not self._is_rotating:
            self._is_rotating = True
            try:
                self._rotate()
            finally:
                self._is_rotating = False

    def _rotate(self) -> None:
        """Begin a new log with the known contents."""
        before, self.log = self.log, TraceWriter(replace(self.log.header, created=_now()), self._next_path())
        self._began = self._clock()
        self._numbers = [{} for _ in self._ranks]  # the new log records the next reading
        self._problems.clear()
        outside, num_cached = Places(), 0
        for rank, (contents, sequence) in enumerate(zip(self._ranks, self._next, strict=True)):
            if sequence is None:
                continue  # no message yet
            since = KnownSince(epoch=self._epochs[rank], sequence=sequence, reason="continued")
            self._append(rank, [since], Seen(), num_cached)
            known = contents.restate(outside)
            while chunk := list(islice(known, MAX_RESTATED)):
                num_cached += sum(not one.outside for one in chunk)
                self._append(rank, [*chunk], Seen(), num_cached)
        self._rotate_at = self.log.num_bytes + self._max_bytes
        if self._on_next is not None:
            self._on_next(self.log)
        else:
            before.close()

    def _next_path(self) -> Path | None:
        if self._path is None:
            return None
        number = len(self._parts) + 1
        while (path := self._path.with_stem(f"{self._path.stem}-{number}")).exists():
            number += 1
        self._parts.append(path)
        if self._max_parts is not None:
            for old in self._parts[: -self._max_parts]:
                old.unlink(missing_ok=True)
        return path


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
