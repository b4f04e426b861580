"""Fault injection: bugs that real engines have shipped, each injected into a running engine.

A fault replaces methods of the parts of one engine object (KV store, cache managers, scheduler, model runner), or the
connector between several; it reaches into their private fields to do so. The engine's own code contains no fault. It
reads `EngineConfig.fault` in two places: such a run never uses the compiled forward pass, and it accepts no chosen
tokens (`Engine.choose`).

A healthy engine raises when a guard or the integrity check finds an inconsistent state. A faulty one records the
finding in the log (`StepRecord.integrity`) and continues, so that its effect can be observed. Compared with a healthy
run of the same requests and settings under `enforce_eager`, the first difference is due to the fault.
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
from engine.config import FAULTS_OF_SEVERAL, EngineConfig, FaultName
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
    """Return an engine with the fault `config.fault`, or a healthy one for None. Arguments and errors as `Engine`."""
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
    """Write keys and values one slot after the one that is read."""
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
            with _Excused(cache, seq_id, start, num_tokens):
                write(seq_id, start, num_tokens)

    def cache_if_it_may(*args: Any) -> None:
        try:
            cache_blocks(*args)
        except ValueError as error:
            report(objection_of(error))

    for group in cache.groups:
        _override(group, "shared_before_write", _no_shared_blocks)
    _override(cache, "write", write_in_place)
    _override(cache, "cache_blocks", cache_if_it_may)


def stale_hash_after_reallocation(engine: Engine, report: Report) -> None:
    """Leave a reallocated block in the index under its old hash, so old prompts find new content."""
    prefixes = engine._cache.prefixes
    check_hits = prefixes.check_hits
    for group in engine._cache.groups:
        _override(group.pool, "allocate", _never_forgetting(group.pool))

    def trust_the_index(*args: Any) -> None:
        try:
            check_hits(*args)
        except ValueError as error:
            report(objection_of(error))

    _override(prefixes, "check_hits", trust_the_index)


def _never_forgetting(pool: BlockPool) -> Callable[[], tuple[Block, Eviction | None]]:
    """Wrap the pool's `allocate` to leave the evicted hash in the index."""
    allocate = pool.allocate

    def allocate_and_forget_nothing() -> tuple[Block, Eviction | None]:
        block, evicted = allocate()
        if evicted is not None:
            pool._enter_index(block.block_id, evicted.block_hash)
        return block, evicted

    return allocate_and_forget_nothing


def output_lost_at_preemption(engine: Engine, report: Report) -> None:
    """Resume a preempted sequence with its prompt and last token only; earlier output tokens are not recomputed."""
    preemption = engine._scheduler._preemption
    preempt = preemption.preempt

    def preempt_and_lose(victim: Sequence, *args: Any) -> None:
        preempt(victim, *args)
        lost = victim.num_tokens - victim.num_prompt_tokens
        # The last token remains as the next input; it now directly follows the prompt.
        if lost > 1:
            del victim.token_ids[victim.num_prompt_tokens : -1]

    _override(preemption, "preempt", preempt_and_lose)


def missing_causal_mask(engine: Engine, report: Report) -> None:
    """Let prompt tokens see later ones. Decoding is not affected: there is no token after the last."""
    runner = engine._runner
    runner.backend = _Unmasked(runner.backend)


def rope_restarted_at_chunk(engine: Engine, report: Report) -> None:
    """Restart positions at 0 in every chunk of a prompt, so that its keys are rotated as if it came first."""
    runner = engine._runner
    forward = runner.forward

    def forward_from_zero(batch: StepBatch, context: StepContext) -> Any:
        positions = batch.position_ids.clone()
        for span in batch.prefills:
            positions[0, span.begin : span.end] -= span.start
        batch.position_ids = positions
        return forward(batch, context)

    _override(runner, "forward", forward_from_zero)


class FreesTooEarly(TransferConnector):
    """Connector that frees held blocks too early, and then returns their current content."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "lease": 0.0})

    def read(self, transfer: str, wanted: Items[tuple[int, int]]) -> list[bytes]:
        """Return the current content of these blocks, of whichever sequence."""
        return [bytes(self._kv_caches[group].read([block_id])[0]) for group, block_id in wanted]

    def received(self, transfer: str, wanted: Items[tuple[int, int]], num_bytes: int) -> None:
        """No-op: the blocks are already freed."""


OF_SEVERAL: dict[FaultName, type[TransferConnector]] = {"read_after_release": FreesTooEarly}


def make_cluster(
    model: LoadedModel, config: EngineConfig, *, log_path: Path | None = None, capture: CaptureRequest | None = None
) -> Cluster:
    """Return instances in one thread with the fault `config.fault`, or healthy ones for None.

    Raises:
        ConfigError: as `local_cluster`.
    """
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
assert set(FAULTS) | set(OF_SEVERAL) == set(get_args(FaultName)) and set(OF_SEVERAL) == set(FAULTS_OF_SEVERAL)


class _Unmasked(AttentionBackend):
    """Attention backend without a causal mask in prefills."""

    def __init__(self, healthy: AttentionBackend) -> None:
        self._healthy = healthy

    def forward(
        self, call: AttentionCall, q: Any, store: Any, batch: StepBatch, needs_weights: bool
    ) -> AttentionOutput:
        for span in batch.prefills:
            reach = batch.reach(call.layer, call.sliding_window)
            keys = batch.prefill_keys(span, reach)
            seen = keys._replace(mask=keys.mask.new_zeros(keys.mask.shape))
            batch._prefill_keys[span.slice_index, reach] = seen
        return self._healthy.forward(call, q, store, batch, needs_weights)


class _Excused:
    """Step context in which blocks of some positions count as writable by the sequence, so that its write passes."""

    def __init__(self, cache: KVCacheManager, seq_id: int, start: int, num_tokens: int) -> None:
        size = cache.block_size
        tables = cache.block_tables(seq_id)
        ids = [i for table in tables for i in table[start // size : -(-(start + num_tokens) // size)]]
        self._promised = cache.promised
        self._excused = {block_id: seq_id for block_id in ids if block_id not in self._promised}

    def __enter__(self) -> None:
        self._promised.update(self._excused)

    def __exit__(self, *error: object) -> None:
        for block_id in self._excused:
            self._promised.pop(block_id, None)


def _no_shared_blocks(seq_id: int, tables: BlockTables, num_tokens: int) -> list[int]:
    return []


def _override(part: object, name: str, method: Callable[..., Any]) -> None:
    """Replace a method of one object."""
    getattr(part, name)  # fails if the method was renamed or removed
    setattr(part, name, method)
