"""Paged logits against transformers' own eager forward of the whole sequence."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from engine.cache.block_moves import BlockMoves
from engine.model.batch import SequenceSlice
from engine.model.loaded import LoadedModel
from engine.model.loader import from_module
from engine.model.runner import ModelRunner
from tests.parity.harness import TOLERANCE, Blocks, Driver, eager_forward, mixed_schedule, random_prompt
from tests.tiny_models import FAMILIES, VOCAB_SIZE, tiny_model

LENGTHS = {5: 14, 9: 18, 2: 11}  # seq_id -> tokens; longer than the sliding windows


class Case(NamedTuple):
    model: LoadedModel
    sequences: dict[int, list[int]]
    expected: dict[int, Tensor]  # seq_id -> [tokens, V]


@pytest.fixture(scope="module", params=sorted(FAMILIES))
def case(request: Any) -> Case:
    module = tiny_model(request.param)
    sequences = {seq: random_prompt(length, VOCAB_SIZE, seq) for seq, length in LENGTHS.items()}
    # Before `from_module` changes the weights' layout.
    expected = {seq: eager_forward(module, tokens).logits[0] for seq, tokens in sequences.items()}
    return Case(from_module(module), sequences, expected)


@pytest.mark.parametrize(("block_size", "num_blocks"), [(1, 64), (4, 16), (16, 6), (64, 3)])
def test_mixed_steps_over_scattered_blocks(case: Case, block_size: int, num_blocks: int) -> None:
    """Steps are packed, chunked, and mix prefill and decode; block_size 64 is the contiguous layout, a block a
    sequence.
    """
    driver = Driver(case.model, block_size, num_blocks)
    mixed_schedule(driver, case.sequences)
    assert len(driver.logits) == 25
    for (seq, position), logits in driver.logits.items():
        assert (logits - case.expected[seq][position]).abs().max() <= TOLERANCE, (seq, position)


def test_padding_reads_nothing_of_other_sequences(case: Case) -> None:
    """A long and a short sequence decode together; unused slots have garbage."""
    driver = Driver(case.model, 4, 16)
    for pool in driver.runner.kv_store.pools(range(driver.runner.kv_store.num_layers)):
        pool.fill_(1e4)
    long, short = case.sequences[9], case.sequences[2]
    driver.step([driver.slice(9, long, 17), driver.slice(2, short, 2)])
    driver.step([driver.slice(9, long, 1), driver.slice(2, short, 1)])
    assert (driver.logits[9, 17] - case.expected[9][17]).abs().max() <= TOLERANCE
    assert (driver.logits[2, 2] - case.expected[2][2]).abs().max() <= TOLERANCE


def test_a_block_table_may_change_between_steps(case: Case) -> None:
    """Copy-on-write copies the tail block, changes the table, and the original is overwritten."""
    driver = Driver(case.model, 4, 16)
    tokens = case.sequences[9]
    driver.step([driver.slice(9, tokens, 6)])
    old = driver.blocks.tables[9][1]
    new = driver.blocks.table(77, 1)[0]
    driver.runner.move_blocks([BlockMoves(swap_out=[], swap_in=[], copy=[(old, new)])])
    driver.blocks.tables[9][1] = new
    for pool in driver.runner.kv_store.pools(range(driver.runner.kv_store.num_layers)):
        pool[old].fill_(1e4)
    driver.step([driver.slice(9, tokens, 1)])
    assert (driver.logits[9, 6] - case.expected[9][6]).abs().max() <= TOLERANCE


def test_more_sequences_than_rows_of_the_slot_table() -> None:
    """A step has 40 sequences, the next 40 others: rows grow, then are reused."""
    module = tiny_model("llama")
    prompts = {seq: random_prompt(3 + seq % 3, VOCAB_SIZE, seq) for seq in range(80)}
    expected = {seq: eager_forward(module, tokens).logits[0, -1] for seq, tokens in prompts.items()}
    runner = ModelRunner(from_module(module), num_blocks=200, block_size=4, max_model_len=16)
    blocks = Blocks(200, 4)
    for group in (range(40), range(40, 80), range(0, 80, 7)):
        pieces = [SequenceSlice(s, prompts[s], 0, [blocks.table(s, len(prompts[s]))], True) for s in group]
        for seq, logits in zip(group, runner.execute(pieces).logits, strict=True):
            assert (logits - expected[seq]).abs().max() <= TOLERANCE


def test_chunks_without_samples_return_no_logits() -> None:
    driver = Driver(from_module(tiny_model("llama")), 4, 16)
    result = driver.step([driver.slice(0, random_prompt(6, VOCAB_SIZE, 0), 6, samples=False)])
    assert result.logits.shape == (0, VOCAB_SIZE)
    assert driver.runner.execute([]).logits.shape == (0, VOCAB_SIZE)


@pytest.mark.parametrize("kv_cache_dtype", ["float16", "bfloat16"])
def test_a_narrower_cache_is_close(kv_cache_dtype: str) -> None:
    module = tiny_model("llama")
    sequences = {seq: random_prompt(length, VOCAB_SIZE, seq) for seq, length in LENGTHS.items()}
    expected = {seq: eager_forward(module, tokens).logits[0] for seq, tokens in sequences.items()}
    driver = Driver(from_module(module), 4, 16, kv_cache_dtype=kv_cache_dtype)
    mixed_schedule(driver, sequences)
    worst = max(float((row - expected[seq][pos]).abs().max()) for (seq, pos), row in driver.logits.items())
    assert 0 < worst < (0.02 if kv_cache_dtype == "float16" else 0.15)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_oss", "deepseek_v3"])
def test_on_a_gpu(family: str) -> None:
    module = tiny_model(family)
    sequences = {seq: random_prompt(length, VOCAB_SIZE, seq) for seq, length in LENGTHS.items()}
    expected = {seq: eager_forward(module, tokens).logits[0] for seq, tokens in sequences.items()}
    driver = Driver(from_module(module.to("cuda")), 4, 16)
    mixed_schedule(driver, sequences)
    for (seq, position), logits in driver.logits.items():
        assert (logits - expected[seq][position]).abs().max() <= 1e-4
