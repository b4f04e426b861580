"""Planes return written vectors within the rounding error of their kind and have the sizes of the formula."""

import pytest
import torch

from engine.cache.kv_plane import make_plane

SHAPE = (3, 4, 2, 8)  # 3 blocks of 4 slots, 2 heads, vectors of 8
CPU = torch.device("cpu")
KINDS: dict[str | torch.dtype, int] = {  # kind: bytes of one slot = 2 heads * bytes of a vector of 8
    torch.float32: 2 * 8 * 4,
    torch.bfloat16: 2 * 8 * 2,
    "fp8": 2 * 8,
    "int8": 2 * (8 + 2),
    "int4": 2 * (8 // 2 + 4),
}


def vectors(seed: int, count: int = 5) -> torch.Tensor:
    return torch.randn((count, 2, 8), generator=torch.Generator().manual_seed(seed)) * 3


def largest_error(kind: object, x: torch.Tensor) -> torch.Tensor:
    """Return half a rounding step for each vector. Scales in float16 add one part in 2048."""
    if kind == torch.float32:
        return torch.zeros_like(x)
    if kind == torch.bfloat16:
        return x.abs() / 2**8
    if kind == "fp8":
        return (x.abs() / 2**4).clamp(min=2**-10)
    if kind == "int8":
        return x.abs().amax(-1, keepdim=True) / 127 * 0.5 * 1.2 + 0.01
    return (x.amax(-1, keepdim=True) - x.amin(-1, keepdim=True)) / 15 * 0.5 * 1.1 + 0.01


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_bytes_follow_the_formula(kind: str | torch.dtype) -> None:
    assert make_plane(kind, SHAPE, torch.float32, CPU).bytes_per_slot == KINDS[kind]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_all_read_methods_give_equal_vectors_within_the_rounding_error(kind: str | torch.dtype) -> None:
    plane = make_plane(kind, SHAPE, torch.float32, CPU)
    x = vectors(0)
    slots = torch.tensor([7, 2, 3, 4, 11])
    plane.write(slots, x)
    read = plane.read(slots)
    assert read.dtype == torch.float32
    assert bool(((read - x).abs() <= largest_error(kind, x)).all())
    rows = (slots[:, None] * 2 + torch.tensor([0, 1])).flatten()
    assert torch.equal(plane.read_heads(rows).view(5, 2, 8), read)
    assert torch.equal(plane.view(2, 3), read[1:4])


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_writes_replace_only_their_own_slots(kind: str | torch.dtype) -> None:
    plane = make_plane(kind, SHAPE, torch.float32, CPU)
    plane.write(torch.tensor([5]), vectors(1, 1))
    before = plane.read(torch.tensor([5]))
    plane.write(torch.tensor([4, 6]), vectors(2, 2))
    assert torch.equal(plane.read(torch.tensor([5])), before)
    replacement = vectors(3, 1)
    plane.write(torch.tensor([5]), replacement)
    assert bool(((plane.read(torch.tensor([5])) - replacement).abs() <= largest_error(kind, replacement)).all())


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("value", [0.0, -2.5, 1e-7])
def test_constant_vectors_round_trip(kind: str | torch.dtype, value: float) -> None:
    """A vector without a range of values does not cause a division by zero."""
    plane = make_plane(kind, SHAPE, torch.float32, CPU)
    plane.write(torch.tensor([0]), torch.full((1, 2, 8), value))
    assert torch.allclose(plane.read(torch.tensor([0])), torch.full((1, 2, 8), value), atol=0.02)


def test_unwritten_slots_read_as_zero() -> None:
    """Padded gathers read unwritten slots, where a NaN would spoil the sum even under a weight of zero."""
    for kind in KINDS:
        assert not make_plane(kind, SHAPE, torch.float32, CPU).view(0, 12).any()


def test_values_over_the_fp8_range_saturate() -> None:
    plane = make_plane("fp8", SHAPE, torch.float32, CPU)
    plane.write(torch.tensor([0]), torch.full((1, 2, 8), 1e6))
    assert plane.read(torch.tensor([0])).max() == 448


def test_int4_needs_even_vectors() -> None:
    with pytest.raises(ValueError, match="even"):
        make_plane("int4", (1, 1, 1, 3), torch.float32, CPU)
