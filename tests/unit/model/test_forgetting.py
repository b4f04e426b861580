"""Forgetting policies, compared with their formulas, and the choice of forgotten keys."""

from __future__ import annotations

import math
import random

import pytest
import torch
from torch import Tensor

from engine.cache.forget_settings import ForgetSettings, PolicyName
from engine.model.errors import ModelError
from engine.model.forgetting.forgotten_keys import choose_forgotten
from engine.model.forgetting.policies import POLICIES, Rows, VisibleKeys
from engine.model.forgetting.rotation import Rotation
from engine.model.loader import from_module
from tests.tiny_models import tiny_model, tiny_tokenizer

NUM_HEADS, NUM_KV_HEADS, NUM_KEYS, HEAD_DIM = 4, 2, 19, 8
GROUP = NUM_HEADS // NUM_KV_HEADS
SETTINGS = ForgetSettings("h2o", budget=8, sinks=2, recent=3, pool=5)


def rotation() -> Rotation:
    model = from_module(tiny_model("llama"), tiny_tokenizer(), "tiny")
    return Rotation(model.module, HEAD_DIM, model.device)


def arrays(seed: int) -> tuple[Tensor, Tensor, VisibleKeys]:
    """Return queries, their causal weights, and keys."""
    generator = torch.Generator().manual_seed(seed)
    keys, values = (torch.randn(NUM_KV_HEADS, NUM_KEYS, HEAD_DIM, generator=generator) for _ in range(2))
    q = torch.randn(NUM_KEYS, NUM_HEADS, HEAD_DIM, generator=generator)
    scores = torch.einsum("thd,hcd->htc", q, keys.repeat_interleave(GROUP, dim=0)) / math.sqrt(HEAD_DIM)
    future = torch.ones(NUM_KEYS, NUM_KEYS, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(future, float("-inf")).softmax(-1)
    visible = torch.ones(NUM_KV_HEADS, NUM_KEYS, dtype=torch.bool)
    return q, weights, VisibleKeys(keys, values, visible, 1 / math.sqrt(HEAD_DIM), 0)


def expected(name: PolicyName, q: Tensor, weights: Tensor, seen: VisibleKeys) -> list[list[float]]:
    """Return the scores by the formula, computed for one head and key at a time."""
    turn = rotation()
    table = []
    for head in range(NUM_KV_HEADS):
        of_group = range(head * GROUP, (head + 1) * GROUP)
        row = []
        for key in range(NUM_KEYS):
            match name:
                case "window":
                    row.append(float(key))
                case "h2o":
                    total = sum(weights[h, t, key].item() for h in of_group for t in range(NUM_KEYS))
                    row.append(total / GROUP)
                case "tova":
                    row.append(sum(weights[h, -1, key].item() for h in range(NUM_HEADS)) / NUM_HEADS)
                case "snapkv":
                    old = NUM_KEYS - SETTINGS.recent
                    near = [j for j in range(key - 2, key + 3) if 0 <= j < old]
                    observed = [weights[h, t, j].item() for h in of_group for t in range(old, NUM_KEYS) for j in near]
                    row.append(sum(observed) / GROUP / SETTINGS.recent / SETTINGS.pool)
                case "key_norm":
                    row.append(-math.sqrt(sum(x * x for x in seen.keys[head, key].tolist())))
                case "expected_attention":
                    total = 0.0
                    for h in of_group:
                        before = torch.stack([turn.undo(q[t, h].double()[None, None], t)[0, 0] for t in range(2, 19)])
                        mean, spread = before.mean(0), torch.cov(before.T, correction=0)
                        average = turn.mean(NUM_KEYS, 512).double()
                        logits = []
                        for k in seen.keys[head, SETTINGS.sinks :].double():
                            exponent = k @ average @ mean / math.sqrt(HEAD_DIM)
                            logits.append(exponent + k @ average @ spread @ average.T @ k / HEAD_DIM / 2)
                        share = torch.stack(logits).softmax(0)
                        total += share[key - SETTINGS.sinks].item() if key >= SETTINGS.sinks else 0.0
                    row.append(total / GROUP * seen.values[head, key].double().norm().item())
        table.append(row)
    return table


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "random"])
@pytest.mark.parametrize("cuts", [[19], [1, 7, 8, 18, 19], list(range(1, 20))], ids=["whole", "chunks", "one by one"])
def test_scores_equal_the_formula_for_any_chunks(name: PolicyName, cuts: list[int]) -> None:
    q, weights, seen = arrays(len(cuts))
    policy = POLICIES[name](SETTINGS._replace(policy=name), rotation())
    memory, start = None, 0
    for end in cuts:
        memory = policy.observe(memory, Rows(q[start:end], weights[:, start:end, :end], start))
        start = end
    found = policy.score(memory, seen)
    num_keys = NUM_KEYS - SETTINGS.recent if name == "snapkv" else NUM_KEYS  # later keys are in the retained window
    reference = torch.tensor(expected(name, q, weights, seen), dtype=torch.float64)
    assert torch.allclose(found[:, :num_keys].double(), reference[:, :num_keys], atol=1e-5)


