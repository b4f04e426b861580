"""Prefill and decode on two instances: the consumer reads the keys and values of a prompt from the producer.

    router            the prompt, do_remote_decode     the same prompt, do_remote_prefill, the producer's reply
                            |                                   |
    instance          [producer: prefill, hold] ◄── read ── [consumer: await, receive, decode]
                      [producer: free]          ◄── received ──

The names are vLLM's (`KVTransferConfig`, `kv_transfer_params`). One connector can be both sides. Blocks that hit in the
consumer's prefix cache are not transferred. The consumer allocates a sequence's blocks before the transfer, so the
producer holds them until the consumer has free blocks. Every failure is the reason of a `transfer_failed`: the consumer
computes the prompt itself (kv_load_failure_policy `recompute`) or refuses the request (`fail`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import NamedTuple

from engine.cache.block_tiers import BlockTiers
from engine.cache.incoming import Loading
from engine.config import FailurePolicy
from engine.connector.base import CacheView, Finished, KVConnector, Received, Sent
from engine.connector.link import Link, RemoteBlocks, ThrottledLink, TransferError, text_of
from engine.scheduling.sequence import Sequence as Request
from engine.trace.operations import RELEASED, FinishReason, LookupExternal, Op

LEASE = 30.0  # seconds
MAX_ENDED = 4096  # remembered ended transfers, for the error of a second request for one


class Held(NamedTuple):
    """Blocks of a finished sequence that are held for the receiver."""

    seq_id: int
    blocks: frozenset[tuple[int, int]]  # group, block id


class Pull(NamedTuple):
    """Transfer for a waiting sequence."""

    seq_id: int
    remote: RemoteBlocks
    wanted: list[tuple[int, int]]  # group, block id at the sender
    targets: list[tuple[int, int]]  # group, block id here
    has_all_blocks: bool  # whether the sender's tables have every needed block
    has_same_text: bool  # whether the sender's tokens are those of the sequence


class SyncExecutor:
    """Executor that runs tasks synchronously, for engines with one thread."""

    def submit(self, do: Callable[..., Received], *arguments: object) -> Future[Received]:
        future: Future[Received] = Future()
        future.set_result(do(*arguments))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """No-op, because no task is pending."""


class TransferConnector(KVConnector):
    """Connector of an instance that sends or receives, or both. Any thread may call `read`, `renew` and `received`."""

    def __init__(
        self,
        engine_id: str,
        link: Link,
        layout: Callable[[Sequence[BlockTiers]], bytes],
        *,
        pulls: Executor | SyncExecutor | None = None,
        lease: float = LEASE,
        policy: FailurePolicy = "recompute",
        clock: Callable[[], float] = time.perf_counter,
        notify: Callable[[], object] = lambda: None,
    ) -> None:
        """Create the connector.

        Args:
            layout: returns the digest of the block layout of these tensors.
            pulls: executor of transfers over the link, which `close` shuts down; None: the engine's thread.
            lease: seconds until blocks are freed, unless the receiver renews the lease.
            notify: called on any thread when `get_finished` has a result, except for an expired lease.
        """
        self.engine_id = engine_id
        self.policy: FailurePolicy = policy
        self._link, self._layout_of, self._pulls = link, layout, pulls or SyncExecutor()
        self._lease, self._clock, self._notify = lease, clock, notify
        self._lock = threading.RLock()
        # sender, by transfer
        self._held: dict[str, Held] = {}
        self._until: dict[str, float] = {}  # end of the lease
        self._ended: dict[str, bool] = {}  # whether an ended transfer was received
        self._sent: deque[Sent] = deque()
        self._offers: dict[str, RemoteBlocks] = {}
        # receiver
        self._remotes: dict[str, RemoteBlocks] = {}  # by transfer: announced, but not begun
        self._matched: dict[int, tuple[int, Loading | None]] = {}  # by seq_id
        self._pulled: dict[int, Future[Received]] = {}  # by seq_id
        self._since: dict[int, float] = {}  # seq_id -> start of the transfer
        self._unconfirmed: dict[int, Pull] = {}  # by seq_id: not confirmed to the sender yet

    def register_kv_caches(self, cache: CacheView, kv_caches: Sequence[BlockTiers], emit: Callable[[Op], None]) -> None:
        self._cache, self._kv_caches = cache, list(kv_caches)
        self.layout = self._layout_of(kv_caches)

    # sender

    def request_finished(self, request: Request, block_tables: list[list[int]], reason: FinishReason) -> float | None:
        self._cancel(request)
        is_prefilled = reason in ("stop", "length") and request.has_output
        if request.kv_role != "kv_producer" or request.transfer is None or not is_prefilled:
            return None
        if request.transfer in self._held or request.transfer in self._ended:
            return None  # the id is in use
        blocks = frozenset((g, i) for g, table in enumerate(block_tables) for i in table if i != RELEASED)
        with self._lock:
            self._held[request.transfer] = Held(request.seq_id, blocks)
            self._until[request.transfer] = self._clock() + self._lease
        tables = [list(table) for table in block_tables]
        computed = request.num_computed_tokens
        text = text_of(request.token_ids[:computed], request.cache_salt)
        self._offers[request.transfer] = RemoteBlocks(
            self.engine_id, request.transfer, self.layout, computed, text, tables
        )
        return self._lease

    def take_offer(self, transfer: str) -> RemoteBlocks | None:
        """Return and remove the held blocks of a finished request, for its receiver."""
        return self._offers.pop(transfer, None)

    def claim(self, transfer: str, wanted: Sequence[tuple[int, int]]) -> None:
        """Check that the blocks are held, and renew the lease. Raises TransferError like `Sender.read`."""
        with self._lock:
            held = self._get_held(transfer)
            missing = [block for block in wanted if block not in held.blocks]
            if missing:
                raise TransferError("out_of_range", f"transfer {transfer} does not hold block {missing[0][1]}")
            self._until[transfer] = self._clock() + self._lease

    def read(self, transfer: str, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        with self._lock:  # prevents the release of blocks during the read
            self.claim(transfer, wanted)
            contents: dict[tuple[int, int], bytes] = {}
            for group, cache in enumerate(self._kv_caches):
                ids = [block_id for index, block_id in wanted if index == group]
                copies = [bytes(data) for data in cache.read(ids)]
                contents.update(zip(((group, i) for i in ids), copies, strict=True))
            return [contents[block] for block in wanted]

    def renew(self, transfer: str) -> None:
        self.claim(transfer, [])

    def received(self, transfer: str, wanted: Sequence[tuple[int, int]], num_bytes: int) -> None:
        with self._lock:
            held = self._get_held(transfer)
            self._end(transfer, received=True)
            self._sent.append(Sent(held.seq_id, [block_id for _, block_id in wanted], num_bytes))
        self._notify()

    def _get_held(self, transfer: str) -> Held:
        held = self._held.get(transfer)
        if held is not None and self._clock() <= self._until[transfer]:
            return held
        if held is not None or self._ended.get(transfer) is False:
            raise TransferError("expired", f"the lease of transfer {transfer} has expired")
        if transfer in self._ended:
            raise TransferError("consumed", f"transfer {transfer} was already received")
        raise TransferError("unknown", f"there is no transfer {transfer}")

    def _end(self, transfer: str, received: bool) -> None:
        self._held.pop(transfer), self._until.pop(transfer), self._offers.pop(transfer, None)
        self._ended[transfer] = received
        while len(self._ended) > MAX_ENDED:
            del self._ended[next(iter(self._ended))]

    # receiver

    def expect(self, remote: RemoteBlocks) -> None:
        """Announce the transfer of a request that will be submitted."""
        self._remotes[remote.transfer] = remote

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> tuple[int | None, bool]:
        remote = self._remotes.get(request.transfer or "")
        if remote is None or request.kv_role != "kv_consumer":
            self._matched[request.seq_id] = (0, None)
            return 0, False
        end = min(remote.num_tokens, request.num_tokens - 1)  # the last token must be computed, to get logits
        if end <= num_computed_tokens:
            self._decline(remote)
            self._matched[request.seq_id] = (0, None)
            return 0, False
        loading = self._loading(remote, num_computed_tokens, end)
        self._matched[request.seq_id] = (end - num_computed_tokens, loading)
        return end - num_computed_tokens, True

    def matched(self, request: Request) -> tuple[Loading | None, LookupExternal | None]:
        return self._matched[request.seq_id][1], None

    def update_state_after_alloc(
        self, request: Request, block_tables: list[list[int]], num_external_tokens: int
    ) -> None:
        _, loading = self._matched.pop(request.seq_id, (0, None))
        if loading is None or not num_external_tokens:
            return
        assert request.transfer is not None
        remote = self._remotes.pop(request.transfer)
        wanted, targets = list[tuple[int, int]](), list[tuple[int, int]]()
        for group, sources in enumerate(loading.sources):
            for logical, source in sources.items():
                wanted.append((group, source.block_id))
                targets.append((group, block_tables[group][logical]))
        has_all_blocks = all(block_id >= 0 for _, block_id in wanted)
        text = text_of(request.token_ids[: remote.num_tokens], request.cache_salt)
        pull = Pull(request.seq_id, remote, wanted, targets, has_all_blocks, text == remote.text)
        self._unconfirmed[request.seq_id] = pull
        self._since[request.seq_id] = self._clock()
        pulled = self._pulled[request.seq_id] = self._pulls.submit(self._pull, pull)
        pulled.add_done_callback(lambda _: self._notify())

    def get_finished(self) -> Finished:
        received = list[Received]()
        for seq_id, future in list(self._pulled.items()):
            if future.done():
                received.append(future.result())
            elif self._clock() - self._since[seq_id] > self._lease:  # the sender's lease has expired
                error = TransferError("late", f"no blocks were received within {self._lease:g} s")
                now = time.perf_counter()
                received.append(Received(seq_id, [], error, self._link.name, now, now))
        for one in received:
            self._pulled.pop(one.seq_id), self._since.pop(one.seq_id)
        expired = list[int]()
        with self._lock:
            sent = list(self._sent)
            self._sent.clear()
            now = self._clock()
            for transfer in [transfer for transfer, until in self._until.items() if until < now]:
                expired.append(self._held[transfer].seq_id)
                self._end(transfer, received=False)
        return Finished(sent, expired, received)

    def close(self) -> None:
        if isinstance(self._link, ThrottledLink):
            self._link.close()  # waiting threads would delay the exit of the process
        self._pulls.shutdown(wait=False, cancel_futures=True)

    def _decline(self, remote: RemoteBlocks) -> None:
        """Confirm a transfer without reading its blocks, so that the sender frees them."""
        self._remotes.pop(remote.transfer)
        with contextlib.suppress(TransferError):  # the lease may already have expired
            self._link.to(remote.engine_id).received(remote.transfer, [], 0)

    def _loading(self, remote: RemoteBlocks, first_token: int, end: int) -> Loading:
        needed = [self._cache.needed_blocks(group, end) for group in range(len(self._kv_caches))]
        return Loading.received(remote.block_tables, needed, self._cache.block_size, first_token, end)

    def _pull(self, pull: Pull) -> Received:
        """Read the content of blocks over the link, on a thread of `pulls`."""
        began = time.perf_counter()
        try:
            if pull.remote.layout != self.layout:
                raise TransferError("other_layout", "the sender has another model, dtype or block size")
            if not pull.has_same_text:
                raise TransferError("other_text", "the sender's tokens are not those of the request")
            if not pull.has_all_blocks:
                raise TransferError("out_of_range", "the sender's block tables do not have every needed block")
            sender = self._link.to(pull.remote.engine_id)
            contents = sender.read(pull.remote.transfer, pull.wanted)
            for (group, _), content in zip(pull.wanted, contents, strict=True):
                if len(content) != self._kv_caches[group].bytes_per_block:
                    raise TransferError("lost", f"a received block has {len(content)} bytes")
        except Exception as cause:  # any error fails this transfer only
            error = (
                cause if isinstance(cause, TransferError) else TransferError("lost", f"{type(cause).__name__}: {cause}")
            )
            return Received(pull.seq_id, [], error, self._link.name, began, time.perf_counter())
        placed = [(group, block_id, data) for (group, block_id), data in zip(pull.targets, contents, strict=True)]
        return Received(pull.seq_id, placed, None, self._link.name, began, time.perf_counter())

    def placed(self, received: Received) -> None:
        self._confirm(received.seq_id, received.error, received.num_bytes)

    def _confirm(self, seq_id: int, error: TransferError | None, num_bytes: int) -> None:
        """Confirm a transfer to its sender. After a failed transfer, the blocks are freed when their lease expires."""
        pull = self._unconfirmed.pop(seq_id, None)
        if pull is None or error is not None:
            return
        with contextlib.suppress(TransferError):  # the sender has freed the blocks already
            sender = self._link.to(pull.remote.engine_id)
            sender.received(pull.remote.transfer, pull.wanted if num_bytes else [], num_bytes)

    def _cancel(self, request: Request) -> None:
        """Cancel the transfer of a sequence, if there is one."""
        seq_id = request.seq_id
        self._matched.pop(seq_id, None)
        self._since.pop(seq_id, None)
        if request.kv_role == "kv_consumer" and (remote := self._remotes.get(request.transfer or "")) is not None:
            self._decline(remote)
        if self._pulled.pop(seq_id, None) is not None:
            self._confirm(seq_id, None, 0)

    def transfer_failed(self, request: Request) -> None:
        self._cancel(request)
