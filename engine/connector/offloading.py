"""Connector that stores full blocks in CPU memory and on disk, and loads them if that is faster than recomputing them.
It is equivalent to vLLM's OffloadingConnector.

Each block that gets its hash in a step is copied to the store after the step's forward pass, unless the store has it.
For a sequence about to be admitted, the connector looks up the blocks after the pool's hits. The found blocks are read
and verified while scheduling, so every block that counts as loaded is available. A damaged block is a miss.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from engine.cache.block_tiers import BlockTiers
from engine.cache.incoming import BlockSource, Loading
from engine.config import EngineConfig
from engine.connector.base import CacheView, KVConnector, KVConnectorMetadata
from engine.connector.layout import layout_of
from engine.connector.tiers.keys import store_key
from engine.connector.tiers.speeds import Planned
from engine.connector.tiers.tiers import Tiers
from engine.model.loaded import LoadedModel
from engine.scheduling.sequence import Sequence as Request
from engine.setup.resolve import resolve_for
from engine.trace.operations import Cache, FinishReason, LookupExternal, Medium, Op, Store
from engine.trace.records import TierFigures

logger = logging.getLogger(__name__)
SLOWNESS: dict[Medium, int] = {"cpu": 0, "disk": 1}  # order of the tiers, fastest first


class Found(NamedTuple):
    """Result of a waiting sequence's lookup in the store."""

    num_computed_tokens: int  # number of tokens before the looked-up ones
    loading: Loading | None  # None: nothing is loaded
    payloads: list[dict[int, bytes]]  # of each group, by logical block
    operation: LookupExternal | None


NOTHING = Found(0, None, [], None)


def may_offload(config: EngineConfig) -> bool:
    """Return whether an engine with this configuration may offload blocks.

    Its blocks must have hashes and correct content, and external hits must not reveal prompts of other clients.
    """
    is_shared = config.strategy == "paged" and config.enable_prefix_caching and config.forget_policy is None
    return is_shared and config.fault is None and not config.private


class OffloadingConnector(KVConnector):
    """Connector of an engine to a store that several engines may share."""

    def __init__(self, tiers: Tiers, model: LoadedModel, config: EngineConfig) -> None:
        self._tiers = tiers
        self._model = model
        self._resolved = resolve_for(config, model.facts)
        self._found: dict[int, Found] = {}  # by seq_id of a waiting sequence
        self._loads: list[tuple[int, int, bytes]] = []  # loads of the step that is being scheduled

    def register_kv_caches(self, cache: CacheView, kv_caches: Sequence[BlockTiers], emit: Callable[[Op], None]) -> None:
        self._cache, self._kv_caches, self._emit = cache, list(kv_caches), emit
        sizes = [cache.bytes_per_block for cache in kv_caches]
        self._layout = layout_of(self._model, self._resolved.config, self._resolved.groups, sizes)

    # while scheduling

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> tuple[int | None, bool]:
        found = self._found.get(request.seq_id)
        if found is None or found.num_computed_tokens != num_computed_tokens:
            self._found.clear()  # free the payloads of earlier lookups
            found = self._found[request.seq_id] = self._find(request, num_computed_tokens)
        loading = found.loading
        return (loading.end - loading.first) * self._cache.block_size if loading else 0, False

    def matched(self, request: Request) -> tuple[Loading | None, LookupExternal | None]:
        found = self._found[request.seq_id]
        return found.loading, found.operation

    def update_state_after_alloc(
        self, request: Request, block_tables: list[list[int]], num_external_tokens: int
    ) -> None:
        found = self._found.pop(request.seq_id, NOTHING)
        for group, payloads in enumerate(found.payloads):
            self._loads += [(group, block_tables[group][logical], data) for logical, data in payloads.items()]

    def request_finished(self, request: Request, block_tables: list[list[int]], reason: FinishReason) -> float | None:
        self._found.pop(request.seq_id, None)
        return None

    # around the forward pass

    def build_connector_meta(self, ops: Sequence[Op]) -> KVConnectorMetadata:
        saves = [(self._cache.group_of(op.block_id), op.block_id, op.block_hash) for op in ops if isinstance(op, Cache)]
        loads, self._loads = self._loads, []
        return KVConnectorMetadata(loads, saves)

    def start_load_kv(self, meta: KVConnectorMetadata) -> None:
        if not meta.loads:
            return
        begin = time.perf_counter()
        for group, cache in enumerate(self._kv_caches):
            cache.write([(block_id, data) for index, block_id, data in meta.loads if index == group])
        num_bytes = sum(len(data) for _, _, data in meta.loads)
        self._tiers.speeds.note_placing(num_bytes, time.perf_counter() - begin)

    def wait_for_save(self, meta: KVConnectorMetadata) -> None:
        try:
            self._save(meta)
        except (RuntimeError, MemoryError):  # the blocks are not stored, but the step succeeds
            logger.exception("full blocks could not be copied from the pool to the store")

    def _save(self, meta: KVConnectorMetadata) -> None:
        for group, cache in enumerate(self._kv_caches):
            missing: dict[bytes, tuple[int, bytes]] = {}
            for index, block_id, block_hash in meta.saves:
                key = store_key(self._layout, block_hash, group)
                if index == group and not self._tiers.lookup([key]):
                    missing[key] = (block_id, block_hash)
            contents = cache.read([block_id for block_id, _ in missing.values()])
            for (key, (block_id, block_hash)), data in zip(missing.items(), contents, strict=True):
                media = self._tiers.store(key, data)
                if media:
                    self._emit(Store(block_id=block_id, block_hash=block_hash, medium=media[0], num_bytes=len(data)))

    def note_prefill(self, num_tokens: int, seconds: float) -> None:
        self._tiers.speeds.note_prefill(self._layout, num_tokens, seconds)

    def figures(self) -> list[TierFigures]:
        last = {drop.tier: drop.reason for drop in self._tiers.drops()}
        return [
            TierFigures(
                medium=tier.tier,
                num_blocks=tier.blocks,
                num_bytes=tier.bytes,
                max_bytes=tier.max_bytes,
                num_dropped=sum(tier.drops.values()),
                last_drop=last.get(tier.tier, ""),
            )
            for tier in self._tiers.figures()
        ]

    # lookup

    def _find(self, request: Request, num_computed_tokens: int) -> Found:
        size = self._cache.block_size
        first = num_computed_tokens // size
        hashes = self._cache.block_hashes(request.seq_id, request.token_ids, request.cache_salt)
        num_tokens = (len(hashes) - first) * size
        if not num_tokens:
            return NOTHING._replace(num_computed_tokens=num_computed_tokens)
        search = Search(self._tiers, self._layout, self._cache, hashes, first, len(self._kv_caches))
        end, decision = search.longest_prefix(len(hashes)), None
        payloads: list[dict[int, bytes]] = []
        while end > first:
            planned = [Planned(medium, 1, self._kv_caches[g].bytes_per_block) for g, _, medium in search.blocks(end)]
            decision = self._tiers.speeds.worth_loading(self._layout, (end - first) * size, planned)
            if not decision.load:
                break
            unreadable = search.read(end)
            if unreadable is None:
                payloads = search.payloads(end)
                break
            end = search.longest_prefix(unreadable)
        operation = LookupExternal(
            seq_id=request.seq_id,
            verdict="miss" if end == first else "load" if decision is not None and decision.load else "compute",
            num_tokens=num_tokens,
            num_found_tokens=(end - first) * size,
            media=search.media(end),
            num_bytes=sum(self._kv_caches[g].bytes_per_block for g, _, _ in search.blocks(end)),
            load_seconds=decision.load_seconds if decision is not None and end > first else None,
            compute_seconds=decision.compute_seconds if decision is not None and end > first else None,
        )
        loading = Loading(first, end, search.sources(end), end * size) if payloads else None
        return Found(num_computed_tokens, loading, payloads, operation)


