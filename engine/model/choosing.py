"""Choice of a token for each row of logits, for all rows by the same operations on their device.

The order per row is: repetition penalty, logit bias, min_tokens, temperature, top-k, top-p, min-p, one draw. The rows'
parameters are copied to the device as arrays; only the result of `choose` is copied back.

Every sequence has its own generator on the host, and each token consumes exactly one uniform number from it. The draw
inverts a CDF over integers (probability * 2^50), whose sums are exact in any order. So a row's draw depends neither on
the other rows nor on the device's order of summation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from engine.config import SamplingParams
from engine.model.host_copy import HostCopies

SORTED_FIRST = 1024  # most probable tokens that top-p sorts first, on the host
MAX_PROBABILITIES = 1 << 15, 1 << 26  # probabilities in memory at a time: on the host (cache of one core), on a device
UNIT = 2.0**50  # integer that represents probability 1; sums of such integers are exact as a double


@dataclass(frozen=True, slots=True)
class SamplingRow:
    """Sampling parameters and state for a row of logits."""

    params: SamplingParams
    generator: np.random.Generator | None  # may be None for greedy rows
    token_ids: Sequence[int]  # prompt and output tokens, read by the repetition penalty only
    banned: frozenset[int] = frozenset()  # tokens that cannot be chosen (min_tokens)
    adjusts: bool = field(init=False)  # whether its logits are adjusted before the temperature
    is_plain_argmax: bool = field(init=False)  # whether the most probable token of the raw logits is chosen

    def __post_init__(self) -> None:
        params = self.params
        adjusts = params.repetition_penalty != 1 or bool(params.logit_bias) or bool(self.banned)
        object.__setattr__(self, "adjusts", adjusts)
        object.__setattr__(self, "is_plain_argmax", params.temperature == 0 and not adjusts)


def choose(logits: Tensor, rows: Sequence[SamplingRow], copies: HostCopies) -> Tensor:
    """Return a token id [R] int64 for each row of logits [R, V], on their device."""
    num_rows = max(1, MAX_PROBABILITIES[not copies.on_host] // logits.shape[1])
    pieces = [
        _choose(logits[begin : begin + num_rows], rows[begin : begin + num_rows], copies)
        for begin in range(0, len(rows), num_rows)
    ]
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


def _choose(logits: Tensor, rows: Sequence[SamplingRow], copies: HostCopies) -> Tensor:
    logits = adjust(logits, rows, copies)
    drawn = [index for index, row in enumerate(rows) if row.params.temperature]
    if not drawn:
        return argmax(logits, copies)
    uniform = copies.to_device(np.array([_uniform(rows[index]) for index in drawn]))
    params = [rows[index].params for index in drawn]
    if len(drawn) == len(rows):
        return draw(distribution(logits, params, copies), uniform)
    at = copies.to_device(np.array(drawn))
    return argmax(logits, copies).index_copy(0, at, draw(distribution(logits[at], params, copies), uniform))


def _uniform(row: SamplingRow) -> float:
    if row.generator is None:
        raise ValueError("a row with a temperature needs a generator")
    return row.generator.random()


def argmax(logits: Tensor, copies: HostCopies) -> Tensor:
    """Return the argmax [R] of [R, V], the first one on ties. numpy's is vectorised, 10 times as fast as torch's."""
    return torch.from_numpy(logits.numpy().argmax(axis=-1)) if copies.on_host else logits.argmax(dim=-1)


def adjust(logits: Tensor, rows: Sequence[SamplingRow], copies: HostCopies) -> Tensor:
    """Return logits [R, V] with all adjustments that precede the temperature; the argument is not modified.

    The repetition penalty divides positive logits of tokens that have occurred, and multiplies negative ones (CTRL,
    arXiv 1909.05858, 4.1).
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
    """Return the rows and columns of the entries, and their values, on the device."""
    rows, columns, numbers = zip(*entries, strict=True)
    places = copies.to_device(np.array([rows, columns]))
    return (places[0], places[1]), copies.to_device(np.array(numbers, np.float64))