def test_undoing_a_rotation_gives_the_original_query() -> None:
    turn = rotation()
    q = torch.randn(5, 1, HEAD_DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    turned = torch.stack([turn.mean(position, 1).double() @ q[i, 0] for i, position in enumerate(range(7, 12))])
    assert torch.allclose(turn.undo(turned[:, None], 7), q, atol=1e-6)


@pytest.mark.parametrize("family", ["gpt2", "gemma3"])
def test_a_model_without_llamas_rotation_is_refused(family: str) -> None:
    model = from_module(tiny_model(family), tiny_tokenizer(), "tiny")
    with pytest.raises(ModelError, match="its rotary embedding differs from Llama's"):
        Rotation(model.module, HEAD_DIM, model.device)


@pytest.mark.parametrize("seed", range(40))
def test_forgetting_retains_sinks_newest_pinned_and_best_tokens(seed: int) -> None:
    rng = random.Random(seed)
    sinks, recent = rng.randint(0, 3), rng.randint(0, 4)
    budget, count = sinks + recent + rng.randint(0, 6), rng.randint(1, 30)
    settings = ForgetSettings("random", budget=budget, sinks=sinks, recent=recent)
    scores = torch.tensor([[rng.choice([0.0, rng.random()]) for _ in range(count)] for _ in range(3)])
    visible = torch.rand(3, count, generator=torch.Generator().manual_seed(seed)) < 0.8
    visible[:, :sinks] = visible[:, max(count - recent, 0) :] = True
    pinned = frozenset(rng.sample(range(count), min(count, max(budget - sinks - recent, 0), 1)))
    choice = choose_forgotten(scores, visible, settings, pinned)
    if choice is None:
        assert visible.sum(1).max() <= budget
        return
    for head in range(3):
        seen = set(visible[head].nonzero()[:, 0].tolist())
        forgotten, kept = set(choice.positions[head]), seen - set(choice.positions[head])
        assert forgotten <= seen and len(kept) == min(len(seen), budget)
        safe = {p for p in seen if p < sinks or p >= count - recent or p in pinned}
        assert not forgotten & safe
        # no two scores are so close that they count as equal
        others = sorted(seen - safe, key=lambda p: (-scores[head, p].item(), p))
        assert choice.positions[head] == others[len(kept - safe) :]
        assert choice.scores[head] == [scores[head, p].item() for p in choice.positions[head]]
        assert choice.ranks[head] == [1 + others.index(p) for p in choice.positions[head]]
        retained_scores = [scores[head, p].item() for p in others[: len(kept - safe)]]
        assert choice.lowest_kept[head] == (min(retained_scores) if retained_scores else None)
