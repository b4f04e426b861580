"""Packing of a step: the tokens of all its sequences in one row, and the slots of their keys and values.

    slices        A (prefill, 4 tokens)   B (decode)   C (decode)
    input_ids     a0 a1 a2 a3             b7           c2           [1, T]
    position_ids   0  1  2  3              7            2           [1, T]
    slot_mapping  the slot of each of these tokens                  [T]

Sequences with one new token are computed together (`DecodeKeys`, padded); each longer slice separately
(`PrefillKeys`). Layers with a sliding window see other keys than layers without, so both are built per
`AttentionSpan`, when the first such layer needs them. Layers in different groups (`cache.block_groups`) also differ in
block tables and slots.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.cache.attention_span import AttentionSpan, WindowPolicy
from engine.cache.block_groups import GroupPlan
from engine.model.host_copy import HostCopies, host_copies
from engine.trace.operations import RELEASED

IntArray = npt.NDArray[np.int64]


class SequenceSlice(NamedTuple):
    """Share of a sequence in a step."""

    seq_id: int
    token_ids: list[int]  # the tokens to compute now, at least one
    start: int  # position of the first of them; all earlier positions are in the cache
    block_tables: list[list[int]]  # one per group of layers, in block ids of the trace; they cover
    # start + len(token_ids) positions, with RELEASED where no query attends any more
    samples: bool  # whether the logits of the last token are needed
    all_logits: bool = False  # whether those of every token are needed, for prompt log probabilities
    num_drafts: int = 0  # number of draft tokens at the end of a slice that samples; their logits are needed too


class DecodeKeys(NamedTuple):
    """Keys of all n sequences with one new token, padded to L."""

    slots: Tensor  # [n, L]; padding and released positions repeat a slot of the same sequence
    mask: Tensor | None  # [n, 1, L] True = padding or hidden by the policy; None = every key is visible
    key_starts: list[int]  # position of each sequence's first key
    first_slot: int | None  # first slot of a single sequence with consecutive slots, which needs no gather
    length: int  # L, the maximum number of keys of a sequence


class DecodeTables(NamedTuple):
    """Keys of `DecodeKeys` as block tables, for kernels that look the blocks up themselves."""

    block_tables: Tensor  # [n, B] int32, places in the layers' tensors; 0 as padding and for released blocks
    lengths: Tensor  # [n] int32: position after each sequence's last key
    starts: Tensor  # [n] int32: position of its first key, > 0 under a sliding window
    key_starts: list[int]  # `starts` on the host
    longest: int  # L, the maximum number of keys of a sequence


class StepTables(NamedTuple):
    """Block tables of all S slices of a step, for kernels that compute prefills and decodes in one call."""

    query_start_loc: Tensor  # [S + 1] int32: offset of each slice's tokens in the packed row
    block_tables: Tensor  # [S, B] int32, places in the layers' tensors; 0 as padding and for released blocks
    lengths: Tensor  # [S] int32: position after each sequence's last key
    max_queries: int  # maximum number of tokens of a slice
    longest: int  # maximum number of keys of a sequence


class PrefillKeys(NamedTuple):
    """C keys that the T queries of a prefilling sequence can see."""

    slots: Tensor  # [C]
    mask: Tensor  # [T, C] True = not visible
    key_start: int
    first_slot: int | None


class PrefillSpan(NamedTuple):
    """Slice with more than one token: packed tokens [begin, end), positions [start, context_len)."""

    slice_index: int
    row: int  # of the slot table
    begin: int
    end: int
    start: int
    context_len: int


class StepInputs(NamedTuple):
    """Token ids, positions and slots of T packed tokens: on the CPU `tensors` are views of `packed`."""

    packed: IntArray  # [2 + groups, T]
    tensors: tuple[Tensor, ...]  # input_ids [1, T], position_ids [1, T], then the slots [T] of each group

    @staticmethod
    def make(num_groups: int, num_tokens: int) -> StepInputs:
        packed: IntArray = np.empty((2 + num_groups, num_tokens), dtype=np.int64)
        return StepInputs(packed, _views(torch.from_numpy(packed)))

    def to_device(self, copies: HostCopies) -> tuple[Tensor, ...]:
        """Copy the tensors to the device."""
        return self.tensors if copies.on_host else _views(copies.to_device(self.packed))


def _views(inputs: Tensor) -> tuple[Tensor, ...]:
    return inputs[0:1], inputs[1:2], *inputs[2:].unbind()


class SlotTable:
    """Block tables resolved to slots, one row per sequence, cached between steps.

    A row is resolved again only when its block table changes, so a decode step costs one comparison per sequence.
    """

    def __init__(
        self, block_size: int, max_model_len: int, num_rows: int = 16, groups: Sequence[GroupPlan] = ()
    ) -> None:
        """`groups`: groups of layers; by default a single group of all layers, whose first block is 0."""
        self.block_size = block_size
        self._width = -(-max_model_len // block_size) * block_size
        self._offsets = np.arange(block_size, dtype=np.int64)
        self._group_of = {reach: index for index, group in enumerate(groups) for reach in group.reaches}
        self.first_blocks = [group.first_block for group in groups] or [0]
        count = self.num_groups = max(len(groups), 1)
        self.slots: IntArray = np.zeros((count, num_rows, self._width), dtype=np.int64)  # [groups, rows, positions]
        self.runs = [[0] * num_rows for _ in range(count)]  # per group and row: number of leading consecutive slots
        self._tables: list[list[list[int]]] = [[[] for _ in range(count)] for _ in range(num_rows)]
        self._rows: dict[int, int] = {}  # seq_id -> row
        self._free = list(range(num_rows - 1, -1, -1))
        self._inputs = StepInputs.make(count, 0)

    @property
    def width_in_blocks(self) -> int:
        """Number of blocks of the longest sequence."""
        return self._width // self.block_size

    def inputs(self, num_tokens: int) -> StepInputs:
        """Return buffers for a step of `num_tokens`; those of the previous step are reused if it had as many."""
        if self._inputs.packed.shape[1] != num_tokens:
            self._inputs = StepInputs.make(self.num_groups, num_tokens)
        return self._inputs

    def rows(self, slices: Sequence[SequenceSlice]) -> list[int]:
        """Return the row of each slice, updated from its block table."""
        known, tables = self._rows, self._tables
        rows = []
        for piece in slices:
            row = known.get(piece.seq_id)
            if row is None:
                row = self._claim(piece.seq_id, slices)
            if tables[row] != piece.block_tables:
                self._resolve(row, piece.block_tables)
            rows.append(row)
        return rows

    def place(self, block_ids: npt.NDArray[Any], group: int) -> npt.NDArray[Any]:
        """Return the indices of blocks in the tensors of a group's layers; see `cache.block_groups`."""
        return block_ids - self.first_blocks[group]

    def group(self, reach: AttentionSpan) -> int:
        """Return the group of the layers with this reach."""
        return self._group_of[reach] if self._group_of else 0

    def _claim(self, seq_id: int, slices: Sequence[SequenceSlice]) -> int:
        """Return a row for a new sequence: a free row, a row of a sequence outside this step, or an added row."""
        if not self._free:
            present = {piece.seq_id for piece in slices}
            for absent in [known for known in self._rows if known not in present]:
                self._free.append(self._rows.pop(absent))
        if not self._free:
            count = len(self._tables)
            self.slots = np.concatenate([self.slots, np.zeros_like(self.slots)], axis=1)
            for runs in self.runs:
                runs += [0] * count
            self._tables += [[[] for _ in range(self.num_groups)] for _ in range(count)]
            self._free = list(range(2 * count - 1, count - 1, -1))
        row = self._rows[seq_id] = self._free.pop()
        return row

    def _resolve(self, row: int, block_tables: list[list[int]]) -> None:
        for group, block_table in enumerate(block_tables):
            table = np.asarray(block_table, dtype=np.int64)
            # Padding and released entries must be readable: they repeat the first remaining block.
            released = table == RELEASED
            table = self.place(table, group)
            filler = table[int(released.argmin())]
            table[released] = filler
            slots = (table[:, None] * self.block_size + self._offsets).ravel()[: self._width]
            self.slots[group, row, : slots.size] = slots
            self.slots[group, row, slots.size :] = filler * self.block_size
            breaks = np.flatnonzero(np.diff(slots) != 1)
            self.runs[group][row] = int(breaks[0]) + 1 if breaks.size else slots.size
        self._tables[row] = [list(block_table) for block_table in block_tables]