class Search:
    """Lookup of a sequence's blocks from logical block `first` on in the store, in every group that needs them."""

    def __init__(
        self, tiers: Tiers, layout: bytes, cache: CacheView, hashes: Sequence[bytes], first: int, num_groups: int
    ) -> None:
        """Begin a lookup. `hashes`: hashes of the leading blocks that the sequence may load."""
        self._tiers, self._cache, self._hashes, self._first = tiers, cache, hashes, first
        self._num_groups, self._layout = num_groups, layout
        self._media: dict[tuple[int, int], Medium | None] = {}  # by group and logical block
        self._read: dict[tuple[int, int], bytes] = {}  # by group and logical block

    def longest_prefix(self, end: int) -> int:
        """Return the maximum number of leading blocks, up to `end`, that can be loaded; `first` if there are none."""
        while end > self._first:
            missing = [logical for group, logical in self._needed(end) if self._medium(group, logical) is None]
            if not missing:
                return end
            end = min(missing)  # every shorter prefix that includes this block needs it too
        return end

    def blocks(self, end: int) -> list[tuple[int, int, Medium]]:
        """Return the group, logical block and tier of each block that is needed to load up to logical block `end`."""
        found = [(group, logical, self._medium(group, logical)) for group, logical in self._needed(end)]
        return [(group, logical, medium) for group, logical, medium in found if medium is not None]

    def media(self, end: int) -> list[Medium]:
        """Return the slowest tier of each needed logical block, in order."""
        slowest: dict[int, Medium] = {}
        for _, logical, medium in self.blocks(end):
            slowest[logical] = max(slowest.get(logical, medium), medium, key=SLOWNESS.__getitem__)
        return [slowest[logical] for logical in range(self._first, end) if logical in slowest]

    def read(self, end: int) -> int | None:
        """Read the needed blocks. Returns None, or the first logical block that could not be read."""
        for group, logical, _ in self.blocks(end):
            if (group, logical) in self._read:
                continue
            found = self._tiers.load(self._key(group, logical))
            if found is None:
                self._media[group, logical] = None
                return logical
            self._read[group, logical] = found.payload
        return None

    def sources(self, end: int) -> list[dict[int, BlockSource]]:
        """Return the sources of the blocks, by group."""
        sources: list[dict[int, BlockSource]] = [{} for _ in range(self._num_groups)]
        for group, logical, medium in self.blocks(end):
            sources[group][logical] = BlockSource(self._hashes[logical], medium)
        return sources

    def payloads(self, end: int) -> list[dict[int, bytes]]:
        """Return the content that `read` has read, by group."""
        payloads: list[dict[int, bytes]] = [{} for _ in range(self._num_groups)]
        for group, logical, _ in self.blocks(end):
            payloads[group][logical] = self._read[group, logical]
        return payloads

    def _needed(self, end: int) -> Iterator[tuple[int, int]]:
        for group in range(self._num_groups):
            for logical in self._cache.needed_blocks(group, end * self._cache.block_size):
                if logical >= self._first:
                    yield group, logical

    def _medium(self, group: int, logical: int) -> Medium | None:
        if (group, logical) not in self._media:
            found = self._tiers.lookup([self._key(group, logical)])
            self._media[group, logical] = found[0] if found else None
        return self._media[group, logical]

    def _key(self, group: int, logical: int) -> bytes:
        return store_key(self._layout, self._hashes[logical], group)
