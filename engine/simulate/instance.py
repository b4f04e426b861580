"""Simulated instance: an engine's scheduler and cache without a model, on a simulated clock.

Tokens are pseudorandom, and step times come from a `StepCost`. The engine's code makes all decisions: which sequence
runs, waits or is preempted, and which blocks hit or are evicted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from engine.accounting.memory import stored_bytes_per_token
from engine.accounting.work import StepWork
from engine.cache.block_groups import trace_groups
from engine.cache.kv_cache_manager import KVCacheManager
from engine.requests.load import Load
from engine.requests.request_spec import RequestSpec
from engine.scheduling.sequence import Sequence as Running
from engine.scheduling.step import ScheduledSequence, phase_of
from engine.scheduling.transfers import TransferFacts
from engine.setup.build_scheduler import build_scheduler
from engine.setup.id_namespace import SINGLE, IdNamespace
from engine.setup.resolve import Resolved
from engine.simulate.cost import StepCost, shape_of, windows_of
from engine.simulate.drawn import Tokens
from engine.simulate.transfer import SimulatedConnector
from engine.trace.disagg_ids import plain_id
from engine.trace.operations import Lookup, Op, Preempt
from engine.trace.records import (
    BatchEntry,
    InstanceRole,
    ModelFacts,
    Output,
    RecordKind,
    StepRecord,
    Timing,
    Work,
)

Records = Callable[[StepRecord], None]


class SimulatedInstance:
    """Scheduler and pool of a simulated instance.

    Args:
        facts: facts of the simulated model.
        resolved: settings, resolved for the model.
        cost: time of a step.
        tokens: source of sampled tokens.
        records: called with every record; None: no records are made, which is faster.
    """

    def __init__(
        self,
        name: str,
        role: InstanceRole,
        facts: ModelFacts,
        resolved: Resolved,
        cost: StepCost,
        tokens: Tokens,
        *,
        place: IdNamespace = SINGLE,
        records: Records | None = None,
        connector: SimulatedConnector | None = None,
    ) -> None:
        self.name, self.role = name, role
        self.num_threads = 0
        self.config = resolved.config.instance_config
        self.connector = connector
        self.is_ready = True
        self._facts, self._resolved, self._cost, self._tokens, self._records = facts, resolved, cost, tokens, records
        self._ops: list[Op] = []
        groups = place.plans(resolved.groups)
        dtype = self.config.kv_cache_dtype
        bytes_of_groups = [stored_bytes_per_token(replace(facts, num_layers=len(g.layers)), dtype) for g in groups]
        self.block_groups = trace_groups(groups, bytes_of_groups)
        size, caching = self.config.block_size, self.config.enable_prefix_caching
        self.cache = KVCacheManager(groups, size, caching, self._ops.append, resolved.swap_space, bytes_of_groups)
        self.scheduler = build_scheduler(self.config, self.cache, self._ops.append, connector)
        if connector is not None:
            connector.register(self.cache, bytes_of_groups)
        visible = replace(facts, sliding_windows=[reach.num_keys for reach in resolved.reaches])
        self._windows = windows_of(facts, self.config.policy)
        self._work = StepWork(visible, kv_bytes_per_token=sum(bytes_of_groups))
        self._next_seq_id, self._stride = place.first_seq_id, place.seq_id_stride
        self._num_records = self._num_steps = self._num_unfinished = 0
        self.num_preemptions = 0
        self.num_queried_tokens = self.num_hit_tokens = 0  # in the first prefix-cache lookup of each prompt
        self._looked_up: set[int] = set()  # sequences whose lookup was counted here or on their prefill instance
        self._scheduled: list[ScheduledSequence] = []
        self._batch: list[BatchEntry] = []

    @property
    def load(self) -> Load:
        scheduler, transfers = self.scheduler, self.scheduler.transfers
        return Load(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            receiving=len(transfers.receiving),
            holding=len(transfers.holding),
            unfinished=self._num_unfinished,
            can_step=scheduler.can_step,
        )

    @property
    def num_steps(self) -> int:
        return self._num_steps

    def submit(self, specs: Sequence[RequestSpec], at: float) -> list[Running]:
        """Queue requests, whose prompts are token ids, in one record.

        Raises:
            ValueError: a request does not fit the instance.
        """
        sequences = [self._sequence_of(spec) for spec in specs]
        for sequence in sequences:
            self.scheduler.add(sequence, [b""] * sequence.num_prompt_tokens, {"max_tokens": sequence.max_tokens})
            self._num_unfinished += 1
        self._append("submit", at)
        return sequences

    def _sequence_of(self, spec: RequestSpec) -> Running:
        max_tokens = spec.sampling.max_tokens
        assert not isinstance(spec.prompt, str) and spec.request_id is not None and max_tokens is not None
        seq_id = self._next_seq_id
        length = len(spec.prompt)
        if length + max_tokens > self._resolved.max_model_len:
            raise ValueError(
                f"{spec.request_id} has {length} prompt tokens and max_tokens {max_tokens}; max_model_len is "
                f"{self._resolved.max_model_len}"
            )
        self._next_seq_id += self._stride
        if spec.kv_role == "kv_consumer":
            self._looked_up.add(seq_id)
        return Running(
            seq_id=seq_id,
            request_id=spec.request_id,
            token_ids=list(spec.prompt),
            num_prompt_tokens=length,
            max_tokens=max_tokens,
            priority=spec.priority,
            arrival=seq_id,
            cache_salt=spec.cache_salt,
            transfer=spec.transfer,
            kv_role=spec.kv_role,
        )

    def begin_step(self, after_idle: bool = False) -> float:
        """Schedule a step and return its duration in seconds. The caller calls `end_step` after that time.

        `after_idle`: whether the instance was idle before the step.
        """
        self._scheduled = self.scheduler.schedule()
        if self._records is not None:
            self._batch = [_entry(*item) for item in self._scheduled]
        self.cache.take_moves()  # discarded, because there are no tensors
        return self._cost.seconds(
            shape_of([(start, count) for _, start, count in self._scheduled], self._windows, after_idle)
        )

    def end_step(self, at: float, seconds: float = 0.0) -> list[Running]:
        """End the step and return the sequences that sampled a token. `seconds`: duration, for the record."""
        scheduler, scheduled = self.scheduler, self._scheduled
        scheduler.commit(scheduled)
        sampled, outputs = list[Running](), list[Output]()
        for sequence, _, _ in scheduled:
            if sequence.num_computed_tokens != len(sequence.token_ids):
                continue
            token_id = self._tokens.at(plain_id(sequence.request_id), len(sequence.token_ids))
            scheduler.append_token(sequence, token_id)
            sampled.append(sequence)
            if self._records is not None:
                outputs.append(
                    Output(seq_id=sequence.seq_id, token_id=token_id, token_bytes=b"", text="", logprob=0.0, top=[])
                )
            if len(sequence.token_ids) - sequence.num_prompt_tokens == sequence.max_tokens:
                scheduler.finish(sequence, "length", f"max_tokens {sequence.max_tokens}")
                self._num_unfinished -= 1
        if self.config.strategy == "none":
            scheduler.discard([s for s in scheduler.running if s.num_computed_tokens])
        self._num_steps += 1
        work = self._work.of(self._batch) if self._records is not None else None
        self._append("step", at, batch=self._batch, outputs=outputs, seconds=seconds, work=work)
        return sampled

    def arrive(self, seq_id: int, facts: TransferFacts, at: float) -> None:
        """Complete a transfer to a waiting sequence's blocks."""
        self.scheduler.transfers.arrive(seq_id, facts)
        self._append("transfer", at)

    def sent(self, seq_id: int, block_ids: list[int], num_bytes: int, at: float) -> None:
        """Complete a transfer from a held sequence's blocks."""
        self.scheduler.transfers.sent(seq_id, block_ids, num_bytes)
        self._append("transfer", at)

    def _append(
        self,
        kind: RecordKind,
        at: float,
        *,
        batch: Sequence[BatchEntry] = (),
        outputs: Sequence[Output] = (),
        seconds: float = 0.0,
        work: Work | None = None,
    ) -> None:
        if self._records is not None:
            record = StepRecord(
                index=self._num_records,
                kind=kind,
                step=self._num_steps,
                batch=list(batch),
                ops=self._ops.copy(),
                outputs=list(outputs),
                timing=Timing(at=at, forward=seconds),
                memory=self.cache.memory(),
                work=work,
            )
            self._records(record)
        kinds = Counter(map(type, self._ops))
        self.num_preemptions += kinds[Preempt]
        if kinds[Lookup]:
            found = [op for op in self._ops if isinstance(op, Lookup) and op.seq_id not in self._looked_up]
            self._looked_up.update(op.seq_id for op in found)
            self.num_queried_tokens += sum(op.num_tokens for op in found)
            self.num_hit_tokens += sum(op.num_hit_tokens for op in found)
        self._ops.clear()
        self._num_records += 1
        self.cache.tick(self._num_records, self._num_steps)


def _entry(sequence: Running, start: int, num_tokens: int) -> BatchEntry:
    end = start + num_tokens
    return BatchEntry(
        seq_id=sequence.seq_id,
        phase=phase_of(sequence, start, num_tokens),
        start=start,
        token_ids=sequence.token_ids[start:end],
        context_len=end,
        samples=end == len(sequence.token_ids),
    )
