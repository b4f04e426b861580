"""Policies, which score each key of a KV head. The keys with the lowest scores are forgotten.

policy              score of key j                                                    published
window              its position: the oldest are forgotten, as in attention_window    arXiv 2309.17453
h2o                 sum of its weights over all queries so far                        arXiv 2306.14048
tova                weight of the newest query, mean over all heads of the layer      arXiv 2401.06104
snapkv              weights of the last `recent` queries, smoothed over positions     arXiv 2404.14469
key_norm            minus the length of the key                                       arXiv 2406.11430
expected_attention  estimated weight of later queries, times |value|                  arXiv 2510.00636
random              a random number, as a control

Scores are averaged over the query heads that share a KV head. They are computed in at least float32, whatever the
model's dtype, because rounded scores would tie.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d, pad

from engine.cache.forget_settings import ForgetSettings, PolicyName
from engine.model.forgetting.rotation import Rotation

FUTURE = 512  # positions over which the rotation of later queries is averaged


class Rows(NamedTuple):
    """Queries of one sequence in one layer that the policy has not observed yet."""

    q: Tensor  # [T, Hq, D], rotated
    weights: Tensor | None  # [Hq, T, C]; None: the policy needs none
    start: int  # position of the first


class VisibleKeys(NamedTuple):
    """Keys and values of one sequence in one layer, positions [0, C)."""

    keys: Tensor  # [Hkv, C, D]
    values: Tensor  # [Hkv, C, Dv]
    visible: Tensor  # [Hkv, C] False: already forgotten, and ignored
    scaling: float
    layer: int


class Policy(ABC):
    """Score of a layer's keys. `memory` is the policy's state for a sequence and layer after earlier queries.

    A memory is never modified in place, because forks share it.
    """

    needs_weights = True
    needs_rotation = False

    def __init__(self, settings: ForgetSettings, rotation: Rotation | None = None) -> None:
        self.settings, self.rotation = settings, rotation

    def observe(self, memory: Any, rows: Rows) -> Any:
        """Return the memory after these queries."""
        return None

    @abstractmethod
    def score(self, memory: Any, seen: VisibleKeys) -> Tensor:
        """Return the scores [Hkv, C]; those of invisible keys are ignored."""


class Window(Policy):
    """Retains the newest keys and the sinks, as `attention_window` does: the baseline of the other policies."""

    needs_weights = False

    def score(self, memory: None, seen: VisibleKeys) -> Tensor:
        positions = torch.arange(seen.keys.shape[1], dtype=torch.float64, device=seen.keys.device)
        return positions.expand(seen.keys.shape[0], -1)


class H2O(Policy):
    """Heavy hitters: sums of the weights of all queries so far."""

    def observe(self, memory: Tensor | None, rows: Rows) -> Tensor:
        assert rows.weights is not None
        added = rows.weights.float().sum(1)  # [Hq, C]
        return added if memory is None else added + pad(memory, (0, added.shape[1] - memory.shape[1]))

    def score(self, memory: Tensor, seen: VisibleKeys) -> Tensor:
        return _by_kv_head(memory, seen.keys.shape[0])


class Tova(Policy):
    """Weights of the newest query, the same for all KV heads of a layer."""

    def observe(self, memory: Tensor | None, rows: Rows) -> Tensor:
        assert rows.weights is not None
        return rows.weights[:, -1].float().mean(0)

    def score(self, memory: Tensor, seen: VisibleKeys) -> Tensor:
        return memory.expand(seen.keys.shape[0], -1)


class SnapKV(Policy):
    """Weights of an observation window: the last `recent` queries, whose own keys are never forgotten."""

    def observe(self, memory: Tensor | None, rows: Rows) -> Tensor:
        assert rows.weights is not None
        # copied, since a view would keep the weights of all rows in memory
        newest = rows.weights[:, -self.settings.recent :].to(torch.float32, copy=True)
        if memory is None or newest.shape[1] == self.settings.recent:
            return newest
        before = pad(memory, (0, newest.shape[2] - memory.shape[2]))
        return torch.cat([before, newest], dim=1)[:, -self.settings.recent :]

    def score(self, memory: Tensor, seen: VisibleKeys) -> Tensor:
        num_keys, size = seen.keys.shape[1], self.settings.pool
        observed = memory.mean(1)[:, : num_keys - self.settings.recent]  # [Hq, C - recent]
        pooled = avg_pool1d(observed, size, stride=1, padding=size // 2)
        scores = _by_kv_head(pooled, seen.keys.shape[0])
        return pad(scores, (0, num_keys - scores.shape[1]), value=float(scores.max()) + 1)


class KeyNorm(Policy):
    """Minus the length of the key: most queries give short keys large weights."""

    needs_weights = False

    def score(self, memory: None, seen: VisibleKeys) -> Tensor:
        lengths: Tensor = torch.linalg.vector_norm(seen.keys, dim=-1, dtype=torch.float32)
        return -lengths


class ExpectedAttention(Policy):
    """Expected weight under queries distributed like the previous ones, rotated to the next `FUTURE` positions.

    For Gaussian queries with mean m and covariance S after that rotation, E[exp(q k / sqrt(D))] =
    exp(k m / sqrt(D) + k S k / 2D). Its softmax over the keys is multiplied by the length of the value.
    """

    needs_weights = False
    needs_rotation = True

    def observe(self, memory: tuple[int, Tensor, Tensor] | None, rows: Rows) -> tuple[int, Tensor, Tensor] | None:
        assert self.rotation is not None
        skipped = max(self.settings.sinks - rows.start, 0)  # the first queries are outliers, like their keys
        if skipped >= rows.q.shape[0]:
            return memory
        q = self.rotation.undo(rows.q[skipped:].double(), rows.start + skipped).transpose(0, 1)  # [Hq, T, D]
        count, added, outer = q.shape[1], q.sum(1), q.transpose(1, 2) @ q
        return (count, added, outer) if memory is None else (
            memory[0] + count, memory[1] + added, memory[2] + outer
        )  # fmt: skip

    def score(self, memory: tuple[int, Tensor, Tensor] | None, seen: VisibleKeys) -> Tensor:
        assert self.rotation is not None
        if memory is None:
            raise ValueError("expected attention needs at least one query after the sinks")
        count, added, outer = memory
        num_kv_heads, num_keys, _ = seen.keys.shape
        mean = added / count
        covariance = outer / count - mean[:, :, None] * mean[:, None, :]
        turn = self.rotation.mean(num_keys, FUTURE).double()  # [D, D]
        mean, covariance = mean @ turn.T, turn @ covariance @ turn.T
        group = mean.shape[0] // num_kv_heads
        keys = seen.keys.double().repeat_interleave(group, dim=0)  # [Hq, C, D]
        scores = (keys @ mean[:, :, None])[..., 0] * seen.scaling
        scores = scores + torch.einsum("hci,hij,hcj->hc", keys, covariance, keys) * seen.scaling**2 / 2
        scored = seen.visible.repeat_interleave(group, dim=0).clone()
        scored[:, : self.settings.sinks] = False
        weights = torch.softmax(scores.masked_fill(~scored, float("-inf")), dim=-1)
        weights = torch.nan_to_num(weights)  # NaN if only sinks are visible
        lengths: Tensor = torch.linalg.vector_norm(seen.values, dim=-1, dtype=torch.float64)
        return _by_kv_head(weights, num_kv_heads) * lengths


class Random(Policy):
    """Random scores, drawn at each decision, as a control."""

    needs_weights = False

    def score(self, memory: None, seen: VisibleKeys) -> Tensor:
        num_kv_heads, num_keys, _ = seen.keys.shape
        drawn = np.random.default_rng([abs(self.settings.seed), seen.layer, num_keys]).random((num_kv_heads, num_keys))
        return torch.from_numpy(drawn).to(seen.keys.device)


POLICIES: dict[PolicyName, type[Policy]] = {
    "window": Window,
    "h2o": H2O,
    "tova": Tova,
    "snapkv": SnapKV,
    "key_norm": KeyNorm,
    "expected_attention": ExpectedAttention,
    "random": Random,
}


def _by_kv_head(scores: Tensor, num_kv_heads: int) -> Tensor:
    """Return the means [Hkv, C] of scores [Hq, C] over the query heads that share a KV head."""
    return scores.view(num_kv_heads, -1, scores.shape[1]).mean(1)
