"""Choosing the next token.

Order, per row: repetition penalty, logit bias, min_tokens, temperature, top-k, top-p, min-p, then one draw. Log
probabilities are reported under the raw distribution, before all of these.

Every request has its own generator and a token takes exactly one uniform draw from it (inverse CDF over the token ids
in order), so what a request draws does not depend on which requests share its batch.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import torch
from msgspec import Struct
from torch import Tensor

from engine.config import SamplingParams
from engine.model.native import LogitKernels, logit_kernels

LIKELY = 1024  # tokens that top-p looks at first
GROUP = 64  # logits that share a maximum in the search for the largest


@dataclass(frozen=True, slots=True)
class SamplingRow:
    """What one row of logits is sampled with."""

    params: SamplingParams
    generator: np.random.Generator | None  # None is enough for greedy
    token_ids: Sequence[int]  # prompt and output so far, read by the repetition penalty only
    banned: frozenset[int] = frozenset()  # tokens that cannot be chosen (min_tokens)
    takes_the_best: bool = field(init=False)  # whether the most probable token is chosen as it stands

    def __post_init__(self) -> None:
        params = self.params
        adjusts = params.repetition_penalty != 1 or params.logit_bias or self.banned
        object.__setattr__(self, "takes_the_best", params.temperature == 0 and not adjusts)


class Sampled(Struct, frozen=True, gc=False):
    """The token chosen for one row, and the most probable ones, best first."""

    token_id: int
    logprob: float  # natural log, raw distribution
    top_ids: list[int]  # of equals the first one first
    top_logprobs: list[float]
    overruled: int | None = None  # the token that would have been chosen, where another one was settled for the row


def make_generator(seed: int) -> np.random.Generator:
    """The generator of a sequence's draws; it gives the same numbers on every processor.

    torch's generator on the CPU takes 32 bits of a seed and leaves the others; this one takes them all.
    """
    return np.random.Generator(np.random.PCG64(seed & 0xFFFF_FFFF_FFFF_FFFF))


def derived_seed(*numbers: int) -> int:
    """A seed that depends on these numbers alone. Under 2**53, so that it is exact as a double."""
    digest = blake2b(struct.pack(f"<{len(numbers)}q", *numbers), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 11


def sample_seed(seed: int, index: int) -> int:
    """The seed of a request's sample `index`: the request's own for the first one, and most requests have only that."""
    return derived_seed(seed, index) if index else seed


class Sampler:
    """Stateless: all state of a request is its generator. `kernels`: a faster way to the same figures on the CPU."""

    def __init__(self, kernels: LogitKernels | None = None) -> None:
        self.kernels = kernels

    @classmethod
    def on(cls, device: torch.device) -> Sampler:
        """For logits that lie there."""
        return cls(logit_kernels() if device.type == "cpu" else None)

    def sample(
        self,
        logits: Tensor,
        rows: Sequence[SamplingRow],
        num_logprobs: int = 0,
        settled: Mapping[int, int] | None = None,
    ) -> list[Sampled]:
        """One token for each row of logits [S, V] float32; `num_logprobs` alternatives each (at most V).

        `settled`: row -> the token that it gets whatever is chosen there; the draw is taken all the same.
        """
        if not rows:
            return []
        total, best, top = self._figures(logits, min(num_logprobs, logits.shape[1]))
        if not settled and all([row.takes_the_best for row in rows]):
            return list(map(Sampled, *best, *top))
        with torch.inference_mode():
            chosen = [self._choose(logits[i], row) for i, row in enumerate(rows)]
            taken = [settled.get(i, token) for i, token in enumerate(chosen)] if settled else chosen
            overruled = [None if token == own else own for token, own in zip(taken, chosen, strict=True)]
            return list(map(Sampled, taken, _logprobs(logits, taken, total), *top, overruled))

    def _figures(
        self, logits: Tensor, count: int
    ) -> tuple[Tensor, tuple[list[int], list[float]], tuple[list[list[int]], list[list[float]]]]:
        """Log of the sum of e^x [S]; ids and log probabilities of each row's most probable token, of equals the first
        one, and of its first `count`.

        log_softmax(x)_i = x_i - logsumexp(x): only the entries that are reported are formed. Every log probability
        that is reported comes from here, so that one row's figures do not depend on why they are asked for.
        """
        logits = logits.contiguous()
        if self.kernels is not None:
            total, ids, logprobs = self.kernels.summarize(logits, max(count, 1))
            best = [row[0] for row in ids], [row[0] for row in logprobs]
            return total, best, (ids, logprobs) if count else ([[]] * len(ids), [[]] * len(ids))
        with torch.inference_mode():
            total, first = _logsumexp(logits), _argmax(logits)[:, None]
            values, top_ids = _topk(logits, count)
            best = first[:, 0].tolist(), (logits.gather(1, first) - total)[:, 0].tolist()
            return total[:, 0], best, (top_ids.tolist(), (values - total).tolist())

    @staticmethod
    def _choose(logits: Tensor, row: SamplingRow) -> int:
        """logits [V] -> a token id."""
        logits = adjust(logits, row)
        if row.params.temperature == 0:
            return int(logits.argmax())
        if row.generator is None:
            raise ValueError("a row with a temperature needs a generator")
        return draw(distribution(logits, row.params), row.generator)

    def offers(self, logits: Tensor, row: SamplingRow, count: int) -> list[tuple[int, float, float]]:
        """The `count` most probable tokens of logits [V] after adjustments, best first; what beams go on with.

        Each: token id, log probability after adjustments, raw log probability. Banned tokens are left out.
        """
        with torch.inference_mode():
            _, _, ((ids,), (adjusted,)) = self._figures(adjust(logits, row)[None], min(count, logits.shape[0]))
            total, _, _ = self._figures(logits[None], 0)
            raw = (logits[torch.tensor(ids, device=logits.device)] - total).tolist()
            return [item for item in zip(ids, adjusted, raw, strict=True) if item[0] not in row.banned]

    def score(self, logits: Tensor, token_ids: Sequence[int], num_logprobs: int) -> list[Sampled]:
        """Log probabilities of given tokens [T] under logits [T, V], with alternatives each: of prompts."""
        total, _, top = self._figures(logits, min(num_logprobs, logits.shape[1]))
        with torch.inference_mode():
            return list(map(Sampled, token_ids, _logprobs(logits, token_ids, total), *top))


def _logprobs(logits: Tensor, token_ids: Sequence[int], total: Tensor) -> list[float]:
    """Log probability of a token [S] in each row of logits [S, V], given the log of the row's sum of e^x [S]."""
    values = logits.gather(1, torch.tensor(token_ids, device=logits.device)[:, None])[:, 0]
    found: list[float] = (values - total).tolist()
    return found


