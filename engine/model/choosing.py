"""Choosing a token for each of many rows of logits, all rows by the same few operations on their device.

Order, per row: repetition penalty, logit bias, min_tokens, temperature, top-k, top-p, min-p, then one draw. What rows
ask for goes to the device as arrays; nothing comes back but what `choose` returns, so nothing is waited for.

Every sequence has its own generator on the host and a token takes exactly one uniform number from it. The draw is an
inverse CDF over whole numbers (probability * 2^50), whose sums are exact in any order: what a row draws depends neither
on the rows beside it nor on how a device adds up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from engine.config import SamplingParams
from engine.model.host_copy import HostCopies

LIKELY = 1024  # tokens that top-p looks at first, on the host
AT_ONCE = 1 << 15, 1 << 26  # probabilities that exist at a time: on the host as one core's cache holds, on a device
WHOLE = 2.0**50  # what a probability of 1 is as a whole number; a sum of them is exact as a double


@dataclass(frozen=True, slots=True)
class SamplingRow:
    """What one row of logits is sampled with."""

    params: SamplingParams
    generator: np.random.Generator | None  # None is enough for greedy
    token_ids: Sequence[int]  # prompt and output so far, read by the repetition penalty only
    banned: frozenset[int] = frozenset()  # tokens that cannot be chosen (min_tokens)
    adjusts: bool = field(init=False)  # whether anything is done to its logits before the temperature
    takes_the_best: bool = field(init=False)  # whether the most probable token is chosen as it stands

    def __post_init__(self) -> None:
        params = self.params
        adjusts = params.repetition_penalty != 1 or bool(params.logit_bias) or bool(self.banned)
        object.__setattr__(self, "adjusts", adjusts)
        object.__setattr__(self, "takes_the_best", params.temperature == 0 and not adjusts)


def choose(logits: Tensor, rows: Sequence[SamplingRow], copies: HostCopies) -> Tensor:
    """A token id for each row of logits [R, V]: [R] int64, on their device."""
    at_once = max(1, AT_ONCE[not copies.on_host] // logits.shape[1])
    pieces = [
        _choose(logits[begin : begin + at_once], rows[begin : begin + at_once], copies)
        for begin in range(0, len(rows), at_once)
    ]
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


def _choose(logits: Tensor, rows: Sequence[SamplingRow], copies: HostCopies) -> Tensor:
    logits = adjust(logits, rows, copies)
    drawn = [index for index, row in enumerate(rows) if row.params.temperature]
    if not drawn:
        return argmax(logits, copies)
    uniform = copies.up(np.array([_uniform(rows[index]) for index in drawn]))
    params = [rows[index].params for index in drawn]
    if len(drawn) == len(rows):
        return draw(distribution(logits, params, copies), uniform)
    at = copies.up(np.array(drawn))
    return argmax(logits, copies).index_copy(0, at, draw(distribution(logits[at], params, copies), uniform))


def _uniform(row: SamplingRow) -> float:
    if row.generator is None:
        raise ValueError("a row with a temperature needs a generator")
    return row.generator.random()


def argmax(logits: Tensor, copies: HostCopies) -> Tensor:
    """[R, V] -> [R], the first of equals. On the host by numpy, whose argmax is vectorised: 10 times torch's speed."""
    return torch.from_numpy(logits.numpy().argmax(axis=-1)) if copies.on_host else logits.argmax(dim=-1)


def adjust(logits: Tensor, rows: Sequence[SamplingRow], copies: HostCopies) -> Tensor:
    """logits [R, V] with everything that comes before the temperature; the argument is left alone.

    Repetition penalty: positive logits of tokens that occurred are divided, negative ones multiplied (CTRL, arXiv
    1909.05858, 4.1).
    """
    adjusted = [(at, row) for at, row in enumerate(rows) if row.adjusts]
    if not adjusted:
        return logits
    logits, width = logits.clone(), logits.shape[1]
    penalized = [
        (at, token, row.params.repetition_penalty)
        for at, row in adjusted
        if row.params.repetition_penalty != 1
        for token in set(row.token_ids)
        if token < width
    ]
    if penalized:
        places, penalties = _entries(penalized, copies)
        values = logits[places]
        penalties = penalties.to(values.dtype)
        logits.index_put_(places, torch.where(values > 0, values / penalties, values * penalties))
    biased = [(at, token, bias) for at, row in adjusted for token, bias in row.params.logit_bias.items()]
    if biased:
        places, biases = _entries(biased, copies)
        logits.index_put_(places, logits[places] + biases.to(logits.dtype))
    banned = [(at, token, 0.0) for at, row in adjusted for token in row.banned if token < width]
    if banned:
        places, _ = _entries(banned, copies)
        logits.index_put_(places, logits.new_full((), float("-inf")))
    return logits


