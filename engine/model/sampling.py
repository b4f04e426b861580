"""Sampling: a step's tokens and their log probabilities, from its logits.

`choosing` takes one token for each row; log probabilities are reported under the raw distribution, before everything
that is done there. What a step reports crosses to the host as one copy: token ids and log probabilities in one array.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from hashlib import blake2b

import numpy as np
import torch
from msgspec import Struct
from torch import Tensor

from engine.model.choosing import SamplingRow as SamplingRow
from engine.model.choosing import adjust, argmax, choose
from engine.model.host_copy import HostCopies, host_copies
from engine.model.native import LogitKernels, logit_kernels

GROUP = 64  # logits that share a maximum in the search for the largest


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

    def __init__(self, kernels: LogitKernels | None = None, copies: HostCopies | None = None) -> None:
        self.kernels = kernels
        self.copies = copies or HostCopies()

    @classmethod
    def on(cls, device: torch.device) -> Sampler:
        """For logits that lie there."""
        return cls(logit_kernels() if device.type == "cpu" else None, host_copies(device))

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
        count = min(num_logprobs, logits.shape[1])
        others = [at for at, row in enumerate(rows) if not row.takes_the_best]
        if self.kernels is None:
            with torch.inference_mode():
                return self._sample(logits.contiguous(), rows, others, count, settled or {})
        total, best, top = self._figures(logits, count)
        if not settled and not others:
            return list(map(Sampled, *best, *top))
        with torch.inference_mode():
            own, _ = best
            if others:
                for at, token in zip(others, self._chosen(logits, rows, others).tolist(), strict=True):
                    own[at] = token
            taken = [settled.get(at, token) for at, token in enumerate(own)] if settled else own
            overruled = map(_overruled, taken, own)
            return list(map(Sampled, taken, _logprobs(logits, taken, total, self.copies), *top, overruled))

    def _sample(
        self, logits: Tensor, rows: Sequence[SamplingRow], others: list[int], count: int, settled: Mapping[int, int]
    ) -> list[Sampled]:
        """The same by tensor operations: everything is queued, then one copy is waited for."""
        up = self.copies.up
        total, own, values, top_ids = self._tensors(logits, count)
        if others:
            own = own.index_copy(0, up(np.array(others)), self._chosen(logits, rows, others))
        taken = own
        if settled:
            taken = own.index_copy(0, up(np.array([*settled])), up(np.array([*settled.values()])))
        ids = torch.cat([taken[:, None], own[:, None], top_ids], dim=1).to(torch.int32)
        logprobs = torch.cat([logits.gather(1, taken[:, None]), values], dim=1) - total
        [packed] = self.copies.down([torch.cat([ids, logprobs.view(torch.int32)], dim=1)])()
        numbers = packed[:, 2 + count :].contiguous().view(torch.float32).tolist()
        return [
            Sampled(token, logprob, tops, logprobs_of_tops, _overruled(token, first))
            for (token, first, *tops), (logprob, *logprobs_of_tops) in zip(
                packed[:, : 2 + count].tolist(), numbers, strict=True
            )
        ]

    def _chosen(self, logits: Tensor, rows: Sequence[SamplingRow], others: list[int]) -> Tensor:
        """The tokens [n] of those rows that do not take the most probable one as it stands."""
        if len(others) < len(rows):
            logits = logits[self.copies.up(np.array(others))]
        return choose(logits, [rows[at] for at in others], self.copies)

    def _tensors(self, logits: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Log of the sum of e^x [S, 1]; ids of each row's most probable token [S], of equals the first one; logits and
        ids of its first `count` [S, count].
        """
        return _logsumexp(logits), argmax(logits, self.copies), *_topk(logits, count)

    def _figures(
        self, logits: Tensor, count: int
    ) -> tuple[Tensor, tuple[list[int], list[float]], tuple[list[list[int]], list[list[float]]]]:
        """Log of the sum of e^x [S]; ids and log probabilities of each row's most probable token, of equals the first
        one, and of its first `count`.

        log_softmax(x)_i = x_i - logsumexp(x): only the entries that are reported are formed. Every log probability
        that is reported is formed so, and one row's figures do not depend on why they are asked for.
        """
        logits = logits.contiguous()
        if self.kernels is not None:
            total, ids, logprobs = self.kernels.summarize(logits, max(count, 1))
            best = [row[0] for row in ids], [row[0] for row in logprobs]
            return total, best, (ids, logprobs) if count else ([[]] * len(ids), [[]] * len(ids))
        with torch.inference_mode():
            total, first, values, top_ids = self._tensors(logits, count)
            best = first.tolist(), (logits.gather(1, first[:, None]) - total)[:, 0].tolist()
            return total[:, 0], best, (top_ids.tolist(), (values - total).tolist())

    def offers(self, logits: Tensor, row: SamplingRow, count: int) -> list[tuple[int, float, float]]:
        """The `count` most probable tokens of logits [V] after adjustments, best first; what beams go on with.

        Each: token id, log probability after adjustments, raw log probability. Banned tokens are left out.
        """
        with torch.inference_mode():
            adjusted_logits = adjust(logits[None], [row], self.copies)
            _, _, ((ids,), (adjusted,)) = self._figures(adjusted_logits, min(count, logits.shape[0]))
            total, _, _ = self._figures(logits[None], 0)
            raw = (logits[self.copies.up(np.array(ids))] - total).tolist()
            return [item for item in zip(ids, adjusted, raw, strict=True) if item[0] not in row.banned]

    def score(self, logits: Tensor, token_ids: Sequence[int], num_logprobs: int) -> list[Sampled]:
        """Log probabilities of given tokens [T] under logits [T, V], with alternatives each: of prompts."""
        total, _, top = self._figures(logits, min(num_logprobs, logits.shape[1]))
        with torch.inference_mode():
            return list(map(Sampled, token_ids, _logprobs(logits, token_ids, total, self.copies), *top))


def _overruled(taken: int, own: int) -> int | None:
    return None if taken == own else own


def _logprobs(logits: Tensor, token_ids: Sequence[int], total: Tensor, copies: HostCopies) -> list[float]:
    """Log probability of a token [S] in each row of logits [S, V], given the log of the row's sum of e^x [S]."""
    values = logits.gather(1, copies.up(np.array(token_ids))[:, None])[:, 0]
    found: list[float] = (values - total).tolist()
    return found


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
