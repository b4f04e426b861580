"""Decode steps as CUDA graphs: one launch per step instead of one per kernel.

    batch of n sequences --padded--> size s, the smallest of 1, 2, 4, ... that is >= n    static buffers
                                     keys k, the smallest power of two >= the longest sequence
    graph (s, k)         captured on first use, then replayed

A padded row computes token 0 at position 0. It writes to and reads only the scratch block, which lies behind the pool
and has no id. A step runs as a graph only if every sequence decodes, nothing is recorded, and the backend reads only
`StepBatch.decode_tables`; every other step is launched kernel by kernel.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from engine.cache.attention_span import AttentionSpan
from engine.model.batch import DecodeTables, SlotTable, StepBatch

log = logging.getLogger(__name__)

MIN_KEYS = 512  # minimum number of keys of a graph


class Graph(Protocol):
    """Captured graph. Every replay writes `out`."""

    out: Tensor

    def replay(self) -> None:
        """Queue the work on the current content of its buffers."""


class CudaGraph:
    """Graph of the work that `run` queues. `pool`: memory shared by graphs that never run concurrently."""

    def __init__(self, run: Callable[[], Tensor], pool: Any) -> None:
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            run()  # compiles kernels and allocates workspaces, which cannot be captured
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool):
            self.out = run()

    def replay(self) -> None:
        self._graph.replay()


class CudaGraphs:
    """Factory of graphs that share one memory pool."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, run: Callable[[], Tensor]) -> Graph:
        return CudaGraph(run, self._pool)

    def num_bytes(self) -> int:
        """Return the reserved device memory in bytes."""
        return torch.cuda.memory_reserved()


class GraphInputs(StepBatch):
    """Decode step of `size` sequences and up to `longest` keys, in tensors with fixed addresses."""

    def __init__(
        self,
        size: int,
        longest: int,
        table: SlotTable,
        device: torch.device,
        reaches: Sequence[AttentionSpan],
        scratch: Sequence[int],
    ) -> None:
        """Allocate the tensors. `reaches`: the layers' distinct spans. `scratch`: each group's block for padding."""
        self._begin(table, device, None)
        self.slices = []
        self.num_tokens, self.decode_indices = size, list(range(size))
        self._size, self._group_reaches = size, reaches
        self._scratch = np.array(scratch)
        width = table.width_in_blocks
        int32: dict[str, Any] = {"dtype": torch.int32, "device": device}
        self._inputs = torch.zeros((2 + table.num_groups, size), dtype=torch.int64, device=device)
        self._ranges = torch.zeros((len(reaches), 2, size), **int32)
        self._blocks = torch.zeros((len(reaches), size, width), **int32)
        self.input_ids, self.position_ids = self._inputs[0:1], self._inputs[1:2]
        self._slot_mappings = [*self._inputs[2:].unbind()]
        for at, reach in enumerate(reaches):
            lengths, starts = self._ranges[at].unbind()
            self._decode_tables[reach] = DecodeTables(self._blocks[at], lengths, starts, [], longest)

    def load(self, batch: StepBatch) -> None:
        """Copy a step of at most `size` sequences into the tensors; the rest is padding."""
        n, table = batch.num_tokens, self._table
        inputs = np.zeros(tuple(self._inputs.shape), np.int64)
        inputs[:, :n] = batch.packed
        inputs[2:, n:] = (self._scratch * table.block_size)[:, None]
        ranges = np.zeros(tuple(self._ranges.shape), np.int32)
        ranges[:, 0, n:] = 1
        blocks = np.zeros(tuple(self._blocks.shape), np.int32)
        for at, reach in enumerate(self._group_reaches):
            places, ranges[at, 0, :n], ranges[at, 1, :n] = batch.decode_places(reach)
            blocks[at, :n, : places.shape[1]] = places
            blocks[at, n:] = self._scratch[table.group(reach)]
        for static, array in ((self._inputs, inputs), (self._ranges, ranges), (self._blocks, blocks)):
            static.copy_(self.copies.to_device(array))


class _Captured(NamedTuple):
    inputs: GraphInputs
    graph: Graph


class DecodeGraphs:
    """CUDA graphs of a runner."""

    def __init__(
        self,
        max_size: int,
        make_inputs: Callable[[int, int], GraphInputs],
        forward: Callable[[StepBatch], Tensor],
        capture: Any = None,
    ) -> None:
        """Initialize without graphs.

        `make_inputs(size, num_keys)` creates buffers. `forward` computes a step's logits [S, V]. `capture` creates
        graphs and counts their memory; by default it is `CudaGraphs`.
        """
        self.sizes = [1 << power for power in range(max_size.bit_length()) if 1 << power < max_size] + [max_size]
        self.num_bytes = 0  # device memory of graphs and their buffers
        self._make_inputs, self._forward = make_inputs, forward
        self._capture = capture or CudaGraphs()
        self._captured: dict[tuple[int, int, object], _Captured] = {}
        self._failed = False

    def fits(self, batch: StepBatch) -> bool:
        """Return whether this step can run as a graph."""
        return (
            not self._failed
            and batch.num_tokens == batch.num_decodes <= self.sizes[-1]
            and batch.logit_indices is None
            and batch.policy is None
        )

    def run(self, batch: StepBatch, variant: object) -> Tensor:
        """Return logits [S, V] of a step that fits, valid until the next step.

        `variant` identifies the forward pass and is part of the graph's key.
        """
        size = next(size for size in self.sizes if size >= batch.num_tokens)
        key = size, max(MIN_KEYS, 1 << (batch.longest - 1).bit_length()), variant
        captured = self._captured.get(key)
        if captured is None:
            inputs = self._make_inputs(*key[:2])
            inputs.load(batch)
            began, before = time.perf_counter(), self._capture.num_bytes()
            try:
                graph = self._capture(lambda: self._forward(inputs))
            except RuntimeError as error:  # the model synchronizes with the device during its pass
                self._failed = True
                log.warning("decode steps cannot run as CUDA graphs: %s", " ".join(str(error).split())[:200])
                return self._forward(batch)
            self.num_bytes += self._capture.num_bytes() - before
            captured = self._captured[key] = _Captured(inputs, graph)
            seconds = time.perf_counter() - began
            log.info("CUDA graph %d: %d sequences of up to %d keys in %.1f s", len(self._captured), *key[:2], seconds)
        else:
            captured.inputs.load(batch)
        captured.graph.replay()
        return captured.graph.out[: batch.num_tokens]
