"""Ablation: switches attention heads or whole layers off, from a given record of a run on.

A head that is off passes zeros to the output projection; a layer that is off passes its input through. Both still
write their keys and values. An ablation applies to tokens, not to steps: if a sequence had been computed up to some
position when the ablation began, the earlier positions stay unablated even when they are recomputed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from engine.cache.ablate_settings import Off
from engine.model.batch import SequenceSlice
from engine.model.decoder_layers import decoder_layers

NEVER = 1 << 60


class Rows(NamedTuple):
    """Mask [T] over the packed tokens of a step: True where the head or layer `off` is off."""

    off: Off
    tokens: Tensor


class Ablation:
    """Ablations of an engine, with the first ablated position of each sequence."""

    def __init__(self, offs: Sequence[Off]) -> None:
        self._offs = list(offs)
        self._begins: dict[Off, tuple[int, dict[int, int]]] = {}  # first later seq_id; positions of earlier ones

    def begin(self, num_records: int, next_seq_id: int, num_computed: Mapping[int, int]) -> bool:
        """Begin the ablations of record `num_records`, and return whether there are any.

        `num_computed` maps each unfinished sequence to the number of its tokens that have ever been computed.
        Sequences from `next_seq_id` on are ablated at every position, finished ones at none.
        """
        due = [off for off in self._offs if off.record == num_records]
        self._begins.update((off, (next_seq_id, dict(num_computed))) for off in due)
        return bool(due)

    def first(self, off: Off, seq_id: int) -> int:
        """Return the first position of a sequence at which `off` applies."""
        if off not in self._begins:
            return NEVER
        next_seq_id, positions = self._begins[off]
        return positions.get(seq_id, 0 if seq_id >= next_seq_id else NEVER)

    def fork(self, parent_seq_id: int, seq_id: int) -> None:
        """Copy the parent's first ablated positions to a child."""
        for _, positions in self._begins.values():
            if parent_seq_id in positions:
                positions[seq_id] = positions[parent_seq_id]

    def mark(self, seq_id: int, start: int, end: int) -> bytes:
        """Return bytes for the block hash that identify the ablations of positions [start, end), b"" for none."""
        found = b""
        for off in self._offs:
            if (first := self.first(off, seq_id)) < end:
                head = -1 if off.head is None else off.head
                found += struct.pack("<qqq", off.layer, head, max(first - start, 0))
        return found

    def rows(self, slices: Sequence[SequenceSlice], device: torch.device) -> list[Rows]:
        """Return the token masks of the ablations that apply to some token of a step."""
        found = []
        for off in self._offs:
            mask = [
                position >= self.first(off, piece.seq_id)
                for piece in slices
                for position in range(piece.start, piece.start + len(piece.token_ids))
            ]
            if any(mask):
                found.append(Rows(off, torch.tensor(mask, device=device)))
        return found


def without_heads(rows: Sequence[Rows], layer: int, out: Tensor) -> Tensor:
    """Return a layer's attention outputs [T, Hq, Dv], with zeros for heads that are off."""
    own = [row for row in rows if row.off.layer == layer and row.off.head is not None]
    if own:
        out = out.clone()
        for off, tokens in own:
            out[tokens, off.head] = 0
    return out


@contextmanager
def without_layers(rows: Sequence[Rows], module: Any, is_own: Callable[[], bool]) -> Iterator[None]:
    """Inside the `with`, layers that are off pass their input through, in passes for which `is_own()` holds."""
    with ExitStack() as hooks:
        for off, tokens in rows:
            if off.head is None:
                inputs: list[Tensor] = []

                def save_input(_: nn.Module, args: Any, kwargs: Any, inputs: list[Tensor] = inputs) -> None:
                    if is_own():  # the layer may write into its input
                        inputs[:] = [(args[0] if args else kwargs["hidden_states"]).clone()]

                def replace_output(
                    _: nn.Module, args: Any, output: Any, inputs: list[Tensor] = inputs, tokens: Tensor = tokens
                ) -> Any:
                    if not is_own():
                        return None
                    is_tensor = isinstance(output, Tensor)
                    passed = torch.where(tokens[None, :, None], inputs.pop(), output if is_tensor else output[0])
                    return passed if is_tensor else (passed, *output[1:])

                layer = decoder_layers(module)[off.layer]
                hooks.callback(layer.register_forward_pre_hook(save_input, with_kwargs=True).remove)
                hooks.callback(layer.register_forward_hook(replace_output, prepend=True).remove)
        yield
