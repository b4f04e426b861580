"""Measurement of one run of a variant: the times of its requests, and sums over the engine's records.

An engine's run fills all fields, from its records and a clock; a peer's run only times and outputs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from engine.accounting.roofline import bytes_moved
from engine.bench.instances import InstancesWork
from engine.bench.tiers import Estimates
from engine.trace.busy_time import step_seconds
from engine.trace.operations import (
    Admit,
    Defer,
    Forget,
    Fork,
    Load,
    Lookup,
    LookupExternal,
    Medium,
    Preempt,
    Release,
    Store,
    Submit,
    SwapIn,
)
from engine.trace.records import FullCacheOutput, StepRecord, Work
from engine.trace.request_account import TokenTimes

Observer = Literal["none", "log", "capture"]  # what is recorded during a measured run


@dataclass(slots=True)
class RequestTimes(TokenTimes):
    """Times of a request, in seconds since the start of the run.

    Tokens of several sequences of a request at the same time count as one time.
    """

    late: bool = False


class StepParts(NamedTuple):
    """Parts of a step's time, seconds. `record`: after sampling, mainly the log."""

    schedule: float
    prepare: float
    forward: float
    sample: float
    record: float

    @property
    def own_share(self) -> float:
        """Share of the step outside the model's forward pass."""
        return 1 - self.forward / sum(self)


@dataclass(slots=True)
class EngineWork:
    """Sums over a run's records. A step counts as prefill or decode if all of its batch is."""

    num_steps: int = 0
    prefill_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_tokens: int = 0
    decode_seconds: float = 0.0
    decode_bytes: int = 0  # weights and KV moved by decode steps
    decode_steps: list[float] = field(default_factory=list)  # seconds each
    decode_parts: list[StepParts] = field(default_factory=list)
    decode_works: list[Work] = field(default_factory=list)  # of the steps in `decode_steps`
    prefill_steps: list[float] = field(default_factory=list)  # seconds each
    prefill_works: list[Work] = field(default_factory=list)
    computed_tokens: int = 0
    flops: int = 0
    bytes_moved: int = 0  # weights and KV, as `accounting.work` counts them
    kv_read_bytes: int = 0
    slots_held: int = 0  # summed over steps
    slots_wasted: int = 0
    tokens_held: int = 0
    tokens_logical: int = 0
    peak_blocks: int = 0
    peak_bytes: int = 0
    peak_running: int = 0
    refused_at_step: int | None = None  # first step that deferred a request for lack of blocks, or preempted one
    preemptions: int = 0
    recomputed_tokens: int = 0
    swapped_bytes: int = 0
    queried_tokens: int = 0  # of first admissions
    hit_tokens: int = 0
    external_tokens: Counter[Medium] = field(default_factory=Counter)  # loaded at first admissions, by tier
    loaded_bytes: int = 0
    stored_bytes: int = 0
    chose_compute: int = 0  # lookups that found blocks in a tier, where computing was estimated to be faster
    estimates: Estimates | None = None  # None: no tiers
    prompt_logprobs: list[float] = field(default_factory=list)
    output_logprobs: list[float] = field(default_factory=list)
    full: list[FullCacheOutput] = field(default_factory=list)  # of the compared outputs
    freed_blocks: int = 0  # blocks released because every head had evicted their tokens
    forgotten: int = 0  # evicted keys, summed over layers and KV heads
    kv_bytes_per_token: int = 0

    def add(self, record: StepRecord, elapsed: float) -> None:
        """Add a step's record; `elapsed`: seconds of the call of `step`."""
        self.num_steps += 1
        timing, memory = record.timing, record.memory
        seconds = step_seconds(timing)
        tokens = sum(len(entry.token_ids) for entry in record.batch)
        phases = {entry.phase for entry in record.batch}
        if phases == {"prefill"}:
            self.prefill_tokens += tokens
            self.prefill_seconds += seconds
            self.prefill_steps.append(seconds)
            self.prefill_works += [record.work] if record.work else []
        elif phases == {"decode"}:
            self.decode_tokens += tokens
            self.decode_seconds += seconds
            self.decode_bytes += bytes_moved(record.work)
            self.decode_steps.append(seconds)
            self.decode_works += [record.work] if record.work else []
            self.decode_parts.append(
                StepParts(timing.schedule, timing.prepare, timing.forward, timing.sample, elapsed - seconds)
            )
        self.computed_tokens += tokens
        if record.work is not None:
            self.flops += record.work.flops
            self.kv_read_bytes += record.work.kv_read_bytes
            self.bytes_moved += bytes_moved(record.work)
        self.slots_held += memory.blocks_held * memory.block_size
        self.slots_wasted += memory.slots_wasted
        self.tokens_held += memory.tokens_held
        self.tokens_logical += memory.tokens_logical
        self.peak_blocks = max(self.peak_blocks, memory.blocks_held)
        self.peak_bytes = max(self.peak_bytes, memory.bytes_held)
        self.peak_running = max(self.peak_running, len(record.batch))
        self.prompt_logprobs += [entry.logprob for entry in record.prompt_logprobs]
        self.output_logprobs += [output.logprob for output in record.outputs]
        for output in record.outputs:
            if output.full is not None:
                self.full.append(output.full)
        for op in record.ops:
            if isinstance(op, Release):
                self.freed_blocks += op.reason == "forgotten"
            elif isinstance(op, Forget):
                self.forgotten += sum(map(len, op.positions))
        self._add_operations(record)

    def _add_operations(self, record: StepRecord) -> None:
        resumed = {op.seq_id for op in record.ops if isinstance(op, Admit) and op.resumed}
        for op in record.ops:
            match op:
                case Lookup() if op.seq_id not in resumed:
                    self.queried_tokens += op.num_tokens
                    self.hit_tokens += op.num_hit_tokens
                case LookupExternal():
                    self._add_external_lookup(op, op.seq_id not in resumed, record.memory.block_size)
                case Load():
                    self.loaded_bytes += op.num_bytes
                case Store():
                    self.stored_bytes += op.num_bytes
                case Preempt():
                    self.preemptions += 1
                    self.recomputed_tokens += op.num_recompute_tokens
                    self.swapped_bytes += op.num_bytes
                    self._refuse()
                case SwapIn():
                    self.swapped_bytes += op.num_bytes
                case Defer(reason="no_free_blocks"):
                    self._refuse()
                case _:
                    pass

    def _add_external_lookup(self, op: LookupExternal, is_first: bool, block_size: int) -> None:
        self.chose_compute += op.verdict == "compute"
        if op.verdict == "load" and is_first:
            for medium in op.media:
                self.external_tokens[medium] += block_size

    def _refuse(self) -> None:
        if self.refused_at_step is None:
            self.refused_at_step = self.num_steps


