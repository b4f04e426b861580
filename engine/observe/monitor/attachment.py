"""Connection to a monitored server: its events and its metrics."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

from msgspec import Struct

from engine.observe.monitor.metrics import MetricsError, MetricsReading, read_metrics, server_version
from engine.observe.monitor.observed_log import MAX_BYTES, ObservedLog, header_of
from engine.observe.monitor.sequence import SequenceEvent
from engine.observe.monitor.subscriber import Subscriber, rank_endpoint, zmq_module
from engine.trace.limits import MAX_ALL_BLOCKS, MAX_BLOCKS, MAX_GROUPS
from engine.trace.log import TraceWriter

METRICS_SECONDS = 1.0  # interval of metrics readings


class Attaching(Struct, frozen=True, kw_only=True):
    """Address of a server to monitor, and options."""

    events: str  # ZeroMQ address of rank 0's events
    replay: str | None = None  # endpoint that replays missed messages; None: no replay
    metrics: str | None = None  # URL
    topic: str = ""  # topic of the events; "": all
    ranks: tuple[int, ...] = (0,)  # data-parallel ranks; the port of rank r is that of rank 0 + r
    block_size: int | None = None  # None: read from the metrics
    num_blocks: int | None = None  # per rank; None: read from the metrics
    wait: float = 60.0  # seconds to wait for the metrics endpoint
    max_bytes: int = MAX_BYTES  # size of a log; then a new log begins with the known contents
    max_parts: int | None = None  # number of logs to retain; None: all


class AttachError(ValueError):
    """The server cannot be monitored. The message says what to do."""


class Attachment:
    """The threads that write the log: one per rank and one for the metrics."""

    def __init__(self, options: Attaching, path: Path | None = None) -> None:
        """Connect to the server. `path`: path of the log; None: an unnamed file.

        Raises:
            AttachError: the server does not answer, or required information is missing.
            MissingError: pyzmq is not installed.
        """
        zmq_module()
        self._options = options
        first = self._first_reading()
        block_size, num_blocks = options.block_size or first.block_size, options.num_blocks or first.num_blocks
        if block_size is None or num_blocks is None:
            raise AttachError(
                "the size of the pool is unknown: give --metrics of a server that reports it, or --block-size and "
                "--num-blocks"
            )
        if num_blocks > MAX_BLOCKS:
            raise AttachError(f"a rank of {num_blocks:,} blocks is more than a log can hold ({MAX_BLOCKS:,})")
        max_ranks = min(MAX_GROUPS, MAX_ALL_BLOCKS // num_blocks)
        if len(options.ranks) > max_ranks:
            raise AttachError(
                f"{len(options.ranks)} ranks of {num_blocks:,} blocks are more than a log can hold: watch {max_ranks} "
                "of them with --rank, and the others with another kvtheater attach"
            )
        endpoints = [rank_endpoint(options.events, rank) for rank in options.ranks]
        header = header_of(
            model=first.model,
            source=self._source(first),
            block_size=block_size,
            num_blocks=num_blocks,
            events=endpoints,
        )
        self._size = (block_size, num_blocks)
        self.observed = ObservedLog(header, path, max_bytes=options.max_bytes, max_parts=options.max_parts)
        self.error: str | None = None  # why a thread has stopped, as one sentence
        self._stop = threading.Event()
        self._subscribers: list[Subscriber] = []
        try:
            for index, rank in enumerate(options.ranks):
                replay = rank_endpoint(options.replay, rank) if options.replay else None
                self._subscribers.append(self._subscriber(index, endpoints[index], replay))
        except ValueError as error:
            self.close()
            raise AttachError(str(error)) from error
        self._metrics_thread = threading.Thread(target=self._run_metrics, name="metrics", daemon=True)

    @property
    def log(self) -> TraceWriter:
        return self.observed.log

    def start(self) -> None:
        for subscriber in self._subscribers:
            subscriber.start()
        if self._options.metrics is not None:
            self._metrics_thread.start()

    def close(self) -> None:
        """Stop the threads. The log stays open. Idempotent."""
        self._stop.set()
        for subscriber in self._subscribers:
            subscriber.close()

    def _subscriber(self, index: int, events: str, replay: str | None) -> Subscriber:
        def received(one: SequenceEvent) -> None:
            self.observed.receive(index, one)

        def failed(sentence: str) -> None:
            self._end(index, "events", sentence)

        return Subscriber(events, replay, self._options.topic, received, failed)

    def _end(self, index: int, about: str, sentence: str) -> None:
        """Record why a thread stops, unless the log cannot be written."""
        self.error = sentence
        with contextlib.suppress(OSError):
            self.observed.problem(index, about, sentence)

    def _first_reading(self) -> MetricsReading:
        if self._options.metrics is None:
            return MetricsReading()
        end = time.monotonic() + self._options.wait
        while True:
            try:
                return read_metrics(self._options.metrics)
            except MetricsError as error:
                if time.monotonic() >= end:
                    raise AttachError(str(error)) from error
                time.sleep(min(0.5, self._options.wait))

    def _source(self, first: MetricsReading) -> str:
        """Return the server's name, by its metrics, and its version if it answers at `/version`."""
        if self._options.metrics is None:
            return "vLLM or SGLang"
        if any(name.startswith("sglang:") for numbers in first.by_rank.values() for name in numbers):
            return "SGLang"
        version = server_version(self._options.metrics)
        return f"vLLM {version}" if version else "vLLM"

    def _run_metrics(self) -> None:
        try:
            self._poll_metrics()
        except OSError as error:  # for example, the disk is full
            self._end(0, "metrics", f"the log cannot be written any more: {error}")

    def _poll_metrics(self) -> None:
        assert self._options.metrics is not None
        ranks = {rank: index for index, rank in enumerate(self._options.ranks)}
        while not self._stop.wait(METRICS_SECONDS):
            try:
                found = read_metrics(self._options.metrics)
            except MetricsError as error:
                self.observed.problem(0, "metrics", str(error))
                continue
            if None not in (found.block_size, found.num_blocks) and self._is_other(found):
                self.observed.problem(
                    0,
                    "size",
                    f"the server restarted with {found.num_blocks} blocks of {found.block_size} tokens: attach again",
                )
            self.observed.numbers({ranks[rank]: numbers for rank, numbers in found.by_rank.items() if rank in ranks})

    def _is_other(self, found: MetricsReading) -> bool:
        """Return whether the server's pool size differs from this log's."""
        block_size, num_blocks = self._size
        return (self._options.block_size is None and found.block_size != block_size) or (
            self._options.num_blocks is None and found.num_blocks != num_blocks
        )