def distribution(logits: Tensor, params: Sequence[SamplingParams], copies: HostCopies) -> Tensor:
    """Return the probabilities [R, V] float64 for the draw, from adjusted logits [R, V]; temperatures are > 0.

    top-k keeps the k largest logits (and ties with the last one); top-p keeps the smallest set of most probable tokens
    whose mass reaches top_p (arXiv 1904.09751); min-p keeps tokens with at least min_p times the largest probability
    (arXiv 2407.01082). Each filter is applied to the renormalised result of the previous one.
    """
    width = logits.shape[1]
    numbers = copies.to_device(np.array([[p.temperature, p.min_p] for p in params]))[:, :, None]  # [R, 2, 1]
    scores = logits.double() / numbers[:, 0]
    limited = [at for at, p in enumerate(params) if 0 < p.top_k < width]
    if limited:
        top_k = np.array([params[at].top_k for at in limited])
        at, last = copies.to_device(np.array(limited)), copies.to_device(top_k - 1)[:, None]
        smallest = torch.topk(scores[at], int(top_k.max())).values.gather(1, last)
        minimum = torch.full_like(scores[:, :1], float("-inf")).index_copy(0, at, smallest)
        scores.masked_fill_(scores < minimum, float("-inf"))
    probs = torch.softmax(scores, dim=-1)
    nucleus = [at for at, p in enumerate(params) if p.top_p < 1]
    if nucleus:
        mass = copies.to_device(np.array([params[at].top_p for at in nucleus]))[:, None]
        if len(nucleus) == len(params):
            probs = _nucleus(probs, mass, copies)
        else:
            at = copies.to_device(np.array(nucleus))
            probs = probs.index_copy(0, at, _nucleus(probs[at], mass, copies))
    if any(p.min_p for p in params):
        probs.masked_fill_(probs < numbers[:, 1] * probs.amax(dim=-1, keepdim=True), 0.0)
    return probs.div_(probs.sum(dim=-1, keepdim=True))


def _nucleus(probs: Tensor, mass: Tensor, copies: HostCopies) -> Tensor:
    """Return probs [R, V] with all zeroed but the most probable tokens whose sum reaches `mass` [R, 1], ties by id.

    Usually few tokens remain. On the host the SORTED_FIRST most probable ones are sorted first, and all tokens only if
    those do not reach the mass. On a device this check would cost a synchronization.
    """
    width = probs.shape[1]
    for size in (min(SORTED_FIRST, width), width) if copies.on_host else (width,):
        ordered = _largest(probs, size, copies)
        before = ordered.cumsum(dim=-1) - ordered
        count = (before < mass).sum(dim=-1, keepdim=True)  # [R, 1]
        if copies.on_host and int(count.max()) < size:
            break
    cut = ordered.gather(1, count - 1)
    in_nucleus = probs >= cut
    too_many = in_nucleus.sum(dim=-1, keepdim=True) - count
    if not copies.on_host or int(too_many.max()):
        equal = probs == cut
        last = equal.sum(dim=-1, keepdim=True) - too_many
        in_nucleus &= ~equal | (equal.cumsum(dim=-1) <= last)
    return probs * in_nucleus


def _largest(probs: Tensor, size: int, copies: HostCopies) -> Tensor:
    """Return the `size` largest of each row, largest first."""
    if not copies.on_host:
        return probs.sort(dim=-1, descending=True).values[:, :size]
    rest = probs.shape[1] - size
    return torch.from_numpy(np.sort(np.partition(probs.numpy(), rest)[:, rest:])[:, ::-1].copy())


def draw(probs: Tensor, uniform: Tensor) -> Tensor:
    """Return a token for each row of probs [R, V] and number u of `uniform` [R] in [0, 1): the first id at which the
    cumulative sum exceeds u times the total. Tokens with probability 0 are never drawn.
    """
    sums = (probs * UNIT).to(torch.int64).cumsum(dim=-1)
    threshold = (uniform * sums[:, -1]).to(torch.int64)
    found = torch.searchsorted(sums, threshold[:, None], right=True)[:, 0]
    return found.clamp_(max=probs.shape[1] - 1)  # takes effect only for NaN logits