def adjust(logits: Tensor, row: SamplingRow) -> Tensor:
    """logits [V] with everything that comes before the temperature; the argument is left alone."""
    if row.params.repetition_penalty != 1:
        logits = penalize_repetition(logits, row.token_ids, row.params.repetition_penalty)
    if row.params.logit_bias:
        ids = torch.tensor(list(row.params.logit_bias), device=logits.device)
        bias = torch.tensor(list(row.params.logit_bias.values()), dtype=logits.dtype, device=logits.device)
        logits = logits.index_add(0, ids, bias)
    if row.banned:
        banned = torch.tensor(sorted(i for i in row.banned if i < logits.shape[0]), device=logits.device)
        logits = logits.index_fill(0, banned, float("-inf"))
    return logits


def _argmax(logits: Tensor) -> Tensor:
    """[S, V] -> [S], the first of equals. On the CPU by numpy, whose argmax is vectorised: 10 times torch's speed."""
    if logits.device.type == "cpu":
        return torch.from_numpy(logits.numpy().argmax(axis=-1))
    return logits.argmax(dim=-1)


def _logsumexp(logits: Tensor) -> Tensor:
    """[S, V] -> [S, 1]. torch's own goes over the row twice more, and copies it."""
    peak = logits.amax(dim=-1, keepdim=True)
    return (logits - peak).exp_().sum(dim=-1, keepdim=True).log_().add_(peak)


