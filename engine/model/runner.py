"""Forward pass: packs a step, runs the model over the paged store, and returns the needed logits."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from engine.cache.attention_span import WindowPolicy, reaches_of
from engine.cache.block_groups import GroupPlan
from engine.cache.block_moves import BlockMoves
from engine.cache.block_tiers import BlockTiers
from engine.cache.kv_plane import QUANTIZED, NewPool, zeros
from engine.cache.kv_store import KVStore
from engine.cache.latent_store import ExpandedStore, LatentStore
from engine.cache.state_store import StateStore
from engine.model.ablation import Ablation, without_layers
from engine.model.attention import StepContext, attending, current
from engine.model.attention_backend import AttentionBackend
from engine.model.attention_gather import GatherAttention
from engine.model.attention_latent import LatentAttention
from engine.model.attention_sequence import SequenceContext
from engine.model.batch import SequenceSlice, SlotTable, StepBatch
from engine.model.capture import CaptureRecorder, CaptureRequest, Layers, ResolvedCapture
from engine.model.compiled_forward import CompiledForward
from engine.model.cuda_graphs import DecodeGraphs, GraphInputs
from engine.model.errors import ModelError
from engine.model.freed_memory import keep_freed_memory
from engine.model.host_copy import host_copies
from engine.model.loaded import DTYPES, LoadedModel
from engine.model.native_step import NativeStep
from engine.model.sequence_caches import CacheKind, SequenceCaches
from engine.model.state_layers import StateStep
from engine.model.state_segments import segments_of
from engine.options.refusal import sentence
from engine.trace.records import LayerCapture


class ForwardResult(NamedTuple):
    """Results of a step."""

    logits: Tensor  # [S, V] float32 on the model's device: a row per sampling slice, or per token if all are needed
    captured: Layers  # see `layers`
    omitted: str  # note on arrays that the capture's byte budget omitted, "" = none
    prepare_seconds: float  # duration of packing
    forward_marks: tuple[Any, Any]  # begin and end of the forward pass on the device (`HostCopies.seconds`)
    left_out: int = 0  # products of a weight and a token that the compiled pass skipped (`early_rows`)

    @property
    def layers(self) -> Sequence[LayerCapture]:
        """Captured layers, empty without a capture request; reading them waits for the device."""
        return self.captured()


def default_backend(device: torch.device) -> AttentionBackend:
    """Return gather and matmul on the CPU, and on a GPU torch's attention by block table if it is installed. If Triton
    runs (it comes with torch's CUDA builds and needs a C compiler), the fallback on a GPU is a paged decode kernel.
    """
    if device.type != "cuda":
        return GatherAttention()
    backend: AttentionBackend = GatherAttention()
    if importlib.util.find_spec("triton") is not None:
        from engine.model.attention_triton import TritonAttention, runs

        backend = TritonAttention() if runs(device) else backend
    from engine.model.attention_varlen import VarlenAttention, activate  # imports torch's compiler

    return VarlenAttention(backend) if activate(device) else backend


class ModelRunner:
    """Model with its KV store. Not thread-safe: one thread owns it."""

    def __init__(
        self,
        model: LoadedModel,
        num_blocks: int,
        block_size: int,
        max_model_len: int,
        kv_cache_dtype: str = "auto",
        backend: AttentionBackend | None = None,
        swap_space: int = 0,
        policy: WindowPolicy | None = None,
        groups: Sequence[GroupPlan] = (),
        by_sequence: CacheKind | None = None,
        new_pool: NewPool = zeros,
        max_graph_size: int = 0,
        new_graphs: Any = None,
    ) -> None:
        """Allocate the store.

        `num_blocks`: blocks of `block_size` tokens. `max_model_len`: maximum tokens of a sequence. `swap_space`: blocks
        in CPU memory. `policy`: limits the keys that layers see. `groups`: groups of layers with separate pools, which
        replace `num_blocks`, and `swap_space` blocks each. `by_sequence`: store K and V in a cache per sequence and
        only count blocks. `new_pool`: allocates the pool's tensors. `max_graph_size`: maximum number of sequences of
        a decode step that runs as a CUDA graph, if the backend can be captured; 0 disables graphs. `new_graphs`:
        captures them, `CudaGraphs` by default.

        Raises:
            ModelError: the model has fewer positions, the dtype is unknown, or the pool does not fit in memory.
        """
        if max_model_len > model.facts.max_position:
            raise ModelError(
                sentence(
                    "model.positions",
                    max_model_len=max_model_len,
                    positions=model.facts.max_position,
                    name=model.facts.name,
                )
            )
        if kv_cache_dtype not in ("auto", *DTYPES, *QUANTIZED):
            known = ", ".join(("auto", *DTYPES, *QUANTIZED))
            raise ModelError(sentence("kv_cache_dtype", dtype=kv_cache_dtype, known=known))
        kind = model.dtype if kv_cache_dtype == "auto" else DTYPES.get(kv_cache_dtype, kv_cache_dtype)
        keep_freed_memory()
        self.model = model
        self.max_model_len = max_model_len
        self.policy = policy
        self.copies = host_copies(model.device)
        latent_backend = LatentAttention(model.latents) if model.latents and not by_sequence else None
        self.backend: AttentionBackend = backend or latent_backend or default_backend(model.device)
        plain = isinstance(kind, torch.dtype) and policy is None and by_sequence is None and model.states is None
        state_group = next((group for group in groups if group.holds_states), None)
        groups = [group for group in groups if not group.holds_states]
        has_graphs = max_graph_size > 0 and plain and self.backend.reads_tables_only
        try:
            blocks = [num_blocks] * len(model.layer_shapes)
            for group in groups:
                for layer in group.layers:
                    blocks[layer] = group.num_blocks
            if by_sequence is not None:
                blocks = [1] * len(blocks)  # for the shapes; nothing is stored in it
            scratch = [group.num_blocks for group in groups] or [num_blocks]
            blocks = [count + has_graphs for count in blocks]  # padding of graphs writes to the last block
            pool = blocks, block_size, kind, model.device, model.dtype, new_pool
            self.kv_store = (
                KVStore(model.layer_shapes, *pool)
                if model.latents is None
                else ExpandedStore(LatentStore(model.latents.shapes, *pool), model.layer_shapes, model.latents.expand)
            )
            plans = groups or [GroupPlan(list(range(len(model.layer_shapes))), frozenset(), None, num_blocks)]
            self.kv_caches = [
                BlockTiers(
                    self.kv_store,
                    plan.layers,
                    plan.first_block,
                    swap_space,
                    plan.first_cpu_block + index * swap_space,
                )
                for index, plan in enumerate(plans)
            ]
            self._has_state_table, self._first_state_block = state_group is not None, 0
            self.state_store: StateStore | None = None
            if model.states is not None:
                count = num_blocks if state_group is None else state_group.num_blocks
                self.state_store = StateStore(model.states.shapes, count, model.device, new_pool)
            if self.state_store is not None and state_group is not None:
                first_cpu_block = state_group.first_cpu_block + len(plans) * swap_space
                self._first_state_block = state_group.first_block
                self.kv_caches.append(
                    BlockTiers(self.state_store, (), state_group.first_block, swap_space, first_cpu_block)
                )
        except (RuntimeError, MemoryError) as error:
            raise ModelError(
                sentence("pool.memory", number=num_blocks, size=block_size, device=model.device)
            ) from error
        self._slot_table = SlotTable(block_size, max_model_len, groups=groups)
        self.compiled: CompiledForward | None = None  # None: eager. While sequences run, only an ablation may change it
        self.ablation: Ablation | None = None  # applies to eager passes only
        self.uses_graphs = has_graphs  # must not change while sequences run
        self.graphs: DecodeGraphs | None = None
        if has_graphs:
            reaches = list(dict.fromkeys(reaches_of(model.facts.sliding_windows, None)))
            self.graphs = DecodeGraphs(
                max_graph_size,
                lambda size, keys: GraphInputs(size, keys, self._slot_table, model.device, reaches, scratch),
                self._compute,
                new_graphs,
            )
        self._native = NativeStep(self.kv_store, model.facts.num_heads, model.facts.sliding_windows, policy)
        self._keeps_logits = model.keeps_logits
        self._resolved_capture: ResolvedCapture | None = None  # that of the previous step
        self.sequence_caches = (
            SequenceCaches(by_sequence, len(model.layer_shapes), max_model_len) if by_sequence else None
        )

    def cache_tensors(self) -> Mapping[Any, Tensor]:
        """Return all tensors of K and V on the device, by stable names."""
        if self.sequence_caches is not None:
            return self.sequence_caches.tensors()
        return dict(enumerate(self.kv_store.pools(range(self.kv_store.num_layers))))

    def copied_bytes(self, moves_of_groups: Sequence[BlockMoves]) -> int:
        """Return the bytes that these moves copy within the device's tensors."""
        return sum(
            len(moves.copy) * cache.bytes_per_block
            for cache, moves in zip(self.kv_caches, moves_of_groups, strict=True)
        )

    @property
    def reduced_threads(self) -> int:
        """Number of threads of the last forward pass if it was reduced (`ThreadCount`), else 0."""
        return self._native.reduced_threads if self.compiled is not None else 0

    def move_blocks(self, moves_of_groups: Sequence[BlockMoves]) -> None:
        """Copy blocks in all layers of each group."""
        if not any(map(any, moves_of_groups)):
            return
        with torch.inference_mode():
            for cache, moves in zip(self.kv_caches, moves_of_groups, strict=True):
                cache.move(moves)

    def execute(self, slices: Sequence[SequenceSlice], capture: CaptureRequest | None = None) -> ForwardResult:
        """Compute the tokens of all slices, write their keys and values, and return the logits of slices that sample.

        A sequence may occur at most once. A capture does not change the results.
        """
        if not slices:
            empty = torch.empty((0, self.model.facts.vocab_size), device=self.model.device)
            now = self.copies.mark()
            return ForwardResult(empty, list, "", 0.0, (now, now))
        begin = time.perf_counter()
        with torch.inference_mode():
            states, slices = self._states(slices)
            batch = StepBatch(slices, self._slot_table, self.model.device, self.policy)
            recorder = CaptureRecorder(self._resolve_capture(capture), batch) if capture else None
            backend = self.compiled.backend if self.compiled else None
            context: StepContext | SequenceContext
            if self.sequence_caches is None:
                off = self.ablation.rows(slices, self.model.device) if self.ablation else ()
                context = StepContext(batch, self.kv_store, backend or self.backend, recorder, states=states, off=off)
            else:
                for piece in slices:
                    if piece.start == 0:
                        self.sequence_caches.begin(piece.seq_id)
                context = SequenceContext(batch, self.sequence_caches, recorder)
            prepared, began = time.perf_counter(), self.copies.mark()
            if self.graphs is not None and self.uses_graphs and recorder is None and self.graphs.fits(batch):
                logits = self.graphs.run(batch, self.compiled)
            else:
                logits = self._checked(batch, context)
            captured, omitted = recorder.finish() if recorder else (list, "")
            ended = self.copies.mark()
        early = self.compiled.early_weights if self.compiled else 0
        left_out = early * (batch.num_tokens - logits.shape[0])
        return ForwardResult(logits, captured, omitted, prepared - begin, (began, ended), left_out)

    def _states(self, slices: Sequence[SequenceSlice]) -> tuple[StateStep | None, Sequence[SequenceSlice]]:
        """Return the states of a step, and its slices with the block tables of keys only."""
        if self.state_store is None or self.model.states is None:
            return None, slices
        # states without a group of their own use the block ids of the first group
        tables = [piece.block_tables[-1 if self._has_state_table else 0] for piece in slices]
        if self._has_state_table:
            slices = [piece._replace(block_tables=piece.block_tables[:-1]) for piece in slices]
        segments = segments_of(
            slices,
            tables,
            self.kv_store.block_size,
            self._first_state_block,
            self.model.device,
            self.model.states.one_by_one,
        )
        return StateStep(self.state_store, segments), slices

    def _compute(self, batch: StepBatch) -> Tensor:
        return self._checked(batch, StepContext(batch, self.kv_store, self.backend))

    def _checked(self, batch: StepBatch, context: StepContext | SequenceContext) -> Tensor:
        logits = self.forward(batch, context)
        if context.layers_called != self.kv_store.num_layers:
            raise ModelError(
                sentence(
                    "model.layers_of_step",
                    name=self.model.facts.name,
                    number=context.layers_called,
                    layers=self.kv_store.num_layers,
                )
            )
        return logits

    def _resolve_capture(self, request: CaptureRequest) -> ResolvedCapture:
        if self._resolved_capture is None or self._resolved_capture.request is not request:
            shapes = self.kv_store.shapes if self.sequence_caches is None else None
            self._resolved_capture = ResolvedCapture(request, self.model.facts, shapes, self.policy)
        return self._resolved_capture

    def forward(self, batch: StepBatch, context: StepContext | SequenceContext) -> Tensor:
        """Return logits [S, V] float32 of a packed step's slices that sample. Must run under `torch.inference_mode`."""
        keep = batch.logit_indices
        with attending(context):
            if self.compiled is not None:
                layout = self._native.of(batch, context.recorder) if self.compiled.kernel else None
                computed, num_called = self.compiled(batch, layout)
                context.layers_called += num_called
                return computed
            options = {"logits_to_keep": keep} if keep is not None and self._keeps_logits else {}
            off = context.off if isinstance(context, StepContext) else ()
            with without_layers(off, self.model.module, lambda: current() is context):
                output = self.model.module(
                    input_ids=batch.input_ids, position_ids=batch.position_ids, use_cache=False, **options
                )
        logits: Tensor = output.logits[0]
        if keep is not None and not self._keeps_logits:
            logits = logits[keep]
        return logits.float()
