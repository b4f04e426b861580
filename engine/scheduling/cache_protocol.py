"""What the scheduler needs of a KV cache manager; `engine.cache.kv_cache_manager` is one."""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Protocol

from engine.trace.events import LookupVerdict


class Match(Protocol):
    """Cached leading blocks of a sequence."""

    @property
    def block_ids(self) -> list[int]: ...

    @property
    def num_tokens(self) -> int: ...

    @property
    def verdict(self) -> LookupVerdict: ...


class Demand(Protocol):
    """Blocks that an allocation would take, and how many it may."""

    @property
    def needed(self) -> int: ...

    @property
    def available(self) -> int: ...


class Cache(Protocol):
    """Block tables by seq_id. Emits its own operations for everything that it changes; a lookup changes nothing."""

    @property
    def num_blocks(self) -> int: ...

    @property
    def block_size(self) -> int: ...

    def lookup(self, seq_id: int, token_ids: Items[int], cache_salt: str | None = None) -> Match: ...

    def demand(self, seq_id: int, num_tokens: int, hit_block_ids: Items[int] = ()) -> Demand: ...

    def allocate(self, seq_id: int, num_tokens: int, hit_block_ids: Items[int] = ()) -> bool: ...

    def cache_blocks(
        self, seq_id: int, token_ids: Items[int], num_tokens: int, cache_salt: str | None = None
    ) -> None: ...

    def write(self, seq_id: int, start: int, num_tokens: int) -> None: ...

    def fork(self, parent_seq_id: int, seq_id: int, request_id: str) -> None: ...

    def free(self, seq_id: int) -> None: ...

    def forget(self, seq_id: int) -> None: ...
