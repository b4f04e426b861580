"""Transfers of keys and values between simulated instances, with block ids but without contents.

`engine.connector.transfer` does the same with contents. Here every transfer succeeds and no lease expires.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from engine.cache.incoming import Loading
from engine.cache.kv_cache_manager import KVCacheManager
from engine.scheduling.sequence import Sequence as Running
from engine.trace.operations import FinishReason, LookupExternal

LEASE = 3600.0  # seconds


class Offered(NamedTuple):
    """Blocks that an instance holds for another instance."""

    instance: int
    seq_id: int
    transfer: str
    num_tokens: int
    block_tables: list[list[int]]


class Pull(NamedTuple):
    """Transfer that a waiting sequence requests."""

    seq_id: int
    offered: Offered
    wanted: list[int]  # block ids of the sender
    num_bytes: int


class SimulatedConnector:
    """Connector of an instance. `pull` begins a transfer; the simulation ends it."""

    def __init__(self, instance: int, pull: Callable[[Pull], None], release_offer: Callable[[Pull], None]) -> None:
        """`release_offer`: called when no offered block is needed."""
        self._instance, self._pull, self._release_offer = instance, pull, release_offer
        self._expected: dict[str, Offered] = {}
        self._matched: dict[int, Loading | None] = {}
        self.offers: list[Offered] = []  # offers not collected yet

    def register(self, cache: KVCacheManager, bytes_per_token: Sequence[int]) -> None:
        """Set the pool and the bytes per token of each group."""
        self._cache = cache
        self._bytes_per_block = [per_token * cache.block_size for per_token in bytes_per_token]

    def expect(self, offered: Offered) -> None:
        """Announce the transfer of a request that is about to be submitted."""
        self._expected[offered.transfer] = offered

    # Protocol for the scheduler (`engine.scheduling.connector_protocol`)

    def get_num_new_matched_tokens(self, request: Running, num_computed_tokens: int) -> tuple[int | None, bool]:
        self._matched[request.seq_id] = None
        offered = self._expected.get(request.transfer or "")
        if offered is None or request.kv_role != "kv_consumer":
            return 0, False
        end = min(offered.num_tokens, request.num_tokens - 1)  # the last token must be computed for its logits
        if end <= num_computed_tokens:
            del self._expected[offered.transfer]
            self._release_offer(Pull(request.seq_id, offered, [], 0))
            return 0, False
        needed = [self._cache.needed_blocks(group, end) for group in range(len(self._bytes_per_block))]
        size = self._cache.block_size
        self._matched[request.seq_id] = Loading.received(offered.block_tables, needed, size, num_computed_tokens, end)
        return end - num_computed_tokens, True

    def matched(self, request: Running) -> tuple[Loading | None, LookupExternal | None]:
        return self._matched[request.seq_id], None

    def update_state_after_alloc(
        self, request: Running, block_tables: list[list[int]], num_external_tokens: int
    ) -> None:
        loading = self._matched.pop(request.seq_id, None)
        if loading is None or not num_external_tokens:
            return
        assert request.transfer is not None
        offered = self._expected.pop(request.transfer)
        wanted = [source.block_id for sources in loading.sources for source in sources.values()]
        num_bytes = sum(
            len(sources) * size for sources, size in zip(loading.sources, self._bytes_per_block, strict=True)
        )
        self._pull(Pull(request.seq_id, offered, wanted, num_bytes))

    def request_finished(self, request: Running, block_tables: list[list[int]], reason: FinishReason) -> float | None:
        if request.kv_role != "kv_producer" or request.transfer is None:
            return None
        tables = [list(table) for table in block_tables]
        self.offers.append(
            Offered(self._instance, request.seq_id, request.transfer, request.num_computed_tokens, tables)
        )
        return LEASE
