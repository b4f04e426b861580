"""Sampling: distributions, seeds, and independence of the batch."""

import math
import random

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from engine.config import SamplingParams
from engine.model import choosing
from engine.model.choosing import adjust, choose
from engine.model.host_copy import CudaCopies, HostCopies
from engine.model.native import LogitKernels, logit_kernels
from engine.model.sampling import Sampler, SamplingRow, make_generator
from tests.fake_cuda import FakeCuda

LOGITS = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0, 1.0])


def row(seed: int = 0, token_ids: tuple[int, ...] = (), **params) -> SamplingRow:
    return SamplingRow(SamplingParams(**params), make_generator(seed), token_ids)


def distribution(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    return choosing.distribution(logits[None], [params], HostCopies())[0]


def softmax(values: list[float]) -> list[float]:
    total = sum(math.exp(value) for value in values)
    return [math.exp(value) / total for value in values]


def close(found: torch.Tensor, expected: list[float]) -> None:
    assert found.tolist() == pytest.approx(expected, abs=1e-9)


def test_temperature_divides_the_logits() -> None:
    close(distribution(LOGITS, SamplingParams(temperature=0.5)), softmax([4, 2, 1, 0, -2, 2]))


def test_top_k_keeps_ties_with_the_smallest_kept_logit() -> None:
    """The second largest logit is 1.0, and there are two of them."""
    low = -math.inf
    close(distribution(LOGITS, SamplingParams(temperature=1.0, top_k=2)), softmax([2, 1, low, low, low, 1]))


def test_top_p_is_the_smallest_set_that_reaches_p() -> None:
    """Given probabilities 0.5, 0.25, 0.15 and 0.1, p = 0.6 needs the first two."""
    logits = torch.tensor([0.5, 0.25, 0.15, 0.1], dtype=torch.float64).log()
    close(distribution(logits, SamplingParams(temperature=1.0, top_p=0.6)), [2 / 3, 1 / 3, 0, 0])
    close(distribution(logits, SamplingParams(temperature=1.0, top_p=0.01)), [1, 0, 0, 0])
    close(distribution(logits, SamplingParams(temperature=1.0)), [0.5, 0.25, 0.15, 0.1])


@pytest.mark.parametrize("scale", [0.0, 0.5, 4.0])
@pytest.mark.parametrize("top_p", [0.3001, 0.9501, 0.9999])
def test_top_p_over_a_large_vocabulary_equals_a_full_sort(scale: float, top_p: float) -> None:
    """Distributions over 3000 tokens are flat or peaked and have ties, since logits are multiples of 0.25."""
    logits = (torch.randn(3000, generator=torch.Generator().manual_seed(0)) * scale * 4).round() / 4
    probs = torch.softmax(logits.double(), dim=0).tolist()
    kept, mass = set(), 0.0
    for token in sorted(range(3000), key=lambda token: (-probs[token], token)):
        if mass >= top_p - 1e-12:
            break
        kept.add(token)
        mass += probs[token]
    found = distribution(logits, SamplingParams(temperature=1.0, top_p=top_p))
    assert set(found.nonzero()[:, 0].tolist()) == kept
    assert float(found.sum()) == pytest.approx(1)


def test_min_p_is_relative_to_the_most_probable() -> None:
    logits = torch.tensor([0.5, 0.25, 0.15, 0.1], dtype=torch.float64).log()
    close(distribution(logits, SamplingParams(temperature=1.0, min_p=0.25)), [5 / 9, 2.5 / 9, 1.5 / 9, 0])


def test_top_p_applies_to_the_distribution_after_top_k() -> None:
    """top_k 3 leaves 0.556, 0.278 and 0.167 after normalization, of which top_p 0.8 keeps two."""
    logits = torch.tensor([0.5, 0.25, 0.15, 0.1], dtype=torch.float64).log()
    close(distribution(logits, SamplingParams(temperature=1.0, top_k=3, top_p=0.8)), [2 / 3, 1 / 3, 0, 0])


def test_repetition_penalty_weakens_seen_tokens_once() -> None:
    """Positive logits of seen tokens are divided and negative ones multiplied."""
    [found] = adjust(LOGITS[None], [row(token_ids=(0, 4, 0), repetition_penalty=2.0)], HostCopies())
    assert found.tolist() == [1.0, 1.0, 0.5, 0.0, -2.0, 1.0]
    assert LOGITS[0] == 2.0


def test_repetition_penalty_applies_to_greedy_sampling() -> None:
    sampler = Sampler()
    assert sampler.sample(LOGITS[None], [row()])[0].token_id == 0
    assert sampler.sample(LOGITS[None], [row(token_ids=(0,), repetition_penalty=4.0)])[0].token_id in (1, 5)


def test_draws_follow_the_distribution() -> None:
    """Each frequency of 20,000 draws is within 4.5 standard deviations."""
    probs = distribution(LOGITS, SamplingParams(temperature=1.0))
    generator = make_generator(3)
    count = 20_000
    drawn = choosing.draw(probs.expand(count, -1), torch.from_numpy(generator.random(count)))
    counts = torch.bincount(drawn, minlength=6)
    for p, found in zip(probs.tolist(), counts.tolist(), strict=True):
        assert abs(found - count * p) < 4.5 * math.sqrt(count * p * (1 - p))


def test_impossible_tokens_are_never_drawn() -> None:
    probs = torch.tensor([0.0, 0.5, 0.0, 0.5, 0.0], dtype=torch.float64)
    uniform = torch.tensor([0.0, 2.0**-53, 0.49, 0.5, 0.51, 1 - 2.0**-53], dtype=torch.float64)
    assert choosing.draw(probs.expand(6, -1), uniform).tolist() == [1, 1, 1, 3, 3, 3]


def test_seeded_draws_do_not_depend_on_the_batch() -> None:
    sampler = Sampler()
    logits = torch.randn((4, 50), generator=torch.Generator().manual_seed(1))
    tokens = []
    generator = make_generator(7)
    for _ in range(20):
        single = SamplingRow(SamplingParams(temperature=1.0), generator, [])
        tokens.append(sampler.sample(logits[2:3], [single])[0].token_id)
    shared = []
    rows = [row(seed=1, temperature=0.7), row(), row(seed=7, temperature=1.0), row(seed=9, temperature=2.0, top_k=5)]
    for _ in range(20):
        shared.append(sampler.sample(logits, rows)[2].token_id)
    assert tokens == shared
    assert len(set(tokens)) > 3


def test_logprobs_are_of_the_raw_distribution() -> None:
    expected = torch.log_softmax(LOGITS, dim=0)
    for settings in (row(), row(temperature=0.1, top_k=1, repetition_penalty=1.1, token_ids=(3,))):
        sampled = Sampler().sample(LOGITS[None], [settings], num_logprobs=3)[0]
        assert sampled.logprob == pytest.approx(float(expected[sampled.token_id]), abs=1e-6)
        assert sampled.top_ids[0] == 0 and set(sampled.top_ids[1:]) == {1, 5}
        assert sampled.top_logprobs == pytest.approx([float(expected[token]) for token in sampled.top_ids], abs=1e-6)


def test_num_logprobs_is_limited_to_the_vocabulary() -> None:
    assert len(Sampler().sample(LOGITS[None], [row()], num_logprobs=20)[0].top_ids) == 6
    assert Sampler().sample(LOGITS[None], [row()])[0].top_ids == []
    assert Sampler().sample(torch.empty((0, 6)), []) == []


@pytest.mark.parametrize("kernels", [None, logit_kernels()], ids=["torch", "c"])
def test_a_tokens_logprob_does_not_depend_on_how_it_is_computed(kernels: LogitKernels | None) -> None:
    """The token is greedy, drawn, chosen, scored or offered to a beam, in rows of a batch, a single row or a strided
    view.
    """
    sampler = Sampler(kernels)
    logits = torch.randn((7, 200), generator=torch.Generator().manual_seed(2)) * 3
    at, count = 4, 5
    (best, *_) = found = [sampler.sample(logits, [row(seed=i) for i in range(7)], count)[at]]
    drawn = [row(seed=i, temperature=2.0) for i in range(7)]
    found.append(sampler.sample(logits, drawn, count)[at])
    found.append(sampler.sample(logits, drawn, count, settled={at: best.top_ids[3]})[at])
    found.append(sampler.score(logits[at : at + 1], [best.top_ids[2]], count)[0])
    found.append(sampler.score(logits.t().contiguous().t()[at : at + 1], [best.top_ids[2]], count)[0])
    for other in found:
        assert (other.top_ids, other.top_logprobs) == (best.top_ids, best.top_logprobs)
        if other.token_id in best.top_ids:
            assert other.logprob == best.top_logprobs[best.top_ids.index(other.token_id)]
    offers = sampler.beam_candidates(logits[at], row(), count)
    assert [token for token, *_ in offers] == best.top_ids
    assert [adjusted for _, adjusted, _ in offers] == [raw for *_, raw in offers] == best.top_logprobs


def test_a_chosen_token_overrides_and_consumes_the_draw() -> None:
    sampler, logits = Sampler(), torch.zeros((1, 50))
    free, ruled = row(seed=5, temperature=1.0), row(seed=5, temperature=1.0)
    draws = [sampler.sample(logits, [free])[0] for _ in range(3)]
    first = sampler.sample(logits, [ruled], settled={0: (draws[0].token_id + 1) % 50})[0]
    assert (first.token_id, first.overruled) == ((draws[0].token_id + 1) % 50, draws[0].token_id)
    second = sampler.sample(logits, [ruled], settled={0: draws[1].token_id})[0]
    assert (second.token_id, second.overruled) == (draws[1].token_id, None)
    assert sampler.sample(logits, [ruled])[0] == draws[2]


def any_row(index: int, width: int) -> SamplingRow:
    """Return a row with a random mixture of sampling parameters."""
    rng = random.Random(index)
    bias = {rng.randrange(width): rng.choice([-100.0, 5.0]) for _ in range(rng.choice([0, 0, 3]))}
    params = SamplingParams(
        temperature=rng.choice([0.0, 0.3, 1.0, 2.0]),
        top_k=rng.choice([0, 1, 5, width]),
        top_p=rng.choice([1.0, 0.2, 0.95]),
        min_p=rng.choice([0.0, 0.1]),
        repetition_penalty=rng.choice([1.0, 1.3]),
        logit_bias=bias,
    )
    banned = frozenset(rng.sample(range(width), rng.choice([0, 2])))
    return SamplingRow(params, make_generator(index), [rng.randrange(width) for _ in range(9)], banned)


class NoWaiting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that fails on operations that wait for the device."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket._qualified_op_name
        masked = name.startswith(("aten::index", "aten::_index")) and any(
            isinstance(one, torch.Tensor) and one.dtype == torch.bool
            for many in args
            if isinstance(many, (list, tuple))
            for one in many
        )
        if masked or name in ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal"):
            raise AssertionError(f"{name} waits for the device")
        return function(*args, **(kwargs or {}))


def as_on_a_device(monkeypatch: pytest.MonkeyPatch) -> tuple[CudaCopies, FakeCuda]:
    cuda = FakeCuda()
    read = torch.Tensor.tolist

    def tolist(tensor: torch.Tensor) -> object:
        assert cuda.waited, "read before the copy has finished"
        return read(tensor)

    monkeypatch.setattr(torch.Tensor, "tolist", tolist)
    return CudaCopies(torch.device("cpu"), cuda, pin_memory=False), cuda


@pytest.mark.parametrize("width", [7, 130, 3000])
@pytest.mark.parametrize("on_device", [False, True])
def test_batched_sampling_equals_sampling_each_row(
    width: int, on_device: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches are sampled on the host and with the device's code."""
    logits = torch.randn((40, width), generator=torch.Generator().manual_seed(width)) * 3
    logits[::3] = (logits[::3] * 2).round() / 2  # ties
    single = [int(choose(logits[i : i + 1], [any_row(i, width)], HostCopies())[0]) for i in range(40)]
    copies = as_on_a_device(monkeypatch)[0] if on_device else HostCopies()
    together = choose(logits, [any_row(i, width) for i in range(40)], copies)
    assert [int(token) for token in together] == single
    assert len(set(single)) > 3


@pytest.mark.parametrize("settled", [None, {3: 5}])
def test_a_step_waits_for_the_device_once(settled: dict[int, int] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step waits only for one copy of all reported numbers."""
    logits = torch.randn((12, 130), generator=torch.Generator().manual_seed(5))
    expected = Sampler().sample(logits, [any_row(i, 130) for i in range(12)], 4, settled)
    copies, cuda = as_on_a_device(monkeypatch)
    for name in ("item", "numpy", "cpu", "__bool__", "__int__", "__float__"):
        monkeypatch.setattr(torch.Tensor, name, lambda tensor, name=name: pytest.fail(f"{name} waits for the device"))
    monkeypatch.setattr(copies, "to_device", lambda array: torch.from_numpy(array))
    with NoWaiting():  # type: ignore[no-untyped-call]
        found = Sampler(None, copies).sample(logits, [any_row(i, 130) for i in range(12)], 4, settled)
    assert cuda.waited == 1
    assert found == expected
