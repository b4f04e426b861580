"""Fake model and engine with byte tokens and no tensor operations, which write real records to a real trace."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np

from app.models.engine_face import OwnTiers
from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.model.device_facts import DeviceFacts
from engine.setup.resolve import resolve
from engine.trace.apply import apply
from engine.trace.log import TraceWriter
from engine.trace.operations import Admit, Allocate, Finish, Free, Op, Sample, Submit, Write
from engine.trace.records import (
    AttentionRows,
    BatchEntry,
    Capture,
    Header,
    LayerCapture,
    Machine,
    ModelFacts,
    Output,
    Roofs,
    StepRecord,
    Timing,
    TokenizerFacts,
)
from engine.trace.residual import Projection, ProjectionPart
from engine.trace.state import memory_figures

FACTS = ModelFacts(
    name="fake", architecture="Fake", num_params=1, num_layers=2, hidden_size=8, intermediate_size=16, num_heads=2,
    num_kv_heads=1, head_dim=4, v_head_dim=4, vocab_size=256, max_position=1024, dtype="float32",
    sliding_windows=[None, None],
)  # fmt: skip
TOKENIZER = TokenizerFacts(name="bytes", vocab_size=256, eos_token_ids=[])
MACHINE = Machine(device="none", processor="none", num_threads=1, versions={})
ROOFS = Roofs(
    dtype="float32", num_threads=1, measured_at="2026-01-01T00:00:00+00:00", flops_per_second=2e9, matmul_size=256,
    matmul_runs=5, bytes_per_second=1e9, copy_bytes=1 << 20, copy_runs=5,
)  # fmt: skip
KV_BYTES = 2 * 2 * 1 * 4 * 4  # K and V, layers, KV heads, head_dim, bytes per float


class Recomputed(NamedTuple):
    token_ids: list[int]
    layers: list[LayerCapture]
    num_keys: int = 0
    residual: None = None


class FakeRequest:
    def __init__(self, request_id: str, seq_id: int, prompt: list[int], max_tokens: int) -> None:
        self.request_id, self.seq_id, self.num_prompt_tokens = request_id, seq_id, len(prompt)
        self.tokens, self.max_tokens, self.computed, self.blocks = list(prompt), max_tokens, 0, list[int]()


def _ids(prompt: Any) -> list[int]:
    return list(prompt.text.encode()) if isinstance(prompt.text, str) else list(prompt.text)


class FakeEngine:
    """Engine that prefills one waiting sequence per step and decodes the others. A token is its predecessor plus 1."""

    capture_width = 4  # values per head

    def __init__(self, config: EngineConfig, path: Path | None, model: FakeModel) -> None:
        self.config = resolve(config, FACTS.max_position).config
        self._model = model
        header = Header(
            generator="fake", created="2026-01-01T00:00:00+00:00", model=model.facts, tokenizer=TOKENIZER,
            engine=self.config.as_map(), kv_bytes_per_token=KV_BYTES, machine=MACHINE,
        )  # fmt: skip
        self.log = TraceWriter(header, path)
        self.captures = True
        self.focused: Any = None
        self.requests: dict[int, FakeRequest] = {}
        self.next_seq, self.steps = 0, 0

    def check(self, prompts, sampling: SamplingParams) -> None:
        sampling.checked()
        for prompt in prompts:
            size = len(_ids(prompt))
            if not size:
                raise ConfigError("the prompt is empty: it needs at least one token")
            if size + 1 > (self.config.max_model_len or 0):
                raise ConfigError(
                    f"the prompt has {size} tokens; that is over max_model_len {self.config.max_model_len}"
                )

    def submit(self, prompts, sampling: SamplingParams):
        self.check(prompts, sampling)
        ops: list[Op] = []
        new = []
        for prompt in prompts:
            tokens = _ids(prompt)
            name = prompt.request_id or f"request-{self.next_seq}"
            request = FakeRequest(name, self.next_seq, tokens, sampling.max_tokens or 4)
            waiting = sum(1 for r in self.requests.values() if not r.computed)
            ops.append(
                Submit(
                    seq_id=request.seq_id, queue_position=waiting, request_id=name, prompt_token_ids=tokens,
                    prompt_token_bytes=[bytes([t]) for t in tokens], max_tokens=request.max_tokens,
                )
            )  # fmt: skip
            self.requests[request.seq_id] = request
            self.next_seq += 1
            new.append(request)
        self._append("submit", ops)
        return new

    def send(self, prompts, sampling: SamplingParams) -> None:
        self.submit(prompts, sampling)

    def lose_instance(self, index: int) -> None:
        raise ValueError(f"there is no instance {index}")

    def step(self, goes_on: bool = False, waits: bool = True) -> StepRecord:
        self._model.threads.add(threading.get_ident())
        self._model.is_stepping = True
        time.sleep(self._model.step_seconds)
        self._model.is_stepping = False
        if self._model.fail_at == self.steps:
            self._model.fail_at = None
            raise RuntimeError("the fake device caught\nfire")
        ops: list[Op] = []
        batch, outputs = [], []
        free = self.log.state_now().free_queues[0]
        size = self.config.block_size
        prefilled = False
        for request in list(self.requests.values()):
            if not request.computed:
                if prefilled or sum(1 for r in self.requests.values() if r.computed) >= self.config.max_num_seqs:
                    continue
                prefilled = True
                ops.append(Admit(seq_id=request.seq_id, num_cached_tokens=0, resumed=False))
            start, count = request.computed, len(request.tokens) - request.computed
            while len(request.blocks) * size < len(request.tokens):
                block = free.pop(0)
                ops.append(Allocate(seq_id=request.seq_id, block_id=block, logical=len(request.blocks)))
                request.blocks.append(block)
            ops.append(Write(seq_id=request.seq_id, start=start, num_tokens=count))
            batch.append(
                BatchEntry(
                    seq_id=request.seq_id, phase="decode" if start else "prefill", start=start,
                    token_ids=request.tokens[start:], context_len=start + count, samples=True,
                )
            )  # fmt: skip
            request.computed = len(request.tokens)
            token = (request.tokens[-1] + 1) % 128
            request.tokens.append(token)
            ops.append(Sample(seq_id=request.seq_id, token_id=token))
            text = bytes([token])
            outputs.append(
                Output(seq_id=request.seq_id, token_id=token, token_bytes=text, text=text.decode(), logprob=0.0, top=[])
            )
            if len(request.tokens) - request.num_prompt_tokens >= request.max_tokens:
                free[:0] = self._finish(request, "length", ops)
        self.steps += 1
        return self._append("step", ops, batch, outputs)

    def rest(self) -> None: ...

    def wake(self) -> None: ...

    def abort(self, request_id: str) -> bool:
        for request in list(self.requests.values()):
            if request.request_id == request_id:
                ops: list[Op] = []
                self._finish(request, "abort", ops)
                self._append("abort", ops)
                return True
        return False

    def num_unfinished(self) -> int:
        return len(self.requests)

    def queue_lengths(self) -> tuple[int, int]:
        running = sum(1 for r in self.requests.values() if r.computed)
        return running, len(self.requests) - running

    def observe(self, is_watched: bool) -> None: ...

    def prefill_pending(self) -> bool:
        return any(not r.computed for r in self.requests.values())

    def focus(self, layers: Any, heads: Any) -> None:
        self.focused = (layers, heads)

    def stop_captures(self) -> None:
        self.captures = False

    def recompute_attention(self, seq_id, layer, heads, num_tokens, residual):
        self._model.threads.add(threading.get_ident())
        sequence = self.log.state_now().sequences.get(seq_id)
        if sequence is None:
            raise ConfigError(f"there is no sequence {seq_id} in this run")
        tokens = sequence.token_ids[:num_tokens]
        count, chosen = len(tokens), heads or [0, 1]
        q = np.zeros((count, 2, 4), np.float32)
        weights = np.zeros((len(chosen), count, count), np.float32)
        rows = [AttentionRows(seq_id=seq_id, query_start=0, key_start=0, heads=chosen, weights=weights)]
        kv = {i: np.full((count, 1, 4), i, np.float32) for i in ([0, 1] if layer is None else [layer])}
        return Recomputed(tokens, [LayerCapture(layer=i, q=q, k=one, v=one, rows=rows) for i, one in kv.items()])

    def rerun(self, source, at, change, follow):
        raise ConfigError("a fake engine cannot make a run again")

    def release(self) -> None: ...

    def close(self) -> None:
        self.log.close()

    def _finish(self, request: FakeRequest, reason, ops: list[Op]) -> list[int]:
        """Free the blocks of a finished sequence at the head of the free queue."""
        blocks, request.blocks = request.blocks, []
        for block in reversed(blocks):
            ops.append(Free(seq_id=request.seq_id, block_id=block, to="front"))
        ops.append(Finish(seq_id=request.seq_id, reason=reason))
        del self.requests[request.seq_id]
        return blocks

    def _append(self, kind, ops, batch=(), outputs=()) -> StepRecord:
        index = len(self.log)
        capture = None
        if kind == "step" and self.captures:
            tokens = sum(len(b.token_ids) for b in batch)
            kv = np.full((tokens, 1, self.capture_width), index, np.float16)
            q = np.zeros((tokens, 2, self.capture_width), np.float16)
            layers = [LayerCapture(layer=i, q=q, k=kv, v=kv, rows=[]) for i in range(2)]
            capture = Capture(index=index, dtype="float16", layers=layers)
        state = self.log.state_now()
        record = StepRecord(
            index=index, kind=kind, step=self.steps, batch=list(batch), ops=ops, outputs=list(outputs),
            timing=Timing(at=0.0), memory=memory_figures(state), has_capture=bool(capture),
        )  # fmt: skip
        record = msgspec.structs.replace(record, memory=memory_figures(apply(state, record)))
        self.log.append(record, capture)
        return record


class FakeModel:
    """Fake `ServedModel`, whose engines sleep `step_seconds` per step and fail once at step `fail_at`."""

    facts, tokenizer_facts, kv_bytes_per_token = FACTS, TOKENIZER, KV_BYTES

    def __init__(self, name: str = "fake", num_bytes: int = 4) -> None:
        self.facts = msgspec.structs.replace(FACTS, name=name)
        self.num_bytes = num_bytes
        self.free_bytes = 1 << 34
        self.step_seconds = 0.0
        self.fail_at: int | None = None
        self.is_stepping = self.measured_beside_a_step = False
        self.threads: set[int] = set()
        self.machine = MACHINE
        self.engines: weakref.WeakSet[FakeEngine] = weakref.WeakSet()  # still referenced

    def measured_machine(self) -> Machine:
        self.measured_beside_a_step |= self.is_stepping
        self.machine = msgspec.structs.replace(MACHINE, roofs=ROOFS)
        return self.machine

    @property
    def device(self) -> DeviceFacts:
        used = self.num_bytes
        return DeviceFacts(
            name="cpu",
            has_own_memory=False,
            total_bytes=self.free_bytes + used,
            free_bytes=self.free_bytes,
            process_bytes=used,
        )

    def with_pool(self, config: EngineConfig) -> EngineConfig:
        return config

    def build(self, config: EngineConfig, path: Path | None, own: OwnTiers | None = None) -> FakeEngine:
        engine = FakeEngine(config, path, self)
        self.engines.add(engine)
        return engine

    build_small = build

    def projection(self, layer: int, part: ProjectionPart, head: int) -> Projection:
        raise ValueError("the fake has no weights")

    def normalize(self, text: str) -> str:
        return text.replace("，", ",")

    chat_template = ""
    special_tokens: ClassVar[dict[str, int]] = {}
    has_chat_template = False
    default_sampling: ClassVar[dict[str, float]] = {}

    def chat(
        self, messages: list[dict[str, Any]], template_settings: Mapping[str, Any], tools: Sequence[dict[str, Any]] = ()
    ) -> list[int]:
        return self.encode("\n".join(message["content"] for message in messages))

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id])
