"""Ablation: attention heads or whole layers that are switched off from a record of a run on.

A head that is off gives zeros to the output projection; a layer that is off hands its input on. Both still write their
keys and values. What is off is a property of a token, not of a step: a sequence that was computed up to some position
when the ablation began has no head off before that position, however often it is computed again.
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
    """Packed tokens [T], of one step, for which `off` is off."""

    off: Off
    tokens: Tensor


class Ablation:
    """Ablation of an engine: from which position of each sequence on something is off."""

    def __init__(self, offs: Sequence[Off]) -> None:
        self._offs = list(offs)
        self._begins: dict[Off, tuple[int, dict[int, int]]] = {}  # first later seq_id; positions of those before it

    def begin(self, num_records: int, next_seq_id: int, num_computed: Mapping[int, int]) -> bool:
        """Begin what is due now, and return whether anything is.

        `num_computed`: of each unfinished sequence, how many of its tokens have ever been computed.

        Sequences from `next_seq_id` on are ablated as a whole, finished ones not at all.
        """
        due = [off for off in self._offs if off.record == num_records]
        self._begins.update((off, (next_seq_id, dict(num_computed))) for off in due)
        return bool(due)

    def first(self, off: Off, seq_id: int) -> int:
        """Return the first position of a sequence at which it is off."""
        if off not in self._begins:
            return NEVER
        next_seq_id, positions = self._begins[off]
        return positions.get(seq_id, 0 if seq_id >= next_seq_id else NEVER)

    def fork(self, parent_seq_id: int, seq_id: int) -> None:
        """Copy the begin of the parent's ablations to a child."""
        for _, positions in self._begins.values():
            if parent_seq_id in positions:
                positions[seq_id] = positions[parent_seq_id]

    def mark(self, seq_id: int, start: int, end: int) -> bytes:
        """Return what distinguishes the content of positions [start, end) from that of a whole model; b"": nothing."""
        found = b""
        for off in self._offs:
            if (first := self.first(off, seq_id)) < end:
                head = -1 if off.head is None else off.head
                found += struct.pack("<qqq", off.layer, head, max(first - start, 0))
        return found

    def rows(self, slices: Sequence[SequenceSlice], device: torch.device) -> list[Rows]:
        """Return the tokens of a step for which something is off."""
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
    """Return the attention outputs [T, Hq, Dv] of a layer, with zeros where a head is off."""
    own = [row for row in rows if row.off.layer == layer and row.off.head is not None]
    if own:
        out = out.clone()
        for off, tokens in own:
            out[tokens, off.head] = 0
    return out


@contextmanager
def without_layers(rows: Sequence[Rows], module: Any, is_own: Callable[[], bool]) -> Iterator[None]:
    """Inside the `with`, layers that are off hand their input on, in passes for which `is_own()` holds."""
    with ExitStack() as hooks:
        for off, tokens in rows:
            if off.head is None:
                given: list[Tensor] = []

                def begun(_: nn.Module, args: Any, kwargs: Any, given: list[Tensor] = given) -> None:
                    if is_own():
                        given[:] = [(args[0] if args else kwargs["hidden_states"]).clone()]  # it may be written into

                def ended(
                    _: nn.Module, args: Any, output: Any, given: list[Tensor] = given, tokens: Tensor = tokens
                ) -> Any:
                    if not is_own():
                        return None
                    whole = isinstance(output, Tensor)
                    passed = torch.where(tokens[None, :, None], given.pop(), output if whole else output[0])
                    return passed if whole else (passed, *output[1:])

                layer = decoder_layers(module)[off.layer]
                hooks.callback(layer.register_forward_pre_hook(begun, with_kwargs=True).remove)
                hooks.callback(layer.register_forward_hook(ended, prepend=True).remove)
        yield
