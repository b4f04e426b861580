"""Fault injection: bugs that real engines have shipped, injected into a running engine.

A fault replaces methods of an engine's private members (KV store, cache managers, scheduler, model runner), or the
connector between engines. The engine's code has no faults. It reads `EngineConfig.fault` in two places: a run with a
fault never uses the compiled forward pass, and `Engine.choose` refuses.

A healthy engine raises if a guard or the integrity check finds an inconsistent state. A faulty engine records the
finding in the log (`StepRecord.integrity`) and continues, so that the effect can be observed. The first difference from
a healthy run of the same requests and settings under `enforce_eager` is due to the fault.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from pathlib import Path
from typing import Any, get_args

from engine.cache.block_pool import Block, BlockPool, Eviction
from engine.cache.block_table import BlockTables
from engine.cache.guards import IntegrityError, objection_of
from engine.cache.kv_cache_manager import KVCacheManager
from engine.cluster.build import local_cluster
from engine.cluster.cluster import Cluster
from engine.config import TRANSFER_FAULTS, EngineConfig, FaultName
from engine.connector.base import KVConnector
from engine.connector.transfer import TransferConnector
from engine.engine import Engine
from engine.model.attention import StepContext
from engine.model.attention_backend import AttentionBackend, AttentionCall, AttentionOutput
from engine.model.batch import StepBatch
from engine.model.capture import CaptureRequest
from engine.model.loaded import LoadedModel
from engine.scheduling.sequence import Sequence
from engine.trace.records import Objection, StepRecord

Report = Callable[[Objection], None]


def make_engine(
    model: LoadedModel,
    config: EngineConfig,
    *,
    log_path: Path | None = None,
    capture: CaptureRequest | None = None,
    connector: KVConnector | None = None,
    keep_log: bool = True,
) -> Engine:
    """Return an engine with the fault `config.fault`, or a healthy one if it is None. For the rest see `Engine`."""
    kind = Engine if config.fault is None else FaultyEngine
    return kind(model, config, log_path=log_path, capture=capture, connector=connector, keep_log=keep_log)


class FaultyEngine(Engine):
    """Engine with one fault, whose records include the findings of its guards."""

    def __init__(self, model: LoadedModel, config: EngineConfig, **options: Any) -> None:
        super().__init__(model, config, **options)
        assert config.fault is not None
        self._found: list[Objection] = []
        FAULTS[config.fault](self, self._found.append)

    def _append_record(self, *args: Any, **fields: Any) -> StepRecord:
        try:
            self.check_integrity()
        except IntegrityError as error:
            self._found.append(error.objection)
        fields["integrity"] = list(dict.fromkeys(self._found))
        self._found.clear()
        return super()._append_record(*args, **fields)


def slot_off_by_one(engine: Engine, report: Report) -> None:
    """Write keys and values one slot after the slot that is read."""
    store = engine._runner.kv_store
    write = store.write

    def shifted(layer: int, slot_mapping: Any, k: Any, v: Any) -> None:
        write(layer, (slot_mapping + 1) % store.num_slots(layer), k, v)

    _override(store, "write", shifted)


def no_copy_at_shared_write(engine: Engine, report: Report) -> None:
    """Write to shared blocks without copy-on-write."""
    cache = engine._cache
    write, cache_blocks = cache.write, cache.cache_blocks

    def write_in_place(seq_id: int, start: int, num_tokens: int) -> None:
        try:
            write(seq_id, start, num_tokens)
        except ValueError as error:
            report(objection_of(error))
            with _AllowWrites(cache, seq_id, start, num_tokens):
                write(seq_id, start, num_tokens)

    def cache_if_allowed(*args: Any) -> None:
        try:
            cache_blocks(*args)
        except ValueError as error:
            report(objection_of(error))

    for group in cache.groups:
        _override(group, "shared_before_write", _no_shared_blocks)
    _override(cache, "write", write_in_place)
    _override(cache, "cache_blocks", cache_if_allowed)


def stale_hash_after_reallocation(engine: Engine, report: Report) -> None:
    """Leave a reallocated block in the index under its old hash, so that old prompts hit new content."""
    prefixes = engine._cache.prefixes
    check_hits = prefixes.check_hits
    for group in engine._cache.groups:
        _override(group.pool, "allocate", _keeping_evicted_hashes(group.pool))

    def ignore_check(*args: Any) -> None:
        try:
            check_hits(*args)
        except ValueError as error:
            report(objection_of(error))

    _override(prefixes, "check_hits", ignore_check)


def _keeping_evicted_hashes(pool: BlockPool) -> Callable[[], tuple[Block, Eviction | None]]:
    """Wrap the pool's `allocate` so that evicted hashes remain in the index."""
    allocate = pool.allocate

    def allocate_and_restore_hash() -> tuple[Block, Eviction | None]:
        block, evicted = allocate()
        if evicted is not None:
            pool._enter_index(block.block_id, evicted.block_hash)
        return block, evicted

    return allocate_and_restore_hash