def _entries(entries: Sequence[tuple[int, int, float]], copies: HostCopies) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Rows and columns, each entry once, and a number for each; on the device."""
    rows, columns, numbers = zip(*entries, strict=True)
    places = copies.up(np.array([rows, columns]))
    return (places[0], places[1]), copies.up(np.array(numbers, np.float64))


def distribution(logits: Tensor, params: Sequence[SamplingParams], copies: HostCopies) -> Tensor:
    """Probabilities [R, V] float64 that the draw uses, from adjusted logits [R, V]; temperatures > 0.

    top-k keeps the k largest logits (ties with the last one too); top-p the smallest set of most probable tokens whose
    mass reaches top_p (arXiv 1904.09751); min-p those with at least min_p times the largest probability (arXiv
    2407.01082). Each filter sees what the one before left, renormalised.
    """
    width = logits.shape[1]
    numbers = copies.up(np.array([[p.temperature, p.min_p] for p in params]))[:, :, None]  # [R, 2, 1]
    scores = logits.double() / numbers[:, 0]
    limited = [at for at, p in enumerate(params) if 0 < p.top_k < width]
    if limited:
        top_k = np.array([params[at].top_k for at in limited])
        at, last = copies.up(np.array(limited)), copies.up(top_k - 1)[:, None]
        smallest = torch.topk(scores[at], int(top_k.max())).values.gather(1, last)
        least = torch.full_like(scores[:, :1], float("-inf")).index_copy(0, at, smallest)
        scores.masked_fill_(scores < least, float("-inf"))
    probs = torch.softmax(scores, dim=-1)
    nucleus = [at for at, p in enumerate(params) if p.top_p < 1]
    if nucleus:
        mass = copies.up(np.array([params[at].top_p for at in nucleus]))[:, None]
        if len(nucleus) == len(params):
            probs = _nucleus(probs, mass, copies)
        else:
            at = copies.up(np.array(nucleus))
            probs = probs.index_copy(0, at, _nucleus(probs[at], mass, copies))
    if any(p.min_p for p in params):
        probs.masked_fill_(probs < numbers[:, 1] * probs.amax(dim=-1, keepdim=True), 0.0)
    return probs.div_(probs.sum(dim=-1, keepdim=True))


def _nucleus(probs: Tensor, mass: Tensor, copies: HostCopies) -> Tensor:
    """probs [R, V] without all but the most probable that reach `mass` [R, 1] together, ties by id.

    These are few as a rule. On the host the LIKELY most probable are sorted first, and all only if they do not reach
    it; a device would have to be waited for to know that.
    """
    width = probs.shape[1]
    for size in (min(LIKELY, width), width) if copies.on_host else (width,):
        ordered = _largest(probs, size, copies)
        before = ordered.cumsum(dim=-1) - ordered
        count = (before < mass).sum(dim=-1, keepdim=True)  # [R, 1]
        if copies.on_host and int(count.max()) < size:
            break
    cut = ordered.gather(1, count - 1)
    kept = probs >= cut
    too_many = kept.sum(dim=-1, keepdim=True) - count
    if not copies.on_host or int(too_many.max()):
        equal = probs == cut
        last = equal.sum(dim=-1, keepdim=True) - too_many
        kept &= ~equal | (equal.cumsum(dim=-1) <= last)
    return probs * kept


def _largest(probs: Tensor, size: int, copies: HostCopies) -> Tensor:
    """The `size` largest of each row, largest first."""
    if not copies.on_host:
        return probs.sort(dim=-1, descending=True).values[:, :size]
    rest = probs.shape[1] - size
    return torch.from_numpy(np.sort(np.partition(probs.numpy(), rest)[:, rest:])[:, ::-1].copy())


def draw(probs: Tensor, uniform: Tensor) -> Tensor:
    """A token for each row of probs [R, V], given a number in [0, 1) for each [R]: the first id at which the sum of the
    probabilities so far exceeds that part of all. None of probability 0 is.
    """
    sums = (probs * WHOLE).to(torch.int64).cumsum(dim=-1)
    threshold = (uniform * sums[:, -1]).to(torch.int64)
    found = torch.searchsorted(sums, threshold[:, None], right=True)[:, 0]
    return found.clamp_(max=probs.shape[1] - 1)  # only of logits that are not numbers