def _topk(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Values and ids [S, count], largest first.

    They lie in the `count` groups with the largest maxima, and only these are sorted: in half the time of whole rows.
    """
    rows, width = logits.shape
    if count == 0 or width % GROUP or width // GROUP < 2 * count:
        top = torch.topk(logits, count, dim=-1)
        return top.values, top.indices
    grouped = logits.view(rows, width // GROUP, GROUP)
    groups = torch.topk(grouped.amax(dim=-1), count, dim=-1).indices  # [S, count]
    candidates = grouped.gather(1, groups[:, :, None].expand(-1, -1, GROUP)).view(rows, count * GROUP)
    top = torch.topk(candidates, count, dim=-1)
    return top.values, groups.gather(1, top.indices // GROUP) * GROUP + top.indices % GROUP


def penalize_repetition(logits: Tensor, token_ids: Sequence[int], penalty: float) -> Tensor:
    """Divide positive and multiply negative logits [V] of the tokens that occurred (CTRL, arXiv 1909.05858, 4.1)."""
    seen = torch.tensor(sorted({token for token in token_ids if token < logits.shape[0]}), device=logits.device)
    if seen.numel() == 0:
        return logits
    values = logits[seen]
    return logits.index_copy(0, seen, torch.where(values > 0, values / penalty, values * penalty))


def distribution(logits: Tensor, params: SamplingParams) -> Tensor:
    """Probabilities [V] float64 on the CPU that the draw uses, from penalized logits [V]; temperature > 0.

    top-k keeps the k largest logits (ties with the last one too); top-p the smallest set of most probable tokens whose
    mass reaches top_p (arXiv 1904.09751); min-p those with at least min_p times the largest probability (arXiv
    2407.01082). Each filter sees what the one before left, renormalised.
    """
    scores = logits.cpu().double() / params.temperature
    if 0 < params.top_k < scores.shape[0]:
        smallest = torch.topk(scores, params.top_k).values[-1]
        scores.masked_fill_(scores < smallest, float("-inf"))
    probs = torch.softmax(scores, dim=-1)
    if params.top_p < 1:
        _keep_nucleus(probs.numpy(), params.top_p)
    if params.min_p > 0:
        probs.masked_fill_(probs < params.min_p * probs.max(), 0.0)
    return probs.div_(probs.sum())


def _keep_nucleus(probs: npt.NDArray[np.float64], mass: float) -> None:
    """Set all of probs [V] to 0 but the most probable that reach `mass` together, ties by id.

    These are few as a rule, so the LIKELY most probable are sorted first, and all only if they do not reach it.
    """
    for size in (min(LIKELY, probs.size), probs.size):
        rest = probs.size - size
        ordered = np.sort(np.partition(probs, rest)[rest:])[::-1]
        count = int((np.cumsum(ordered) - ordered < mass).sum())
        if count < size:
            break
    cut = ordered[count - 1]
    kept = probs > cut
    kept[np.flatnonzero(probs == cut)[: count - np.count_nonzero(kept)]] = True
    probs *= kept


def draw(probs: Tensor, generator: np.random.Generator) -> int:
    """One token by inverse CDF: the first id whose cumulative probability exceeds a uniform number."""
    cumulative = torch.cumsum(probs, dim=-1).numpy()
    # Scaling by the total keeps rounding of the sum from ever reaching past the last possible token.
    threshold = generator.random() * cumulative[-1]
    token = int(cumulative.searchsorted(threshold, side="right"))
    if token < probs.shape[0] and probs[token] > 0:
        return token
    return int(probs.nonzero()[-1])
