"""Interface of a KV cache manager for the scheduler, implemented by `engine.cache.kv_cache_manager`."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Items
from typing import Any, Protocol

from engine.trace.operations import AllocateReason, ForkReason, FreeReason, Lookup, LookupVerdict


class Match(Protocol):
    """Cached leading blocks of a sequence."""

    @property
    def hits(self) -> Any: ...  # argument for the same cache's `demand` and `allocate`, opaque to others

    @property
    def block_ids(self) -> list[int]: ...

    @property
    def num_tokens(self) -> int: ...

    @property
    def verdict(self) -> LookupVerdict: ...


class HitExplanation(Protocol):
    """Reason why a lookup did not hit more tokens."""

    def add_to(self, lookup: Lookup) -> Lookup:
        """Return a copy of the lookup with this reason."""


class Demand(Protocol):
    """Blocks that an allocation needs, and blocks that are available to it."""

    @property
    def needed(self) -> int: ...

    @property
    def available(self) -> int: ...

    @property
    def num_free(self) -> int | None: ...  # free blocks in all holes under `first_fit`, else None


class Cache(Protocol):
    """Block tables by seq_id. Every modification emits an operation; a lookup modifies nothing."""

    def lookup(
        self, seq_id: int, token_ids: Items[int], cache_salt: str | None = None, skip: bool = False
    ) -> Match: ...

    def explain(
        self, seq_id: int, token_ids: Items[int], cache_salt: str | None, num_hit_tokens: int
    ) -> HitExplanation: ...

    def remember(self, seq_id: int, token_ids: Items[int], cache_salt: str | None) -> None: ...

    def num_held(self, seq_id: int) -> int: ...

    def block_tables(self, seq_id: int) -> list[list[int]]: ...

    def max_demand(self, num_slots: int, tokens_a_step: int) -> Demand: ...

    def demand(
        self, seq_id: int, num_tokens: int, hits: Any = (), loading: Any = None, reserved: int = 0
    ) -> Demand: ...

    def drop_unseen(self, match: Any, loading: Any) -> Match: ...

    def has_room(self, seq_id: int, num_tokens: int) -> bool: ...

    def allocate(
        self, seq_id: int, num_tokens: int, reason: AllocateReason, hits: Any = (), loading: Any = None
    ) -> bool: ...

    def receive(self, seq_id: int, loading: Any) -> None: ...

    def cache_blocks(
        self, seq_id: int, token_ids: Items[int], num_tokens: int, cache_salt: str | None = None
    ) -> None: ...

    def write(self, seq_id: int, start: int, num_tokens: int) -> None: ...

    def truncate(self, seq_id: int, num_tokens: int) -> None: ...

    def release(self, seq_ids: Iterable[int]) -> None: ...

    def fork(
        self, parent_seq_id: int, seq_id: int, request_id: str, reason: ForkReason = "sample", seed: int | None = None
    ) -> None: ...

    def swap_out(self, seq_id: int) -> int | None: ...

    def num_swapped_tokens(self, seq_id: int) -> int: ...

    def swap_in(self, seq_id: int, num_tokens: int) -> bool: ...

    def free(self, seq_id: int, reason: FreeReason) -> None: ...

    def forget(self, seq_id: int) -> None: ...