class StepBatch:
    """Packed step: the model's inputs, and the keys of its sequences. Valid until the slot table packs the next step.

    Keys are looked up by a layer's `reach`, which determines the keys that its queries see.
    """

    prefills: list[PrefillSpan]
    decode_tokens: Tensor | None  # indices of packed tokens that decode; None = all of them
    logit_indices: Tensor | None  # indices of packed tokens whose logits are needed; None = all of them

    def __init__(
        self,
        slices: Sequence[SequenceSlice],
        table: SlotTable,
        device: torch.device,
        policy: WindowPolicy | None = None,
    ) -> None:
        self._begin(table, device, policy)
        self.slices = slices
        rows = table.rows(slices)
        starts = [piece.start for piece in slices]
        lengths = [len(piece.token_ids) for piece in slices]
        self.query_start_loc = begins = list(accumulate(lengths, initial=0))  # [S + 1]
        self.num_tokens = num_tokens = begins[-1]

        inputs = table.inputs(num_tokens)
        self.packed = packed = inputs.packed
        token_ids = [token_id for piece in slices for token_id in piece.token_ids]
        if num_tokens == len(slices):
            packed[0], packed[1] = token_ids, starts
            packed[2:] = table.slots[:, rows, starts]
            self.decode_indices = list(range(num_tokens))
            self._decode_rows = rows
        else:
            packed[0] = token_ids
            packed[1] = np.arange(num_tokens) + np.repeat(np.subtract(starts, begins[:-1]), lengths)
            packed[2:] = table.slots[:, np.repeat(rows, lengths), packed[1]]
            self.decode_indices = [index for index, length in enumerate(lengths) if length == 1]
            self._decode_rows = [rows[index] for index in self.decode_indices]
            self.prefills = [
                PrefillSpan(
                    index, rows[index], begins[index], begins[index + 1], starts[index], starts[index] + length
                )
                for index, length in enumerate(lengths)
                if length > 1
            ]  # fmt: skip
            if self.decode_indices:
                self.decode_tokens = self.copies.to_device(np.array([begins[i] for i in self.decode_indices]))
        self._decode_lens = [starts[index] + 1 for index in self.decode_indices]
        self.input_ids, self.position_ids, *self._slot_mappings = inputs.to_device(
            self.copies
        )  # [1, T], [1, T], [T] a group

        if num_tokens != len(slices) or not all([piece.samples or piece.all_logits for piece in slices]):
            needed = self._needed_logits()
            if len(needed) != num_tokens:
                self.logit_indices = self.copies.to_device(np.array(needed, np.int64))

    def _begin(self, table: SlotTable, device: torch.device, policy: WindowPolicy | None) -> None:
        """Initialize the fields that every step has; the caches of keys are empty."""
        self.policy = policy
        self._table = table
        self._device = device
        self.copies = host_copies(device)
        self.prefills = []
        self.decode_tokens = self.logit_indices = None
        self._reaches: dict[tuple[int, int | None], AttentionSpan] = {}
        self._decode_keys: dict[AttentionSpan, DecodeKeys] = {}
        self._decode_tables: dict[AttentionSpan, DecodeTables] = {}
        self._step_tables: dict[int, StepTables] = {}  # by group
        self._prefill_keys: dict[tuple[int, AttentionSpan], PrefillKeys] = {}
        self._prefill_spans: dict[AttentionSpan, array[int]] = {}
        self._head_rows: dict[tuple[AttentionSpan, int], Tensor] = {}
        self._decode_bias: dict[tuple[AttentionSpan, int], Tensor] = {}

    def _needed_logits(self) -> list[int]:
        """Return the packed tokens whose logits are needed, in order: all of some slices, the last of
        sampling ones, and of their drafts."""
        needed: list[int] = []
        begin = 0
        for piece, end in zip(self.slices, self.query_start_loc[1:], strict=True):
            if piece.all_logits:
                needed += range(begin, end)
            elif piece.samples:
                needed += range(end - 1 - piece.num_drafts, end)
            begin = end
        return needed

    @property
    def num_decodes(self) -> int:
        return len(self.decode_indices)

    @property
    def longest(self) -> int:
        """Maximum number of tokens, computed and new, of a decoding sequence."""
        return max(self._decode_lens)

    @property
    def is_on_cpu(self) -> bool:
        """Whether the model is on the CPU."""
        return self._device.type == "cpu"

    def reach(self, layer: int, window: int | None) -> AttentionSpan:
        """Return the reach of a layer with this sliding window (tokens; None = full) in this step."""
        reach = self._reaches.get((layer, window))
        if reach is None:
            reach = AttentionSpan(window) if self.policy is None else self.policy.reach(layer, window)
            self._reaches[layer, window] = reach
        return reach

    def group(self, layer: int, window: int | None) -> int:
        """Return the group of layers whose block tables serve this layer."""
        return self._table.group(self.reach(layer, window))

    def first_block(self, group: int) -> int:
        """Return the id of the first block in the tensors of a group's layers."""
        return self._table.first_blocks[group]

    def slot_mapping(self, reach: AttentionSpan) -> Tensor:
        """Return the slots [T] of the step's tokens in layers with this reach."""
        return self._slot_mappings[self._table.group(reach)]

    def decode_keys(self, reach: AttentionSpan) -> DecodeKeys:
        """Return the keys of the decoding sequences for layers with this reach."""
        keys = self._decode_keys.get(reach)
        if keys is None:
            keys = self._decode_keys[reach] = self._make_decode_keys(reach)
        return keys

    def _make_decode_keys(self, reach: AttentionSpan) -> DecodeKeys:
        lens, group = self._decode_lens, self._table.group(reach)
        slot_rows = self._table.slots[group]
        starts = [reach.first_key(length - 1) for length in lens]
        counts = [length - start for length, start in zip(lens, starts, strict=True)]
        longest = max(counts)
        first_slot = None
        if len(lens) == 1 and self._table.runs[group][self._decode_rows[0]] >= lens[0]:
            first_slot = int(slot_rows[self._decode_rows[0], starts[0]])
        if any(starts):
            positions = np.asarray(starts)[:, None] + np.arange(longest)
            np.minimum(positions, slot_rows.shape[1] - 1, out=positions)
            slots = slot_rows[np.asarray(self._decode_rows)[:, None], positions]
        elif self._decode_rows == list(range(row := self._decode_rows[0], row + len(lens))):
            slots = slot_rows[row : row + len(lens), :longest]  # a view
        else:
            slots = slot_rows[self._decode_rows, :longest]
        mask = None
        if min(counts) < longest or any(reach.hides_between(length - 1) for length in lens):
            queries, keys = np.asarray(lens)[:, None] - 1, np.asarray(starts)[:, None] + np.arange(longest)
            hidden = keys > queries
            if reach.window is not None:
                hidden |= (keys <= queries - reach.window) & (keys >= reach.sinks)
            mask = self.copies.to_device(hidden)[:, None, :]
        return DecodeKeys(self.copies.to_device(slots), mask, starts, first_slot, longest)

    def decode_tables(self, reach: AttentionSpan) -> DecodeTables:
        """Return block tables and key ranges of the decoding sequences for layers with this reach."""
        tables = self._decode_tables.get(reach)
        if tables is None:
            tables = self._decode_tables[reach] = self._make_decode_tables(reach)
        return tables

    def _make_decode_tables(self, reach: AttentionSpan) -> DecodeTables:
        places, lens, starts = self.decode_places(reach)
        ranges = self.copies.to_device(np.array([lens, starts], dtype=np.int32))
        longest = max(length - start for length, start in zip(lens, starts, strict=True))
        return DecodeTables(self.copies.to_device(places), ranges[0], ranges[1], starts, longest)

    def decode_places(self, reach: AttentionSpan) -> tuple[npt.NDArray[np.int32], list[int], list[int]]:
        """Return the contents of `decode_tables` on the host: block tables, lengths, starts."""
        assert not reach.sinks, "a range of keys cannot leave out those between the sinks and the window"
        starts = [reach.first_key(length - 1) for length in self._decode_lens]
        return self._places(self.decode_indices, self._table.group(reach)), self._decode_lens, starts

    def step_tables(self, reach: AttentionSpan) -> StepTables:
        """Return the block tables of all slices for layers with this reach."""
        group = self._table.group(reach)
        tables = self._step_tables.get(group)
        if tables is None:
            counts = [len(piece.token_ids) for piece in self.slices]
            lengths = [piece.start + count for piece, count in zip(self.slices, counts, strict=True)]
            on_device = [self.copies.to_device(np.array(x, np.int32)) for x in (self.query_start_loc, lengths)]
            block_tables = self.copies.to_device(self._places(range(len(self.slices)), group))
            tables = StepTables(on_device[0], block_tables, on_device[1], max(counts), max(lengths))
            self._step_tables[group] = tables
        return tables

    def _places(self, indices: Sequence[int], group: int) -> npt.NDArray[np.int32]:
        """Return the block tables of these slices as places [n, B] int32; 0 is padding or a released block."""
        block_tables = [self.slices[index].block_tables[group] for index in indices]
        padded = np.full((len(block_tables), max(map(len, block_tables))), RELEASED, dtype=np.int32)
        for row, block_table in enumerate(block_tables):
            padded[row, : len(block_table)] = block_table
        places: npt.NDArray[np.int32] = self._table.place(padded, group)
        return np.maximum(places, 0, out=places)

    def decode_bias(self, reach: AttentionSpan, num_kv_heads: int, dtype: torch.dtype) -> Tensor:
        """Return a bias for the scores of decoding sequences: [n * Hkv, 1, L], -inf at masked keys, or one zero."""
        bias = self._decode_bias.get((reach, num_kv_heads))
        if bias is None:
            mask = self.decode_keys(reach).mask
            if mask is None:
                bias = torch.zeros((1, 1, 1), dtype=dtype, device=self._device)
            else:
                bias = torch.zeros(mask.shape, dtype=dtype, device=self._device).masked_fill_(mask, float("-inf"))
                bias = bias.repeat_interleave(num_kv_heads, dim=0)
            self._decode_bias[reach, num_kv_heads] = bias
        return bias

    def decode_head_rows(self, reach: AttentionSpan, num_kv_heads: int) -> Tensor:
        """Return the store's rows for each sequence and KV head: flattened [n, Hkv, L], row = slot * Hkv + head."""
        rows = self._head_rows.get((reach, num_kv_heads))
        if rows is None:
            slots = self.decode_keys(reach).slots
            heads = torch.arange(num_kv_heads, device=self._device)
            rows = (slots[:, None, :] * num_kv_heads + heads[:, None]).flatten()
            self._head_rows[reach, num_kv_heads] = rows
        return rows

    def prefill_slots(self, span: PrefillSpan, reach: AttentionSpan) -> tuple[int, IntArray]:
        """Return the first key that a prefilling sequence sees in layers with this reach, and the slots [C] from it."""
        key_start = reach.first_key(span.start)
        return key_start, self._table.slots[self._table.group(reach), span.row, key_start : span.context_len]

    def prefill_spans(self, reach: AttentionSpan) -> array[int]:
        """Return all prefilling sequences as an array of kernels/attention.h's `Span`, valid while this batch lives."""
        found = self._prefill_spans.get(reach)
        if found is None:
            found, before = array("q"), 0
            for span in self.prefills:
                key_start, slots = self.prefill_slots(span, reach)
                count, length = span.end - span.begin, slots.shape[0]
                row = span.begin, span.end, span.start - key_start, length, slots.ctypes.data, before, span.slice_index
                found.extend(row)
                before += count * length
            self._prefill_spans[reach] = found
        return found

    def prefill_keys(self, span: PrefillSpan, reach: AttentionSpan) -> PrefillKeys:
        """Return the keys of a prefilling sequence for layers with this reach."""
        keys = self._prefill_keys.get((span.slice_index, reach))
        if keys is None:
            keys = self._prefill_keys[span.slice_index, reach] = self._make_prefill_keys(span, reach)
        return keys

    def _make_prefill_keys(self, span: PrefillSpan, reach: AttentionSpan) -> PrefillKeys:
        key_start, slots = self.prefill_slots(span, reach)
        contiguous = self._table.runs[self._table.group(reach)][span.row] >= span.context_len
        queries = torch.arange(span.start, span.context_len, device=self._device)[:, None]  # [T, 1]
        keys = torch.arange(key_start, span.context_len, device=self._device)[None, :]  # [1, C]
        mask = keys > queries
        if reach.window is not None:
            mask |= (keys <= queries - reach.window) & (keys >= reach.sinks)
        first_slot = int(slots[0]) if contiguous else None
        return PrefillKeys(self.copies.to_device(slots), mask, key_start, first_slot)
