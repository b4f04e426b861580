"""Packed rows give the batches of their documents."""

import random
from itertools import islice
from pathlib import Path

import pytest
import torch

from training.data import Tokens, collate, rows
from training.packed import packed_rows, read_packed, write_packed
from training.verdict import compared, loops

LENGTH, PAD = 64, 7


@pytest.fixture
def document_rows() -> list[list[Tokens]]:
    """Return rows of documents, some truncated and some padded, with ids over 2**15."""
    draw = random.Random(3)
    stream = [[draw.randrange(65_000) for _ in range(draw.randrange(2, 60))] for _ in range(300)]
    return list(islice(rows(stream, LENGTH), 40))


def test_a_batch_of_packed_rows_is_that_of_collated_documents(
    document_rows: list[list[Tokens]], tmp_path: Path
) -> None:
    assert any(sum(map(len, row)) < LENGTH for row in document_rows) and any(len(row) > 1 for row in document_rows)
    write_packed(packed_rows(document_rows, LENGTH, PAD), tmp_path / "packed.safetensors")
    packed = read_packed(tmp_path / "packed.safetensors")[LENGTH]
    found, expected = packed.batch(torch.arange(len(document_rows))), collate(document_rows, LENGTH, PAD)
    assert torch.equal(found.ids, expected.ids) and torch.equal(found.targets, expected.targets)
    assert torch.equal(found.positions, expected.positions) and torch.equal(found.mask, expected.mask)


def test_each_pass_shuffles_the_rows_and_a_resumed_run_continues(document_rows: list[list[Tokens]]) -> None:
    tensors = packed_rows(document_rows, LENGTH, PAD)
    starts = torch.zeros((len(document_rows), LENGTH), dtype=torch.bool)
    from training.packed import PackedRows

    packed = PackedRows(tensors[f"{LENGTH}.ids"], starts, tensors[f"{LENGTH}.ends"])
    device = torch.device("cpu")
    first, second = (
        [tuple(row.tolist()) for batch in islice(packed.batches(8, 0, skip, device), 5) for row in batch.ids]
        for skip in (0, 5)
    )
    assert sorted(first) == sorted(second) == sorted(tuple(row.tolist()) for row in packed.batch(torch.arange(40)).ids)
    assert first != second
    resumed = next(packed.batches(8, 0, 7, device))
    assert torch.equal(resumed.ids, list(islice(packed.batches(8, 0, 0, device), 8))[7].ids)


@pytest.mark.parametrize(
    ("ids", "expected"), [([1, 2, 3] * 3, True), ([9, 5, 5, 5], True), ([1, 2, 3, 1, 2, 3], False), ([5, 5], False)]
)
def test_a_loop_is_a_sequence_three_times_at_the_end(ids: Tokens, expected: bool) -> None:
    assert loops(ids) is expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"bits a character, English": 1.9}, True),
        ({}, False),
        ({"bits a character, English": 1.9, "bits a character, Chinese": 6.1}, False),
        ({"bits a character, English": 1.9, "English that loops": 0.3}, False),
        ({"bits a character, English": 1.9, "patterns without a clear head": 3}, False),
        ({"bits a character, English": 1.9, "demonstration missing": 1}, False),
    ],
)
def test_a_better_model_improves_one_measure_and_worsens_none(changes: dict[str, float], expected: bool) -> None:
    old = {
        "bits a character, Chinese": 6.0, "bits a character, English": 2.0, "demonstration missing": 0,
        "poems not recited": 2, "English that loops": 0.2, "patterns without a clear head": 2,
    }  # fmt: skip
    assert compared({**old, **changes}, old)[1] is expected
