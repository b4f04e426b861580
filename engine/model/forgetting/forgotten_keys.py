"""Selection of the keys of a head to forget beyond a budget, by their scores."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from engine.cache.forget_settings import ForgetSettings

BITS = 14  # number of bits of a score's mantissa that are compared


class ForgottenKeys(NamedTuple):
    """Keys that a decision forgets, by KV head, the highest score first."""

    positions: list[list[int]]
    scores: list[list[float]]
    ranks: list[list[int]]  # ranks among the candidates, 1 = the highest score
    lowest_kept: list[float | None]  # lowest score of the candidates that are not forgotten; None: there are none


def choose_forgotten(
    scores: Tensor, visible: Tensor, settings: ForgetSettings, pinned: frozenset[int] = frozenset()
) -> ForgottenKeys | None:
    """Select the visible keys [Hkv, C] to forget; None if no head has more than the budget.

    Sinks, the newest keys and `pinned` positions are not forgotten. Of the others, those with the highest scores
    remain; on ties the earlier ones. Scores are rounded to `BITS` bits, because a recomputation changes the last bits,
    and equal tokens have keys of equal length.
    """
    num_keys = visible.shape[1]
    protected = torch.zeros(num_keys, dtype=torch.bool)
    protected[: settings.sinks] = True
    protected[max(num_keys - settings.recent, 0) :] = True
    protected[[position for position in pinned if position < num_keys]] = True
    scores, visible = scores.double().cpu(), visible.cpu()
    forgotten = ForgottenKeys([], [], [], [])
    for own, seen in zip(scores, visible, strict=True):
        candidates = (seen & ~protected).nonzero()[:, 0]
        num_kept = min(max(settings.budget - int((seen & protected).sum()), 0), len(candidates))
        order = candidates[torch.sort(_rounded(own[candidates]), descending=True, stable=True).indices]
        dropped, ordered = order[num_kept:], own[order]
        forgotten.positions.append(dropped.tolist())
        forgotten.scores.append(ordered[num_kept:].tolist())
        forgotten.ranks.append(list(range(num_kept + 1, num_kept + 1 + len(dropped))))
        forgotten.lowest_kept.append(float(ordered[num_kept - 1]) if num_kept else None)
    return forgotten if any(forgotten.positions) else None


def _rounded(scores: Tensor) -> Tensor:
    mantissa, exponent = torch.frexp(scores)
    return torch.ldexp((mantissa * 2**BITS).round() / 2**BITS, exponent)