@dataclass(slots=True)
class Measurement:
    """Measurement of a run. `outputs`: token ids of each request's outputs, in the order of the requests."""

    seconds: float  # from the first arrival to the last token
    requests: list[RequestTimes]
    outputs: list[list[list[int]]]
    work: EngineWork | None = None
    instances: InstancesWork | None = None  # None: a single engine, or a peer
    resident_bytes: int | None = None  # of its process, after the run; None: no separate process
    resident_loaded_bytes: int | None = None  # of its process, after loading and before the first run; None for peers
    peer_logprobs: list[float] = field(default_factory=list)  # of prompt tokens, in the peer's order

    @property
    def prompt_logprobs(self) -> list[float]:
        """Log probabilities of the prompts' tokens, if requested."""
        return self.work.prompt_logprobs if self.work is not None else self.peer_logprobs

    @property
    def num_output_tokens(self) -> int:
        return sum(len(output) for outputs in self.outputs for output in outputs)

    @property
    def counted_requests(self) -> list[RequestTimes]:
        """Requests whose latencies count: all except the late one."""
        return [request for request in self.requests if not request.late]


class Timeline:
    """Token times of requests, from an engine's records."""

    def __init__(self) -> None:
        self.requests: dict[str, RequestTimes] = {}
        self._owner: dict[int, str] = {}

    def submitted(self, request_id: str, seq_id: int, arrived: float, late: bool = False) -> None:
        """Add a submitted request, timed from its arrival, which may be earlier."""
        self.requests[request_id] = RequestTimes(arrived, late=late)
        self._owner[seq_id] = request_id

    def add(self, record: StepRecord, at: float) -> None:
        """Add a record that was complete at time `at`."""
        for op in record.ops:
            if isinstance(op, Submit) and op.seq_id not in self._owner:
                self.submitted(op.request_id, op.seq_id, at)
            elif isinstance(op, Fork):
                self._owner[op.seq_id] = op.request_id
        most: dict[str, int] = {}  # maximum of tokens over a request's sequences
        for seq_id, count in Counter(output.seq_id for output in record.outputs).items():
            most[self._owner[seq_id]] = max(count, most.get(self._owner[seq_id], 0))
        for request_id, count in most.items():
            self.requests[request_id].tokens.append(at)
            self.requests[request_id].num_more += count - 1
