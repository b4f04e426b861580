"""Sampling of a step's tokens from its logits, with log probabilities.

`choosing` chooses a token for each row. Log probabilities are reported under the raw distribution, before adjustments.
The results of a step are copied to the host at once, as one array of token ids and log probabilities.
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

GROUP = 64  # size of the groups of logits in the search for the largest ones


class Sampled(Struct, frozen=True, gc=False):
    """Token chosen for a row, and the most probable tokens, best first."""

    token_id: int
    logprob: float  # natural log, raw distribution
    top_ids: list[int]  # ties in order of id
    top_logprobs: list[float]
    overruled: int | None = None  # the chosen token, if a settled token replaced it


def make_generator(seed: int) -> np.random.Generator:
    """Return the generator of a sequence's draws, which yields the same numbers on every processor.

    torch's CPU generator uses only 32 bits of a seed; this one uses all 64.
    """
    return np.random.Generator(np.random.PCG64(seed & 0xFFFF_FFFF_FFFF_FFFF))


def derived_seed(*numbers: int) -> int:
    """Return a seed that depends only on these numbers. It is below 2**53, so that it is exact as a double."""
    digest = blake2b(struct.pack(f"<{len(numbers)}q", *numbers), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 11


def sample_seed(seed: int, index: int) -> int:
    """Return the seed of a request's sample `index`; the first sample uses the request's own seed."""
    return derived_seed(seed, index) if index else seed


class Sampler:
    """Stateless sampler: a request's only state is its generator. `kernels` make it faster on the CPU."""

    def __init__(self, kernels: LogitKernels | None = None, copies: HostCopies | None = None) -> None:
        self.kernels = kernels
        self.copies = copies or HostCopies()

    @classmethod
    def on(cls, device: torch.device) -> Sampler:
        """Return a sampler for logits on `device`."""
        return cls(logit_kernels() if device.type == "cpu" else None, host_copies(device))

    def sample(
        self,
        logits: Tensor,
        rows: Sequence[SamplingRow],
        num_logprobs: int = 0,
        settled: Mapping[int, int] | None = None,
    ) -> list[Sampled]:
        """Choose a token for each row of logits [S, V] float32, with `num_logprobs` alternatives each (at most V).

        `settled` maps rows to tokens that replace the chosen ones; the draw is consumed nevertheless.
        """
        if not rows:
            return []
        count = min(num_logprobs, logits.shape[1])
        others = [at for at, row in enumerate(rows) if not row.is_plain_argmax]
        if self.kernels is None:
            with torch.inference_mode():
                return self._sample(logits.contiguous(), rows, others, count, settled or {})
        total, best, top = self._figures(logits, count)
        if not settled and not others:
            return list(map(Sampled, *best, *top))
        with torch.inference_mode():
            chosen, _ = best
            if others:
                for at, token in zip(others, self._choose(logits, rows, others).tolist(), strict=True):
                    chosen[at] = token
            final = [settled.get(at, token) for at, token in enumerate(chosen)] if settled else chosen
            overruled = map(_overruled, final, chosen)
            return list(map(Sampled, final, _logprobs(logits, final, total, self.copies), *top, overruled))

    def _sample(
        self, logits: Tensor, rows: Sequence[SamplingRow], others: list[int], count: int, settled: Mapping[int, int]
    ) -> list[Sampled]:
        """Sample with tensor operations: queue all of them, then wait for a single copy."""
        to_device = self.copies.to_device
        total, chosen, values, top_ids = self._tensors(logits, count)
        if others:
            chosen = chosen.index_copy(0, to_device(np.array(others)), self._choose(logits, rows, others))
        final = chosen
        if settled:
            settled_ids = to_device(np.array([*settled.values()]))
            final = chosen.index_copy(0, to_device(np.array([*settled])), settled_ids)
        ids = torch.cat([final[:, None], chosen[:, None], top_ids], dim=1).to(torch.int32)
        logprobs = torch.cat([logits.gather(1, final[:, None]), values], dim=1) - total
        [packed] = self.copies.to_host([torch.cat([ids, logprobs.view(torch.int32)], dim=1)])()
        numbers = packed[:, 2 + count :].contiguous().view(torch.float32).tolist()
        return [
            Sampled(token, logprob, tops, logprobs_of_tops, _overruled(token, first))
            for (token, first, *tops), (logprob, *logprobs_of_tops) in zip(
                packed[:, : 2 + count].tolist(), numbers, strict=True
            )
        ]

    def _choose(self, logits: Tensor, rows: Sequence[SamplingRow], others: list[int]) -> Tensor:
        """Choose the tokens [n] of the rows `others`, which are not a plain argmax."""
        if len(others) < len(rows):
            logits = logits[self.copies.to_device(np.array(others))]
        return choose(logits, [rows[at] for at in others], self.copies)

    def _tensors(self, logits: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the log of the sum of e^x [S, 1], the id of each row's most probable token [S] (the first one on
        ties), and logits and ids of the `count` most probable ones [S, count].
        """
        return _logsumexp(logits), argmax(logits, self.copies), *_topk(logits, count)

    def _figures(
        self, logits: Tensor, count: int
    ) -> tuple[Tensor, tuple[list[int], list[float]], tuple[list[list[int]], list[list[float]]]]:
        """Return the log of the sum of e^x [S], and ids and log probabilities of each row's most probable token (the
        first one on ties) and of its `count` most probable ones.

        Since log_softmax(x)_i = x_i - logsumexp(x), only the reported entries are computed. Every reported log
        probability is computed this way, so a row's figures do not depend on the caller.
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

    def beam_candidates(self, logits: Tensor, row: SamplingRow, count: int) -> list[tuple[int, float, float]]:
        """Return the `count` most probable tokens of logits [V] after adjustments, best first, without banned tokens.

        Each entry has the token id, its log probability after adjustments, and its raw log probability.
        """
        with torch.inference_mode():
            adjusted_logits = adjust(logits[None], [row], self.copies)
            _, _, ((ids,), (adjusted,)) = self._figures(adjusted_logits, min(count, logits.shape[0]))
            total, _, _ = self._figures(logits[None], 0)
            raw = (logits[self.copies.to_device(np.array(ids))] - total).tolist()
            return [item for item in zip(ids, adjusted, raw, strict=True) if item[0] not in row.banned]

    def score(self, logits: Tensor, token_ids: Sequence[int], num_logprobs: int) -> list[Sampled]:
        """Return log probabilities of a prompt's tokens [T] under logits [T, V], with alternatives for each."""
        total, _, top = self._figures(logits, min(num_logprobs, logits.shape[1]))
        with torch.inference_mode():
            return list(map(Sampled, token_ids, _logprobs(logits, token_ids, total, self.copies), *top))


def _overruled(final: int, chosen: int) -> int | None:
    return None if final == chosen else chosen


def _logprobs(logits: Tensor, token_ids: Sequence[int], total: Tensor, copies: HostCopies) -> list[float]:
    """Return the log probability of one token per row of logits [S, V], given the rows' logs of the sum of e^x [S]."""
    values = logits.gather(1, copies.to_device(np.array(token_ids))[:, None])[:, 0]
    found: list[float] = (values - total).tolist()
    return found


def _logsumexp(logits: Tensor) -> Tensor:
    """Compute the log of the sum of e^x, [S, V] -> [S, 1]. torch.logsumexp makes two more passes and copies the row."""
    peak = logits.amax(dim=-1, keepdim=True)
    return (logits - peak).exp_().sum(dim=-1, keepdim=True).log_().add_(peak)


def _topk(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return values and ids [S, count], largest first.

    They are in the `count` groups with the largest maxima. Sorting only these takes half the time of sorting rows.
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
