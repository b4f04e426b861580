"""Engine of a live model; a step is schedule -> prepare -> forward -> sample -> append record.

The engine composes the scheduler, the KV cache manager and the model runner, and records their operations. It is not
thread-safe: one thread owns an engine. The log may be read from any thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Sequence as Items
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, cast

from msgspec.structs import replace

from engine.accounting.work import StepWork
from engine.cache.ablate_settings import read_ablation
from engine.cache.block_groups import trace_groups
from engine.cache.block_moves import BlockMoves
from engine.cache.block_tiers import BlockTiers
from engine.cache.kv_cache_manager import KVCacheManager
from engine.cache.kv_plane import NewPool, zeros
from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.connector.base import KVConnector, Received
from engine.connector.link import TransferError
from engine.model.ablation import Ablation
from engine.model.batch import SequenceSlice
from engine.model.capture import CaptureRequest
from engine.model.copies import CopyCounter
from engine.model.device import out_of_memory
from engine.model.forgetting.attention import ForgettingAttention
from engine.model.forgetting.forgetting import Forgetting, ReplayedForgetting
from engine.model.forgetting.full_cache import FullCache, compare, last_rows
from engine.model.loaded import LoadedModel
from engine.model.recompute import Recomputed, RecomputeError, recompute_sequence
from engine.model.runner import ForwardResult, ModelRunner
from engine.model.served_check import check_kv_cache_dtype
from engine.options.refusal import sentence
from engine.requests.input_processor import InputProcessor
from engine.requests.load import Load as EngineLoad
from engine.requests.output_processor import OutputProcessor
from engine.requests.request import Request
from engine.requests.request_spec import RequestError, RequestSpec
from engine.scheduling.progress import NoProgressError
from engine.scheduling.speculation import Drafter, Speculation
from engine.scheduling.step import ScheduledSequence, phase_of
from engine.scheduling.transfers import TransferFacts
from engine.setup.build_scheduler import build_scheduler
from engine.setup.device_pool import with_pool
from engine.setup.header import header_of
from engine.setup.id_namespace import SINGLE, IdNamespace
from engine.setup.resolve import resolve_for
from engine.speculate.build import build_drafter
from engine.speculate.settings import speculative_of
from engine.trace.deferred_append import DeferredAppend, Records
from engine.trace.log import TraceWriter
from engine.trace.operations import Adjust, Choose, Keep, KVRole, Op
from engine.trace.records import (
    BatchEntry,
    CacheTensors,
    Capture,
    Header,
    KeyScores,
    LayerCapture,
    Objection,
    Output,
    PromptLogprob,
    RecordKind,
    StepRecord,
    Timing,
    Work,
)
from engine.trace.redaction import Redaction
from engine.trace.snapshot import Snapshot

FEWER_TOKENS = sentence("memory.fewer_tokens")


class NothingToDo(RuntimeError):
    """`Engine.step` was called while no sequence is waiting or running."""


class Engine:
    """Model with a block pool and a scheduler; the caller runs each step.

    Args:
        model: the model, which several engines may share.
        config: settings, which are resolved against the model.
        log_path: file of the trace; None = a temporary file that is deleted with the engine.
        capture: arrays to record; None = none. May be set between steps.
        connector: access to keys and values outside the pool; None = none.
        keep_log: False writes no trace (`log` is None), for benchmarks of the engine itself.
        place: first ids, if several engines share a log.
        records: receives every record and its arrays instead of a log (`log` is None).
        new_pool: allocates the tensors of the pool; by default in this process's memory.

    Raises:
        ConfigError: the model does not support the settings.
        ModelError: the model computes other results with this kind of cache.
    """

    def __init__(
        self,
        model: LoadedModel,
        config: EngineConfig,
        *,
        log_path: Path | None = None,
        capture: CaptureRequest | None = None,
        connector: KVConnector | None = None,
        keep_log: bool = True,
        place: IdNamespace = SINGLE,
        records: Records | None = None,
        new_pool: NewPool = zeros,
    ) -> None:
        self.model = model
        if config.num_instances:
            raise ConfigError(sentence("instances.engine"))
        resolved = resolve_for(with_pool(config, model), model.facts)
        groups = place.plans(resolved.groups)
        self.config = resolved.config
        self.capture = capture
        self._inputs = InputProcessor(model, resolved)
        self._ops: list[Op] = []
        check_kv_cache_dtype(model, self.config.kv_cache_dtype)
        forget_settings = self.config.forgetting
        self._forgetting = None if forget_settings is None else Forgetting(forget_settings, model)
        self._runner = ModelRunner(
            model,
            resolved.num_blocks,
            self.config.block_size,
            resolved.max_model_len,
            self.config.kv_cache_dtype,
            ForgettingAttention(self._forgetting) if self._forgetting else None,
            swap_space=resolved.swap_space,
            policy=self.config.policy,
            groups=groups,
            by_sequence=self.config.by_sequence,
            new_pool=new_pool,
            max_graph_size=0 if self._is_eager else self.config.max_cudagraph_capture_size,
        )
        size = self.config.max_num_seqs, resolved.max_model_len
        self._full_cache = FullCache(model, *size, self.config.kv_cache_dtype) if self.config.forget_compare else None
        self._kv_bytes_per_token = self._runner.kv_store.bytes_per_token
        bytes_of_groups = [self._runner.kv_store.bytes_per_token_of(group.layers) for group in groups]
        # the work of a step depends only on the number of keys that a query sees
        windowed_facts = replace(model.facts, sliding_windows=[reach.num_keys for reach in resolved.reaches])
        self._work = StepWork(windowed_facts, kv_bytes_per_token=self._kv_bytes_per_token)
        self.block_groups = trace_groups(groups, bytes_of_groups)
        self._cache = KVCacheManager(
            groups,
            self.config.block_size,
            self.config.enable_prefix_caching,
            self._ops.append,
            resolved.swap_space,
            bytes_of_groups,
        )
        if connector is not None and (self.config.strategy != "paged" or self.config.fault is not None):
            raise ConfigError(sentence("tiers.strategy"))
        if connector is not None and self._forgetting:
            raise ConfigError(sentence("tiers.forget"))
        self._connector = connector or KVConnector()
        self._connector.register_kv_caches(self._cache, self._runner.kv_caches, self._ops.append)
        self._scheduler = build_scheduler(self.config, self._cache, self._ops.append, connector)
        self._outputs = OutputProcessor(model, self.config, self._scheduler, self._ops.append, place)
        self._drafter: Drafter | None = None
        if speculative := speculative_of(self.config):
            self._drafter = build_drafter(speculative, model, self.config, partial(Engine, keep_log=False))
            self._scheduler.speculation = Speculation(
                self._drafter,
                speculative.num_speculative_tokens,
                self._cache,
                self._outputs.token_bytes,
                self._ops.append,
            )
        offs = read_ablation(self.config.ablate)
        self._ablation = Ablation(offs) if offs else None
        self._cache.prefixes.marks = self._ablation
        self._stride = place.seq_id_stride
        self._num_requests = 0
        self._num_records = 0
        self._num_steps = 0
        self._began = time.perf_counter() if place.began is None else place.began
        redact = Redaction() if self.config.private else None
        keep_log = keep_log and records is None
        self.log: TraceWriter | None = TraceWriter(self.header(), log_path, redact) if keep_log else None
        append = self.log.append if self.log is not None else records
        self._deferred = DeferredAppend(append) if append is not None else None
        # on the CPU no device works in parallel to appending a record (engine/trace/deferred_append.py)
        self._defers_records = self.config.async_scheduling and not self._runner.copies.on_host
        self._ablate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the log and the connector."""
        self._connector.close()
        try:
            if self._drafter is not None:
                self._drafter.close()
            self.rest()
        finally:
            if self.log is not None:
                self.log.close()

    def rest(self) -> None:
        """Append the record of the last step, if it is deferred (`step`).

        Raises:
            OSError: see `TraceWriter.append`.
        """
        if self._deferred is not None:
            self._deferred.flush()

    def release(self) -> None:
        """Free the pool's tensors; no step may follow. The log stays open."""
        self._runner.kv_store.release()
        self._full_cache = None
        if self._drafter is not None:
            self._drafter.close()
        if self._forgetting:
            self._forgetting.release()

    def disconnect(self) -> None:
        """Close the connector and use one without external blocks."""
        self._connector.close()
        self._connector = self._scheduler.connector = KVConnector()

    def add_request(
        self,
        prompt: str | list[int],
        sampling: SamplingParams | None = None,
        request_id: str | None = None,
        priority: int = 0,
        cache_salt: str | None = None,
        client: str | None = None,
        waited: float = 0.0,
        transfer: str | None = None,
        kv_role: KVRole | None = None,
    ) -> Request:
        """Queue a request. See `add_requests`, and `RequestSpec` for the arguments."""
        sampling = sampling or SamplingParams()
        spec = RequestSpec(prompt, sampling, request_id, priority, cache_salt, client, waited, transfer, kv_role)
        return self.add_requests([spec])[0]

    def add_requests(self, specs: Items[RequestSpec], *, eager: bool = False) -> list[Request]:
        """Queue several requests in one record; all are accepted or none.

        If no request is unfinished, this selects the forward pass until all requests are finished: the compiled one if
        `model.compiled` is ready, else the eager one. It never changes within a sequence, because logits would differ
        in their last bits. `timing.compiled` of each step's record states which one was used.

        Args:
            eager: select the eager pass, which `config.enforce_eager` and a fault do for the entire run. A rerun sets
            it where its log used the eager pass. No effect while a request is unfinished.

        Raises:
            RequestError: a request is empty or too long for the model or the pool, or its id is in use.
            ConfigError: a sampling parameter is out of range.
        """
        outputs = self._outputs
        if not outputs.requests:
            eager = eager or self._is_eager or self._runner.ablation is not None
            eager = eager or self.config.by_sequence is not None  # compiled code writes to blocks
            compiled = None if eager else self.model.compiled
            serves = compiled is not None and compiled.serves(self.config.kv_cache_dtype)
            self._runner.compiled = compiled if serves else None
            self._runner.uses_graphs = not eager
        requests = self._accepted(specs)
        self._num_requests += len(requests)
        for request in requests:
            outputs.add(request)
            self._scheduler.add(
                request.sequence,
                prompt_token_bytes=[outputs.token_bytes(i) for i in request.sequence.token_ids],
                sampling=request.sampling.as_map(),
            )
        if requests:
            at = time.perf_counter() - self._began
            self._append_record("submit", timing=Timing(at=at, tokenize=self._inputs.tokenize_seconds))
        return requests

    @property
    def _is_eager(self) -> bool:
        return self.config.enforce_eager or self.config.fault is not None

    def check_requests(self, specs: Items[RequestSpec]) -> None:
        """Raise the errors that `add_requests` would raise, without queueing requests."""
        self._accepted(specs)

    def _accepted(self, specs: Items[RequestSpec]) -> list[Request]:
        outputs = self._outputs
        return self._inputs.accept(specs, outputs.next_seq_id, self._num_requests, set(outputs.requests), self._stride)

    def abort(self, request_id: str) -> bool:
        """Abort a request. Returns False if it is unknown or already finished."""
        request = self._outputs.requests.get(request_id)
        if request is None:
            return False
        self._outputs.end(request, "abort", "")
        self._drop_caches()
        self._append_record("abort")
        return True

    def keep(self, seq_id: int, position: int) -> None:
        """Pin a token of a sequence, so that no head forgets it; another token is forgotten instead.

        Raises:
            RequestError: the engine has no forget_policy, or the sequence is finished, has no such token, or has
                forgotten it.
        """
        if self._forgetting is None:
            raise RequestError(sentence("keep.no_policy"))
        completion = self._outputs.live.get(seq_id)
        if completion is None:
            raise RequestError(sentence("keep.not_alive", seq_id=seq_id))
        if wrong := self._forgetting.cannot_keep(seq_id, position, len(completion.sequence.token_ids)):
            raise RequestError(wrong)
        self._ops.append(Keep(seq_id=seq_id, position=position))
        self._append_record("adjust")

    def choose(self, seq_id: int, token_id: int, position: int | None = None) -> None:
        """Set the token at a future position (None: the next one), which replaces the sampler's token.

        Raises:
            RequestError: the sequence is finished or a beam, or there is no such token or position.
        """
        completion = self._outputs.live.get(seq_id)
        if completion is None:
            raise RequestError(sentence("choose.not_alive", seq_id=seq_id))
        if completion.beam is not None:
            raise RequestError(sentence("choose.beam"))
        if self.config.fault is not None:
            raise RequestError(sentence("choose.fault"))
        sequence = completion.sequence
        at = len(sequence.token_ids) if position is None else position
        end = sequence.num_prompt_tokens + sequence.max_tokens
        if not len(sequence.token_ids) <= at < end:
            raise RequestError(
                sentence("choose.position", at=at, num_token_ids=len(sequence.token_ids), number=end - 1)
            )
        if not 0 <= token_id < self.model.facts.vocab_size:
            raise RequestError(sentence("choose.token", token_id=token_id, number=self.model.facts.vocab_size - 1))
        completion.chosen[at] = token_id
        token_bytes = self._outputs.token_bytes(token_id)
        self._ops.append(Choose(seq_id=seq_id, position=at, token_id=token_id, token_bytes=token_bytes))
        self._append_record("adjust")

    def adjust(self, request_id: str, sampling: SamplingParams) -> None:
        """Change the sampling parameters of an unfinished request.

        Raises:
            RequestError: the request is unknown or finished, or a parameter cannot be changed.
            ConfigError: a parameter is out of range.
        """
        request = self.request(request_id)
        if request is None:
            raise RequestError(sentence("request.unknown", request_id=request_id))
        max_tokens = self._inputs.adjusted_max_tokens(request, sampling)
        request.adjust(sampling, max_tokens)
        self._ops.append(
            Adjust(
                request_id=request_id,
                seq_ids=[completion.sequence.seq_id for completion in request.unfinished],
                max_tokens=max_tokens,
                sampling=sampling.as_map(),
            )
        )
        self._append_record("adjust")

    def request(self, request_id: str) -> Request | None:
        """Return the unfinished request of that id, or None."""
        return self._outputs.requests.get(request_id)

    @property
    def num_steps(self) -> int:
        """Number of steps so far."""
        return self._num_steps

    def has_unfinished(self) -> bool:
        """Return whether any request is unfinished."""
        return bool(self._outputs.requests)

    @property
    def num_unfinished(self) -> int:
        """Number of requests with a waiting or running sequence."""
        return len(self._outputs.requests)

    @property
    def queue_lengths(self) -> tuple[int, int]:
        """Numbers of running and of waiting sequences."""
        return len(self._scheduler.running), len(self._scheduler.waiting)

    @property
    def load(self) -> EngineLoad:
        """Pending work."""
        scheduler, transfers = self._scheduler, self._scheduler.transfers
        return EngineLoad(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            receiving=len(transfers.receiving),
            holding=len(transfers.holding),
            unfinished=len(self._outputs.requests),
            can_step=scheduler.can_step,
        )

    @property
    def kv_caches(self) -> list[BlockTiers]:
        """Tensors of each group of layers."""
        return self._runner.kv_caches

    def prefill_pending(self) -> bool:
        """Return whether the prompt of some request is not completely computed."""
        return any(not r.sequence.has_output for r in self._outputs.requests.values())

    def step(self, goes_on: bool = False) -> StepRecord:
        """Run one step and append its record.

        `goes_on`: another step or `rest` follows at once. Under `async_scheduling` the record is then appended
        during the forward pass of that step.

        Raises:
            NothingToDo: no request is unfinished, or all wait for another instance.
            NoProgressError: no sequence made progress in many steps. Every request is aborted, except those that have
                received or await blocks of another instance and can restart.
            OutOfMemory: the step needs more memory; the message states the sizes and the remedy.
            Exception: the step failed. The requests of its batch are aborted, and effects on other sequences are
                undone (`_undo_step`); the engine and its log remain consistent.
        """
        if not self._scheduler.can_step:
            raise NothingToDo("nothing to do: no request is waiting or running")
        counter = CopyCounter(self._runner.cache_tensors()) if self.config.count_copies else None
        t0 = time.perf_counter()
        # 1) schedule: which sequences compute which tokens, in which blocks
        try:
            scheduled = self._scheduler.schedule()
        except NoProgressError as error:
            self._undo_step([*self._outputs.live], [], [], error)
            self._append_record("abort")
            raise
        drafting = time.perf_counter()
        try:
            scheduled = self._scheduler.add_drafts()
        except Exception as error:  # blocks of the batch are promised, but no pass will fill them
            transfers = self._connector.build_connector_meta(self._ops)
            unloaded = [block_id for _, block_id, _ in transfers.loads]
            self._undo_step([s.seq_id for s, _, _ in scheduled], self._cache.take_moves(), unloaded, error)
            self._append_record("abort")
            raise
        drafted = time.perf_counter() - drafting if self._drafter else 0.0
        slices, batch = self._pack(scheduled)
        t1 = time.perf_counter()
        # 2) prepare: moves first, so that blocks are copied and swapped before they are overwritten
        moves = unmoved = self._cache.take_moves()
        transfers = self._connector.build_connector_meta(self._ops)
        unloaded, is_computed = [block_id for _, block_id, _ in transfers.loads], False
        try:
            self._runner.move_blocks(moves)
            unmoved, moved = [], time.perf_counter()
            self._connector.start_load_kv(transfers)
            unloaded, loaded = [], time.perf_counter()
            # 3) forward: every layer writes K and V to the slots, then attends over the blocks
            if self._forgetting:
                self._forgetting.begin(slices, [sequence.num_prompt_tokens for sequence, _, _ in scheduled])
            result = self._runner.execute(slices, self.capture)
            self.rest()  # during the queued forward pass
            t2 = loaded + result.prepare_seconds
            self._scheduler.commit(scheduled)
            is_computed, committed = True, time.perf_counter()
            self._forget(slices)
            self._connector.wait_for_save(transfers)
            saved = time.perf_counter()
            full = self._full_cache.logits(slices, [s.token_ids for s, _, _ in scheduled]) if self._full_cache else {}
            compared = time.perf_counter() - saved
            # 4) sample: tokens, forks, finished sequences
            outputs, prompt_logprobs = self._outputs.process(slices, result.logits)
            if full:
                sampled = time.perf_counter()
                own = last_rows(slices, result.logits)
                outputs = compare(outputs, self._ops, own, full, self._outputs.token_bytes)
                compared += time.perf_counter() - sampled
            forward = self._runner.copies.seconds(*result.forward_marks)
        except Exception as error:
            self._undo_step([s.seq_id for s, _, _ in scheduled], unmoved, unloaded, error)
            if is_computed:
                self._num_steps += 1
                self._append_record("step", batch=batch, work=self._work.of(batch, result.left_out))
            else:
                self._append_record("abort")
            if shortage := out_of_memory(error, self.model.device, sentence("memory.step"), FEWER_TOKENS):
                raise shortage from error
            raise
        if self.config.strategy == "none":
            self._scheduler.discard([s for s in self._scheduler.running if s.num_computed_tokens])
        t4 = time.perf_counter()
        self._num_steps += 1
        if batch and all(entry.phase == "prefill" for entry in batch):
            self._connector.note_prefill(sum(len(entry.token_ids) for entry in batch), forward)
        copied = counter.compare(self._runner.cache_tensors(), self._runner.copied_bytes(moves)) if counter else None
        self._drop_caches()
        return self._append_record(
            "step",
            batch=batch,
            outputs=outputs,
            prompt_logprobs=prompt_logprobs,
            timing=Timing(
                at=t4 - self._began,
                schedule=t1 - t0,
                draft=drafted,
                prepare=t2 - t1,
                forward=forward,
                sample=t4 - t2 - forward - compared,
                transfer=(loaded - moved) + (saved - committed),
                detokenize=self._outputs.detokenize_seconds,
                compiled=self._runner.compiled is not None,
                threads=self._runner.reduced_threads,
            ),
            work=self._work.of(batch, result.left_out),
            cache_tensors=copied,
            capture=partial(self._captured, self._num_records, self.capture.dtype, result, self._scored())
            if self.capture and self._deferred is not None
            else None,
            is_last=not (goes_on and self._defers_records and self._scheduler.can_step),
        )

    def _scored(self) -> list[KeyScores]:
        return self._forgetting.key_scores() if self._forgetting else []

    @staticmethod
    def _captured(
        index: int, dtype: Literal["float16", "float32"], result: ForwardResult, scored: list[KeyScores]
    ) -> Capture:
        layers = cast(list[LayerCapture], result.layers)  # may be another sequence, such as EncodedLayers
        return Capture(index=index, dtype=dtype, layers=layers, omitted=result.omitted, scores=scored)

    def take_transfers(self) -> StepRecord | None:
        """Process finished transfers between steps. Returns their record, or None if there are none.

        If a transfer failed, the sequence is recomputed here or its request is aborted, by the connector's `policy`.
        """
        finished, transfers = self._connector.get_finished(), self._scheduler.transfers
        placed = [self._store_received(one) if one.seq_id in transfers.receiving else one for one in finished.received]
        for received in placed:
            if received.seq_id not in transfers.receiving:
                continue  # the request was aborted
            if received.error is not None:
                self._fail_transfer(received.seq_id, received.error)
                continue
            began, ended = received.began - self._began, received.ended - self._began
            transfers.arrive(received.seq_id, TransferFacts(received.num_bytes, received.link, began, ended))
        for sent in finished.sent:
            transfers.sent(sent.seq_id, sent.block_ids, sent.num_bytes)
        for seq_id in finished.expired:
            transfers.expire(seq_id)
        record = self._append_record("transfer") if self._ops else None
        for received in placed:
            self._connector.placed(received)
        return record

    def _store_received(self, received: Received) -> Received:
        """Write received content into its blocks; return `received`, with an error if that failed."""
        try:
            for group, cache in enumerate(self._runner.kv_caches):
                cache.write([(block_id, data) for index, block_id, data in received.contents if index == group])
        except Exception as error:  # raising it would lose the transfer, and the sequence would wait forever
            return received._replace(contents=[], error=TransferError("lost", f"{type(error).__name__}: {error}"))
        return received

    @property
    def can_step(self) -> bool:
        """Whether a step could make progress. False while every unfinished sequence waits for another instance."""
        return self._scheduler.can_step

    def recompute_attention(
        self,
        seq_id: int,
        layer: int | None,
        heads: Items[int] | None = None,
        num_tokens: int | None = None,
        residual: int = 0,
    ) -> Recomputed:
        """Recompute a sequence's first `num_tokens` tokens (None: all) in one pass without the cache.

        Returns the arrays of `layer` (None: of all layers). With `residual` > 0, which requires a layer, it also
        returns the residual stream of the last token and the layer's logit lens at the last `residual` positions. Pool,
        log, requests and sampler are not modified.

        Raises:
            RecomputeError: there is no such sequence, or it has fewer tokens than requested, or there are too many to
                compute at once.
        """
        if self.config.private:
            raise RecomputeError(sentence("private"))
        self.rest()
        live = self._outputs.live.get(seq_id)
        # only the log has finished sequences and forgotten keys
        needs_log = self.log is not None and (live is None or self._forgetting is not None)
        logged = self.log.state_now().sequences.get(seq_id) if self.log is not None and needs_log else None
        if live is None and logged is None:
            raise RecomputeError(sentence("sequence.none", seq_id=seq_id))
        token_ids = live.sequence.token_ids if live is not None else logged.token_ids if logged is not None else []
        count = len(token_ids) if num_tokens is None else num_tokens
        if count > len(token_ids):
            raise RecomputeError(sentence("sequence.tokens", seq_id=seq_id, num_token_ids=len(token_ids), count=count))
        forgetting = None
        if self._forgetting and logged is not None:
            forgetting = ReplayedForgetting(seq_id, logged.forgotten, self._forgetting)
        settings = self.config.kv_cache_dtype, self.config.policy
        arguments = layer, heads, *settings, forgetting, residual, self._ablation
        return recompute_sequence(self.model, seq_id, token_ids[:count], *arguments)

    def snapshot(self) -> Snapshot:
        """Return the live objects' tables, counts and queues, which always equal `snapshot_of(log.state_now())`."""
        pool = self._cache.snapshot()
        return Snapshot(
            block_tables=pool.block_tables,
            num_computed_tokens={i: c.sequence.num_computed_tokens for i, c in self._outputs.live.items()},
            ref_counts=pool.ref_counts,
            block_hashes=pool.block_hashes,
            free_queues=pool.free_queues,
            waiting=[s.seq_id for s in self._scheduler.waiting],
            running=[s.seq_id for s in self._scheduler.running],
            memory=self._cache.memory(),
            receiving=list(self._scheduler.transfers.receiving),
            holding=list(self._scheduler.transfers.holding),
            cpu_block_tables=pool.cpu_block_tables,
        )

    def check_integrity(self) -> None:
        """Raise IntegrityError if the cache's data structures are inconsistent."""
        self._cache.check_integrity()

    def _drop_caches(self) -> None:
        """Free the caches of finished sequences, under strategies with a cache per sequence."""
        if self._runner.sequence_caches is not None:
            running = (sequence for sequence in self._scheduler.running if sequence.num_computed_tokens)
            self._runner.sequence_caches.keep_only({sequence.seq_id for sequence in running})

    def _pack(self, scheduled: list[ScheduledSequence]) -> tuple[list[SequenceSlice], list[BatchEntry]]:
        """Return a step's slices for the runner, and its batch for the log."""
        slices: list[SequenceSlice] = []
        batch: list[BatchEntry] = []
        block_tables = self._cache.block_tables
        for sequence, start, num_tokens in scheduled:
            seq_id, end = sequence.seq_id, start + num_tokens
            drafts = sequence.draft_token_ids
            token_ids, samples = sequence.token_ids[start:end] + drafts, end - len(drafts) == len(sequence.token_ids)
            all_logits = sequence.skip_reading_prefix_cache and self._outputs.wants_all_logits(seq_id, start)
            tables = block_tables(seq_id)
            slices.append(SequenceSlice(seq_id, token_ids, start, tables, samples, all_logits, len(drafts)))
            phase = phase_of(sequence, start, num_tokens)
            batch.append(
                BatchEntry(
                    seq_id=seq_id, phase=phase, start=start, token_ids=token_ids, context_len=end, samples=samples
                )
            )
        return slices, batch

    def _forget(self, slices: list[SequenceSlice]) -> None:
        """Forget keys by the scores of the forward pass, and release blocks that no head sees."""
        if self._forgetting is None:
            return
        self._ops += self._forgetting.decide()
        for piece in slices:
            end = piece.start + len(piece.token_ids)
            layers = [group.layers for group in self.block_groups]
            unseen = [self._forgetting.unseen(piece.seq_id, own, end, self.config.block_size) for own in layers]
            self._cache.release_forgotten(piece.seq_id, unseen)

    def _undo_step(self, batch: list[int], unmoved: Items[BlockMoves], unloaded: Items[int], error: Exception) -> None:
        """Undo a failed step, so that no sequence continues with a block that the step did not fill.

        The batch is aborted, and every other sequence that holds such a block releases it: if it awaits blocks of
        another instance its transfer fails, else it is aborted. A sequence whose blocks are held for another instance
        has only computed blocks. Pending saves of the connector are dropped.
        """
        affected, detail = self._cache.take_back(unmoved, unloaded), f"the step failed: {type(error).__name__}"
        for seq_id in [*batch, *sorted(affected)]:
            completion = self._outputs.live.get(seq_id)
            if completion is None:
                continue  # its request was already ended because of another sequence
            if self._scheduler.transfers.awaited(seq_id):
                self._fail_transfer(seq_id, TransferError("step_failed", detail))
            else:
                self._outputs.end(self._outputs.requests[completion.sequence.request_id], "abort", detail)

    def _fail_transfer(self, seq_id: int, error: TransferError) -> None:
        """Fail a transfer: by the connector's policy the sequence is recomputed here, or its request is aborted."""
        sequence = self._scheduler.transfers.fail(seq_id, error.reason, error.detail)
        self._connector.transfer_failed(sequence)
        sequence.kv_role = None
        if self._connector.policy == "fail":
            request = self._outputs.requests[sequence.request_id]
            self._outputs.end(request, "abort", f"its keys and values did not arrive: {error}")

    def _append_record(
        self,
        kind: RecordKind,
        *,
        batch: list[BatchEntry] | None = None,
        outputs: list[Output] | None = None,
        prompt_logprobs: list[PromptLogprob] | None = None,
        timing: Timing | None = None,
        work: Work | None = None,
        cache_tensors: CacheTensors | None = None,
        capture: Callable[[], Capture] | None = None,
        integrity: list[Objection] | str = "",
        is_last: bool = True,
    ) -> StepRecord:
        record = StepRecord(
            index=self._num_records,
            kind=kind,
            step=self._num_steps,
            batch=batch or [],
            ops=self._ops.copy(),
            outputs=outputs or [],
            prompt_logprobs=prompt_logprobs or [],
            timing=timing or Timing(at=time.perf_counter() - self._began),
            memory=self._cache.memory(),
            work=work,
            cache_tensors=cache_tensors,
            has_capture=capture is not None,
            tiers=self._connector.figures(),
            integrity=integrity,
        )
        for follower in (self._forgetting, self._full_cache):
            if follower is not None:
                follower.follow(self._ops)
        self._ops.clear()
        self._num_records += 1
        self._ablate()
        self._cache.tick(self._num_records, self._num_steps)
        if self._deferred is not None:
            self._deferred.put(record, capture, is_last)
        return record

    def _ablate(self) -> None:
        """Begin the ablations of `config.ablate` that are due at this record."""
        if self._ablation is None:
            return
        num_computed = {i: one.sequence.max_computed_tokens for i, one in self._outputs.live.items()}
        if self._ablation.begin(self._num_records, self._outputs.next_seq_id, num_computed):
            self._runner.ablation, self._runner.compiled, self._runner.uses_graphs = self._ablation, None, False
            for seq_id, count in num_computed.items():
                if chain := self._cache.prefixes.chains.get(seq_id):
                    chain.cut(count)

    def header(self) -> Header:
        """Return the header of a log with this engine only."""
        return header_of(self.model, self.config, self.block_groups)