def output_lost_at_preemption(engine: Engine, report: Report) -> None:
    """Resume a preempted sequence with only its prompt and last token, without its other output tokens."""
    preemption = engine._scheduler._preemption
    preempt = preemption.preempt

    def preempt_and_lose(victim: Sequence, *args: Any) -> None:
        preempt(victim, *args)
        lost = victim.num_tokens - victim.num_prompt_tokens
        # the last token, which is the next input, now directly follows the prompt
        if lost > 1:
            del victim.token_ids[victim.num_prompt_tokens : -1]

    _override(preemption, "preempt", preempt_and_lose)


def missing_causal_mask(engine: Engine, report: Report) -> None:
    """Let prompt tokens attend to later tokens. Decoding is not affected, because no token follows the last."""
    runner = engine._runner
    runner.backend = _Unmasked(runner.backend)


def rope_restarted_at_chunk(engine: Engine, report: Report) -> None:
    """Restart positions at 0 in every chunk of a prompt, so that its keys get the wrong rotation."""
    runner = engine._runner
    forward = runner.forward

    def forward_from_zero(batch: StepBatch, context: StepContext) -> Any:
        positions = batch.position_ids.clone()
        for span in batch.prefills:
            positions[0, span.begin : span.end] -= span.start
        batch.position_ids = positions
        return forward(batch, context)

    _override(runner, "forward", forward_from_zero)


class EarlyFreeConnector(TransferConnector):
    """Connector that frees held blocks too early, and then sends their current contents."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "lease": 0.0})

    def read(self, transfer: str, wanted: Items[tuple[int, int]]) -> list[bytes]:
        """Return the current contents of the blocks, which may be of another sequence."""
        return [bytes(self._kv_caches[group].read([block_id])[0]) for group, block_id in wanted]

    def received(self, transfer: str, wanted: Items[tuple[int, int]], num_bytes: int) -> None:
        """No-op, because the blocks are already freed."""


OF_SEVERAL: dict[FaultName, type[TransferConnector]] = {"read_after_release": EarlyFreeConnector}


def make_cluster(
    model: LoadedModel, config: EngineConfig, *, log_path: Path | None = None, capture: CaptureRequest | None = None
) -> Cluster:
    """Return instances in one thread, with `config.fault` if it is set. Raises ConfigError: as `local_cluster`."""
    connector = TransferConnector if config.fault is None else OF_SEVERAL.get(config.fault, TransferConnector)
    return local_cluster(model, config, log_path=log_path, capture=capture, make_connector=connector)


FAULTS: dict[FaultName, Callable[[Engine, Report], None]] = {
    "slot_off_by_one": slot_off_by_one,
    "no_copy_at_shared_write": no_copy_at_shared_write,
    "stale_hash_after_reallocation": stale_hash_after_reallocation,
    "output_lost_at_preemption": output_lost_at_preemption,
    "missing_causal_mask": missing_causal_mask,
    "rope_restarted_at_chunk": rope_restarted_at_chunk,
}
assert set(FAULTS) | set(OF_SEVERAL) == set(get_args(FaultName)) and set(OF_SEVERAL) == set(TRANSFER_FAULTS)


class _Unmasked(AttentionBackend):
    """Attention backend without the causal mask in prefills."""

    def __init__(self, healthy: AttentionBackend) -> None:
        self._healthy = healthy

    def forward(
        self, call: AttentionCall, q: Any, store: Any, batch: StepBatch, needs_weights: bool
    ) -> AttentionOutput:
        for span in batch.prefills:
            reach = batch.reach(call.layer, call.sliding_window)
            keys = batch.prefill_keys(span, reach)
            unmasked = keys._replace(mask=keys.mask.new_zeros(keys.mask.shape))
            batch._prefill_keys[span.slice_index, reach] = unmasked
        return self._healthy.forward(call, q, store, batch, needs_weights)


class _AllowWrites:
    """Context manager in which a sequence may write to shared blocks of these positions."""

    def __init__(self, cache: KVCacheManager, seq_id: int, start: int, num_tokens: int) -> None:
        size = cache.block_size
        tables = cache.block_tables(seq_id)
        ids = [i for table in tables for i in table[start // size : -(-(start + num_tokens) // size)]]
        self._promised = cache.promised
        self._allowed = {block_id: seq_id for block_id in ids if block_id not in self._promised}

    def __enter__(self) -> None:
        self._promised.update(self._allowed)

    def __exit__(self, *error: object) -> None:
        for block_id in self._allowed:
            self._promised.pop(block_id, None)


def _no_shared_blocks(seq_id: int, tables: BlockTables, num_tokens: int) -> list[int]:
    return []


def _override(part: object, name: str, method: Callable[..., Any]) -> None:
    """Replace a method of one object."""
    getattr(part, name)  # fails if the method was renamed or removed
    setattr(part, name, method)
