"""Connector of an engine to keys and values outside its pool, with the names of vLLM's KVConnectorBase_V1.

The engine drives a step as follows:

    get_num_new_matched_tokens   while scheduling: looks up the external tokens of a waiting sequence, after its hits
    update_state_after_alloc     after the sequence was admitted and has its blocks
    build_connector_meta         after scheduling: returns the step's loads and saves
    start_load_kv                before the forward pass, after block moves within the pool
    wait_for_save                after the forward pass, when the step's blocks are filled
    request_finished             before the blocks of a sequence are freed, or held for another instance
    get_finished                 between two steps: returns the finished transfers

vLLM calls the first three methods and `request_finished` in the scheduler's process and the others in a worker's, to
which it sends the metadata. Here one thread calls all of them. vLLM's `wait_for_layer_load` and `save_kv_layer`, which
overlap a transfer with the layers of a forward pass, are omitted: loads finish before the forward pass. The overlap
could save at most the time of the transfer, which is below 2 % of the time to first token in the record
`kv-disaggregated`. vLLM's NixlConnector does not implement the two methods either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol

from engine.cache.block_tiers import BlockTiers
from engine.cache.incoming import Loading
from engine.connector.link import TransferError
from engine.scheduling.sequence import Sequence as Request
from engine.trace.operations import FinishReason, LookupExternal, Op
from engine.trace.records import TierFigures


class CacheView(Protocol):
    """Read-only interface of the KV cache manager for connectors."""

    @property
    def block_size(self) -> int: ...

    def block_hashes(self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None) -> list[bytes]: ...

    def needed_blocks(self, group: int, num_tokens: int) -> list[int]: ...

    def group_of(self, block_id: int) -> int: ...


class KVConnectorMetadata(NamedTuple):
    """Transfers of a step."""

    loads: list[tuple[int, int, bytes]]  # group, block id, content
    saves: list[tuple[int, int, bytes]]  # group, block id, block hash


class Sent(NamedTuple):
    """Finished sequence whose blocks the other instance has received."""

    seq_id: int
    block_ids: list[int]  # received blocks
    num_bytes: int


class Received(NamedTuple):
    """Result of a transfer for a waiting sequence: its content, or the error."""

    seq_id: int
    contents: list[tuple[int, int, bytes]]  # group, block id, content
    error: TransferError | None
    link: str
    began: float  # reading of `time.perf_counter`
    ended: float

    @property
    def num_bytes(self) -> int:
        return sum(len(data) for _, _, data in self.contents)


class Finished(NamedTuple):
    """Finished transfers."""

    sent: list[Sent]
    expired: list[int]  # sequences whose blocks were not fetched
    received: list[Received]


class KVConnector:
    """Base class of connectors. Its methods are no-ops. Each engine has one connector, and calls it on its thread."""

    policy: Literal["recompute", "fail"] = "recompute"  # for failed transfers

    def register_kv_caches(self, cache: CacheView, kv_caches: Sequence[BlockTiers], emit: Callable[[Op], None]) -> None:
        """Set up the connector. Called once, when the engine is built. `kv_caches`: tensors of each group of layers."""

    # while scheduling

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> tuple[int | None, bool]:
        """See `engine.scheduling.connector_protocol.Connector`."""
        return 0, False

    def matched(self, request: Request) -> tuple[Loading | None, LookupExternal | None]:
        """See `engine.scheduling.connector_protocol.Connector`."""
        return None, None

    def update_state_after_alloc(
        self, request: Request, block_tables: list[list[int]], num_external_tokens: int
    ) -> None:
        """Handle the admission of a request, which has its blocks now."""

    def request_finished(self, request: Request, block_tables: list[list[int]], reason: FinishReason) -> float | None:
        """See `engine.scheduling.connector_protocol.Connector`."""
        return None

    def transfer_failed(self, request: Request) -> None:
        """Cancel the request's transfer. Content that arrives later is dropped."""

    # around the forward pass

    def build_connector_meta(self, ops: Sequence[Op]) -> KVConnectorMetadata:
        """Return the transfers of the step. `ops`: operations that its scheduling emitted."""
        return KVConnectorMetadata([], [])

    def start_load_kv(self, meta: KVConnectorMetadata) -> None:
        """Write the loaded content to its blocks. The writes are finished when this returns."""

    def wait_for_save(self, meta: KVConnectorMetadata) -> None:
        """Copy the blocks to be saved. They may be overwritten after this returns."""

    def get_finished(self) -> Finished:
        """Return the transfers that finished since the last call."""
        return Finished([], [], [])

    def placed(self, received: Received) -> None:
        """Confirm that received content was written or dropped. Called after this is recorded in the log."""

    def note_prefill(self, num_tokens: int, seconds: float) -> None:
        """Record the duration of a forward pass that computed prompt tokens only."""

    def figures(self) -> list[TierFigures]:
        """Return the usage of each tier, the fastest first."""
        return []

    def close(self) -> None:
        """Release all resources, because the engine is closed."""
