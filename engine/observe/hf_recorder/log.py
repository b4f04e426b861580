"""Trace of recorded passes: one submission per `generate` call, one step per pass, and a common end of all rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from engine import __version__
from engine.accounting.memory import kv_bytes_per_token
from engine.accounting.work import StepWork
from engine.cache.block_groups import one_group
from engine.cache.kv_cache_manager import KVCacheManager
from engine.model.detokenizer import IncrementalDetokenizer
from engine.model.sampling import Sampled
from engine.model.tokenizer import Tokenizer
from engine.setup.machine import machine_facts
from engine.trace.log import TraceWriter
from engine.trace.operations import Admit, Finish, FinishReason, Op, Sample, Submit
from engine.trace.records import (
    BatchEntry,
    Candidate,
    Capture,
    Header,
    LayerCapture,
    ModelFacts,
    Output,
    RecordKind,
    StepRecord,
    Timing,
    TokenizerFacts,
)


@dataclass
class Row:
    """Row of the batch. `tokens`: without padding; `ended`: an end token was sampled."""

    prompt: list[int]
    tokens: list[int]
    ended: bool = False


@dataclass
class Pass:
    """Forward pass over columns [num_before, num_before + num_tokens) of the padded batch."""

    num_tokens: int
    num_before: int
    chosen: dict[int, Sampled] = field(default_factory=dict)  # sampled tokens by row
    layers: list[LayerCapture] = field(default_factory=list)  # their `seq_id` is the row's index
    omitted: bool = False  # whether a layer exceeded the capture budget
    timing: Timing | None = None


@dataclass
class Generated:
    """A `generate` call and its recorded passes."""

    at: float
    rows: list[Row]
    passes: list[Pass]
    max_tokens: int
    eos_token_ids: set[int]
    prompts: list[list[int]]  # per row, before num_return_sequences repeats them
    width: int  # columns of the padded prompt
    failed: bool = False


def write_log(
    facts: ModelFacts, tokenizer: Tokenizer | None, runs: list[Generated], model: Any, path: str | Path
) -> None:
    """Write the trace of consecutive `runs` to `path`."""
    num_slots = max(sum(len(row.tokens) for row in run.rows) for run in runs)
    per_token = kv_bytes_per_token(facts)
    header = Header(
        generator=f"kvtheater {__version__}, watching transformers generate",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        model=facts,
        tokenizer=TokenizerFacts(
            name=facts.name if tokenizer else "",
            vocab_size=tokenizer.vocab_size if tokenizer else facts.vocab_size,
            eos_token_ids=sorted(set().union(*(run.eos_token_ids for run in runs))),
        ),
        engine={
            "strategy": "dynamic",
            "block_size": 1,
            "num_blocks": num_slots,
            "max_model_len": facts.max_position,
            "max_num_seqs": max(len(run.rows) for run in runs),
            "max_num_batched_tokens": max(len(run.rows) * p.num_tokens for run in runs for p in run.passes),
            "enable_prefix_caching": False,
            "kv_cache_dtype": "auto",
        },
        kv_bytes_per_token=per_token,
        machine=machine_facts(model.device, model.dtype),
    )
    with TraceWriter(header, path) as log:
        cache = KVCacheManager(
            one_group(num_slots), 1, False, lambda op: writer.ops.append(op), kv_bytes_per_token=[per_token]
        )
        writer = _Writer(log, facts, tokenizer, cache)
        for run in runs:
            writer.write(run)


class _Writer:
    """Writes the records. Calls the cache manager as the engine does."""

    def __init__(self, log: TraceWriter, facts: ModelFacts, tokenizer: Tokenizer | None, cache: KVCacheManager) -> None:
        self._log, self._tokenizer, self._cache = log, tokenizer, cache
        self._work = StepWork(facts, kv_bytes_per_token=log.header.kv_bytes_per_token)
        self.ops: list[Op] = []
        self._num_steps = 0
        self._next_seq_id = 0
        self._num_runs = 0

    def write(self, run: Generated) -> None:
        first = self._next_seq_id
        self._next_seq_id += len(run.rows)
        for index, row in enumerate(run.rows):
            self.ops.append(
                Submit(
                    seq_id=first + index,
                    queue_position=index,
                    request_id=f"generate-{self._num_runs}-{index}",
                    prompt_token_ids=row.prompt,
                    prompt_token_bytes=[self._bytes(i) for i in row.prompt],
                    max_tokens=run.max_tokens,
                    priority=0,
                    cache_salt=None,
                    sampling={},
                )
            )
        self._num_runs += 1
        self._append("submit", timing=Timing(at=run.at))
        computed = [0] * len(run.rows)
        texts = [IncrementalDetokenizer() for _ in run.rows]
        for number, current in enumerate(run.passes):
            batch = self._schedule(run, current, first, computed)
            outputs = []
            for index, sampled in sorted(current.chosen.items()):
                self.ops.append(Sample(seq_id=first + index, token_id=sampled.token_id))
                outputs.append(self._output(first + index, sampled, texts[index]))
            if number == len(run.passes) - 1 and not run.failed:
                self._end(run, first)
            self._num_steps += 1
            self._append(
                "step",
                batch=batch,
                outputs=outputs,
                timing=current.timing or Timing(at=run.at),
                work=self._work.of(batch),
                capture=self._capture(current, first),
            )
        if run.failed:
            self._end(run, first)
            self._append("abort", timing=Timing(at=run.passes[-1].timing.at if run.passes[-1].timing else run.at))

    def _schedule(self, run: Generated, current: Pass, first: int, computed: list[int]) -> list[BatchEntry]:
        """Allocate blocks for the new tokens of unfinished rows. Returns their batch entries."""
        batch = []
        end = current.num_before + current.num_tokens
        for index, row in enumerate(run.rows):
            stop = end - (run.width - len(row.prompt))  # position in the row, without padding
            start = computed[index]
            if stop > len(row.tokens) or stop <= start:
                continue  # the row has ended, and the pass computes padding for it
            if start == 0:
                self.ops.append(Admit(seq_id=first + index, num_cached_tokens=0, resumed=False))
            allocated = self._cache.allocate(first + index, stop, "append" if start else "admission")
            assert allocated, "the pool has room for the final batch"
            self._cache.write(first + index, start, stop - start)
            computed[index] = stop
            batch.append(
                BatchEntry(
                    seq_id=first + index,
                    phase="prefill" if start < len(row.prompt) else "decode",
                    start=start,
                    token_ids=row.tokens[start:stop],
                    context_len=stop,
                    samples=index in current.chosen,
                )
            )
        return batch

    def _end(self, run: Generated, first: int) -> None:
        """Free all sequences at once, because a DynamicCache holds the K and V of finished rows until the end."""
        for index, row in enumerate(run.rows):
            full = len(row.tokens) - len(row.prompt) >= run.max_tokens
            reason: FinishReason = "abort" if run.failed else "stop" if row.ended or not full else "length"
            self._cache.free(first + index, "finish")
            self.ops.append(Finish(seq_id=first + index, reason=reason, detail="generate ended"))

    def _capture(self, current: Pass, first: int) -> Capture | None:
        if not current.layers:
            return None
        layers = [
            replace(layer, rows=[replace(row, seq_id=first + row.seq_id) for row in layer.rows])
            for layer in sorted(current.layers, key=lambda layer: layer.layer)
        ]
        omitted = "Left out: layers that exceeded the capture budget of the run." if current.omitted else ""
        return Capture(index=len(self._log), dtype=str(layers[0].q.dtype), layers=layers, omitted=omitted)

    def _output(self, seq_id: int, sampled: Sampled, text: IncrementalDetokenizer) -> Output:
        return Output(
            seq_id=seq_id,
            token_id=sampled.token_id,
            token_bytes=self._bytes(sampled.token_id),
            text=text.feed(self._tokenizer.text_bytes(sampled.token_id)) if self._tokenizer else "",
            logprob=sampled.logprob,
            top=list(map(Candidate, sampled.top_ids, map(self._bytes, sampled.top_ids), sampled.top_logprobs)),
        )

    def _append(self, kind: RecordKind, *, capture: Capture | None = None, **fields: Any) -> None:
        record = StepRecord(
            index=len(self._log),
            kind=kind,
            step=self._num_steps,
            ops=self.ops.copy(),
            memory=self._cache.memory(),
            has_capture=capture is not None,
            **fields,
        )
        self.ops.clear()
        self._log.append(record, capture)
        self._cache.tick(len(self._log), self._num_steps)

    def _bytes(self, token_id: int) -> bytes:
        return self._tokenizer.token_bytes(token_id) if self._tokenizer else b""
