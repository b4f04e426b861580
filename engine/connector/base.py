"""A connector: what an engine asks of keys and values outside its pool, by the names of vLLM's KVConnectorBase_V1.

One step, as the engine drives it:

    get_num_new_matched_tokens   while scheduling: what there is of a waiting sequence after the blocks that hit
    update_state_after_alloc     it was admitted, and has its blocks
    build_connector_meta         the step is scheduled: what has to be loaded for it, and saved of it
    start_load_kv                before the forward pass, after whole blocks were moved within the pool
    wait_for_save                after it: what the step filled is full of keys and values
    request_finished             a sequence gives up its blocks, or keeps them for another instance
    get_finished                 between two steps: transfers that are over

In vLLM the first three and the last are called in the scheduler's process and the others in a worker's, with the
metadata between them. Here one thread calls all of them. vLLM's `wait_for_layer_load` and `save_kv_layer`, which let a
transfer run beside the layers of one forward pass, are missing: what is loaded is there before the pass begins. They
could hide no more than the time that blocks take to move. In the record `kv-disaggregated` that is 1.4 ms of a median
time to first token of 87.6 ms over shared memory, and 2.4 of 256 ms with the chat trace; only a throttled link would
show more. vLLM's NixlConnector leaves the two methods empty as well: it moves a prompt's blocks when all are computed.
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


class Books(Protocol):
    """Cache state that a connector reads."""

    @property
    def block_size(self) -> int: ...

    def block_hashes(self, seq_id: int, token_ids: Sequence[int], cache_salt: str | None) -> list[bytes]: ...

    def needed_blocks(self, group: int, num_tokens: int) -> list[int]: ...

    def group_of(self, block_id: int) -> int: ...


class KVConnectorMetadata(NamedTuple):
    """Transfers of a step; lists of (group, block id, ...)."""

    loads: list[tuple[int, int, bytes]]  # and the content
    saves: list[tuple[int, int, bytes]]  # and the block's hash


class Sent(NamedTuple):
    """The other instance has the blocks of a finished sequence."""

    seq_id: int
    block_ids: list[int]  # that it took
    num_bytes: int


class Received(NamedTuple):
    """Result of a transfer for a waiting sequence: its content, or the error."""

    seq_id: int
    contents: list[tuple[int, int, bytes]]  # group, block id, content
    error: TransferError | None
    link: str
    began: float  # by `time.perf_counter`
    ended: float

    @property
    def num_bytes(self) -> int:
        return sum(len(data) for _, _, data in self.contents)


class Finished(NamedTuple):
    """Transfers that are over."""

    sent: list[Sent]
    expired: list[int]  # sequences whose blocks were not fetched
    received: list[Received]


class KVConnector:
    """Does nothing: a connector overrides what it takes part in. One for each engine, called on the engine's thread."""

    policy: Literal["recompute", "fail"] = "recompute"  # where what was awaited does not come

    def register_kv_caches(self, books: Books, kv_caches: Sequence[BlockTiers], emit: Callable[[Op], None]) -> None:
        """Once, when the engine is built. `kv_caches`: the tensors of each group of layers."""

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
        """The request was admitted, and has its blocks."""

    def request_finished(self, request: Request, block_tables: list[list[int]], reason: FinishReason) -> float | None:
        """See `engine.scheduling.connector_protocol.Connector`."""
        return None

    def transfer_failed(self, request: Request) -> None:
        """Cancel the request's transfer: content that still arrives is dropped."""

    # around the forward pass

    def build_connector_meta(self, ops: Sequence[Op]) -> KVConnectorMetadata:
        """Return the transfers of the step. `ops`: operations of its scheduling."""
        return KVConnectorMetadata([], [])

    def start_load_kv(self, meta: KVConnectorMetadata) -> None:
        """Put what is loaded into its blocks; it is there when this returns."""

    def wait_for_save(self, meta: KVConnectorMetadata) -> None:
        """Take copies of what is to be saved; the blocks may be overwritten when this returns."""

    def get_finished(self) -> Finished:
        """Return the transfers that ended since the last call."""
        return Finished([], [], [])

    def placed(self, received: Received) -> None:
        """Confirm that the content was placed or dropped, after the log's record of it."""

    def note_prefill(self, num_tokens: int, seconds: float) -> None:
        """A forward pass computed so many prompt tokens and nothing else."""

    def figures(self) -> list[TierFigures]:
        """Return the usage of each tier, the fastest first."""
        return []

    def close(self) -> None:
        """The engine is closed."""
