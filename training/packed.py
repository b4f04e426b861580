"""Rows of token ids that are packed in advance, because the data pipeline is slower than a GPU.

LENGTH.ids     [N, LENGTH] uint16
LENGTH.starts  [N, LENGTH / 8] uint8, a bit per token: whether a document or the padding begins there
LENGTH.ends    [N] int32: index where the padding begins
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from training.data import IGNORED, Batch, Tokens

BYTES_PER_TOKEN = 2 + 1 / 8  # in a packed row


@dataclass(frozen=True, slots=True)
class PackedRows:
    """N rows of one length, on a device."""

    ids: Tensor  # [N, T] uint16
    starts: Tensor  # [N, T] bool
    ends: Tensor  # [N] int32

    def to(self, device: torch.device) -> PackedRows:
        return replace(self, ids=self.ids.to(device), starts=self.starts.to(device), ends=self.ends.to(device))

    def batch(self, rows: Tensor) -> Batch:
        """Return the batch of the rows with indices `rows` [B], in the layout of `training.data.collate`."""
        ids, starts = self.ids.view(torch.int16)[rows].long() & 0xFFFF, self.starts[rows]
        length, device = ids.shape[1], ids.device
        places = torch.arange(length, device=device)
        owner = starts.cumsum(1)  # [B, T] index of the document in the row
        positions = places - torch.where(starts, places, 0).cummax(1).values
        is_padding = places >= self.ends[rows, None]
        is_last = torch.ones_like(starts)
        is_last[:, :-1] = starts[:, 1:]
        targets = ids.roll(-1, 1).masked_fill_(is_last | is_padding, IGNORED)
        positions = positions.masked_fill(is_padding, 0)
        same = owner[:, :, None] == owner[:, None, :]  # [B, T, T]
        causal = torch.ones(length, length, dtype=torch.bool, device=device).tril()
        return Batch(ids, targets, positions, (same & causal)[:, None])

    def batches(self, count: int, seed: int, skip: int, device: torch.device) -> Iterator[Batch]:
        """Yield endless batches of `count` rows, without the first `skip`. Each pass over the rows is shuffled anew."""
        total = self.ids.shape[0]
        each = max(1, total // count)  # batches per pass
        number = skip
        while True:
            generator = torch.Generator().manual_seed(seed + number // each)
            order = torch.randperm(total, generator=generator).to(device)
            while True:
                begin = number % each * count
                yield self.batch(order[begin : begin + count])
                number += 1
                if number % each == 0:
                    break


def packed_rows(rows: Sequence[list[Tokens]], length: int, pad: int) -> dict[str, Tensor]:
    """Return the tensors of rows of documents, for `write_packed`."""
    ids = np.full((len(rows), length), pad, dtype=np.uint16)
    starts = np.zeros((len(rows), length), dtype=bool)
    ends = np.zeros(len(rows), dtype=np.int32)
    for index, row in enumerate(rows):
        at = 0
        for document in row:
            ids[index, at : at + len(document)] = document
            starts[index, at] = True
            at += len(document)
        if at < length:
            starts[index, at] = True
        ends[index] = at
    return {
        f"{length}.ids": torch.from_numpy(ids),
        f"{length}.starts": torch.from_numpy(np.packbits(starts, axis=1)),
        f"{length}.ends": torch.from_numpy(ends),
    }


def write_packed(tensors: dict[str, Tensor], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path)


def read_packed(path: Path) -> dict[int, PackedRows]:
    """Read a file of `write_packed`. Returns row length -> rows."""
    found = load_file(path)
    lengths = sorted({int(name.split(".")[0]) for name in found})
    return {
        length: PackedRows(
            found[f"{length}.ids"],
            torch.from_numpy(np.unpackbits(found[f"{length}.starts"].numpy(), axis=1)).bool(),
            found[f"{length}.ends"],
        )
        for length in lengths
    }
