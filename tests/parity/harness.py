"""Driver of a `ModelRunner` over scattered blocks, and transformers' plain forward pass as the reference."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engine.cache.attention_span import AttentionSpan
from engine.model.batch import SequenceSlice
from engine.model.capture import CaptureRequest
from engine.model.loaded import LoadedModel
from engine.model.runner import ForwardResult, ModelRunner

TOLERANCE = 1e-5


def random_prompt(length: int, vocab_size: int, seed: int) -> list[int]:
    return [random.Random(seed * 1000 + i).randrange(3, vocab_size) for i in range(length)]


def eager_forward(model: Any, token_ids: Sequence[int]) -> Any:
    """Return logits, attentions, residual states and cache of the whole sequence by transformers' eager attention."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            ids = torch.tensor([list(token_ids)])
            return model(ids, output_attentions=True, output_hidden_states=True, use_cache=True)
    finally:
        model.set_attn_implementation(before)


class Blocks:
    """Allocator of block ids in a shuffled order, so that no two logical neighbours are physical ones."""

    def __init__(self, num_blocks: int, block_size: int, seed: int = 0) -> None:
        self.block_size = block_size
        self._free = list(range(num_blocks))
        random.Random(seed).shuffle(self._free)
        self.tables: dict[int, list[int]] = {}

    def table(self, seq_id: int, num_tokens: int) -> list[int]:
        table = self.tables.setdefault(seq_id, [])
        while len(table) * self.block_size < num_tokens:
            table.append(self._free.pop())
        return table


class Driver:
    """Feeds known token sequences through a runner step by step, keeping the logits of every sampled position."""

    def __init__(self, model: LoadedModel, block_size: int, num_blocks: int, max_model_len: int = 64, **options: Any):
        self.runner = ModelRunner(model, num_blocks, block_size, max_model_len, **options)
        self.blocks = Blocks(num_blocks, block_size)
        self.done: dict[int, int] = {}
        self.logits: dict[tuple[int, int], Tensor] = {}  # (seq_id, position) -> [V]

    def slice(self, seq_id: int, tokens: Sequence[int], count: int, samples: bool = True) -> SequenceSlice:
        start = self.done.get(seq_id, 0)
        self.done[seq_id] = start + count
        table = self.blocks.table(seq_id, start + count)
        return SequenceSlice(seq_id, list(tokens[start : start + count]), start, [table], samples)

    def step(self, slices: list[SequenceSlice], capture: CaptureRequest | None = None) -> ForwardResult:
        result = self.runner.execute(slices, capture)
        sampling = [piece for piece in slices if piece.samples]
        assert result.logits.shape[0] == len(sampling)
        for piece, row in zip(sampling, result.logits, strict=True):
            self.logits[piece.seq_id, piece.start + len(piece.token_ids) - 1] = row.cpu()
        return result


def mixed_schedule(
    driver: Driver, sequences: dict[int, list[int]], capture: CaptureRequest | None = None
) -> list[ForwardResult]:
    """Whole and chunked prefills, decodes, and steps that mix them; every sequence ends fully computed."""
    first, second, third = sequences
    results = []

    def step(*shares: tuple[int, int, bool]) -> None:
        pieces = [driver.slice(seq, sequences[seq], count, samples) for seq, count, samples in shares]
        results.append(driver.step(pieces, capture))

    step((first, 7, True))  # one whole prompt
    step((first, 1, True), (second, 4, False))  # decode beside the first chunk of a prompt
    step((second, 6, True), (first, 1, True), (third, 3, False))  # a second chunk in front of the decode
    step((third, 1, True), (first, 1, True), (second, 1, True))  # a chunk of one token looks like a decode
    while any(driver.done[seq] < len(tokens) for seq, tokens in sequences.items()):
        step(*[(seq, 1, True) for seq, tokens in sequences.items() if driver.done[seq] < len(tokens)])
    return results


def masked_forward(module: Any, token_ids: list[int], reach: AttentionSpan) -> Any:
    """Return transformers' eager forward pass of the whole sequence under a dense mask: hidden keys get -inf in every
    layer.
    """
    assert reach.window is not None
    count = len(token_ids)
    queries, keys = torch.arange(count)[:, None], torch.arange(count)[None, :]
    seen = (keys <= queries) & ((keys < reach.sinks) | (queries - keys < reach.window))
    mask = torch.zeros(count, count).masked_fill(~seen, torch.finfo(torch.float32).min)[None, None]
    before = module.config._attn_implementation
    module.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            return module(torch.tensor([token_ids]), attention_mask=mask, output_attentions=True)
    finally:
        module.set_attn_implementation(before)
