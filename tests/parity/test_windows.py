"""Windows: what queries do not see is not there any more, and nothing else changes.

Freed blocks are filled with NaN after every step, so a read of one shows: 0 · NaN is NaN.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from engine.cache.reach import Reach
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.batch import SequenceSlice
from engine.model.capture import CaptureRequest
from engine.model.loader import from_module
from engine.model.runner import ForwardResult
from engine.trace.events import RELEASED, Op, Preempt, Release, Share
from tests.parity.harness import TOLERANCE, eager_forward, random_prompt
from tests.tiny_models import VOCAB_SIZE, WINDOW, tiny_model

PROMPT_TOKENS, NEW_TOKENS = 23, 18


def masked_forward(module: Any, token_ids: list[int], reach: Reach) -> Any:
    """transformers' eager forward of the whole sequence under a dense mask: what is hidden gets -inf in every layer."""
    assert reach.window is not None
    count = len(token_ids)
    queries, keys = torch.arange(count)[:, None], torch.arange(count)[None, :]
    seen = (keys <= queries) & ((keys < reach.sinks) | (queries - keys < reach.window))
    mask = torch.zeros(count, count).masked_fill(~seen, torch.finfo(torch.float32).min)[None, None]
    before = module.config._attn_implementation
    module.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            return module(torch.tensor([token_ids]), attention_mask=mask, output_attentions=True)
    finally:
        module.set_attn_implementation(before)


class Ran(NamedTuple):
    outputs: list[list[int]]
    peak: int  # the most blocks that a sequence held in a forward pass, before anything was released
    ops: Counter[type[Op]]


def ran(engine: Engine, prompts: list[list[int]]) -> Ran:
    """Run prompts greedily to their end; after each step what nobody holds and nobody could hit is poisoned."""
    sampling = SamplingParams(max_tokens=NEW_TOKENS, ignore_eos=True)
    requests = [engine.add_request(prompt, sampling) for prompt in prompts]
    peaks, ops = [0], Counter[type[Op]]()
    execute = engine._runner.execute

    def watched(slices: Sequence[SequenceSlice], capture: CaptureRequest | None = None) -> ForwardResult:
        peaks.extend(sum(i != RELEASED for i in piece.block_table) for piece in slices)
        return execute(slices, capture)

    engine._runner.execute = watched  # type: ignore[method-assign]
    while engine.has_unfinished():
        ops.update(type(op) for op in engine.step().ops)
        engine.check_integrity()
        now = engine.snapshot()
        gone = [i for i, count in enumerate(now.ref_counts) if count == 0 and now.block_hashes[i] is None]
        for pool in engine._runner.kv_store.pools:
            pool[gone] = float("nan")
    return Ran([request.output_token_ids for request in requests], max(peaks), ops)


def logprobs(engine: Engine) -> list[float]:
    assert engine.log is not None
    return [o.logprob for i in range(len(engine.log)) for o in engine.log.record(i).outputs]


def expected_logprobs(logits: Tensor, token_ids: list[int]) -> list[float]:
    """Of each generated token, by the logits [tokens, V] of the whole sequence."""
    rows = torch.log_softmax(logits.double(), dim=-1)
    return [float(rows[p - 1, token_ids[p]]) for p in range(PROMPT_TOKENS, len(token_ids))]


@pytest.mark.parametrize("block_size", [1, 2, 3, 4])
@pytest.mark.parametrize("budget", [512, 7])
def test_a_model_whose_layers_all_have_windows(block_size: int, budget: int) -> None:
    """Mistral, window 5, 41 tokens: the logits are those of transformers, and at most ceil((5 + T) / B) + 1 blocks are
    held, T the tokens of a step.
    """
    prompt = random_prompt(PROMPT_TOKENS, VOCAB_SIZE, 1)
    caching = block_size > 1  # without it every released block is poisoned at once
    config = EngineConfig(
        block_size=block_size, num_blocks=64, max_num_batched_tokens=budget, enable_prefix_caching=caching
    )
    with Engine(from_module(tiny_model("mistral")), config) as engine:
        [output], peak, ops = ran(engine, [prompt])
        found = logprobs(engine)
    whole = [*prompt, *output]
    expected = expected_logprobs(eager_forward(tiny_model("mistral"), whole).logits[0], whole)
    assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) <= TOLERANCE
    assert ops[Release] > 0
    assert peak <= math.ceil((WINDOW + min(budget, PROMPT_TOKENS)) / block_size) + 1


@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_greedy_output_is_the_same_with_and_without_releasing(mode: Any) -> None:
    """Eight prompts, most of which begin alike, in pools with room for all and for few: hits, preemption."""
    shared = random_prompt(12, VOCAB_SIZE, 2)
    prompts = [[*shared, *random_prompt(n, VOCAB_SIZE, n)] for n in (3, 4, 5, 7, 8, 9, 11)] + [
        random_prompt(9, VOCAB_SIZE, 8)
    ]
    runs = []
    for num_blocks, releases in ((100, False), (100, True), (15, True)):
        config = EngineConfig(
            block_size=3, num_blocks=num_blocks, max_model_len=45, preemption_mode=mode, max_num_batched_tokens=9
        )
        with Engine(from_module(tiny_model("mistral")), config) as engine:
            if not releases:
                engine._cache.retention = None
            runs.append(ran(engine, prompts))
        assert (runs[-1].ops[Release] > 0) == releases
    assert runs[0].outputs == runs[1].outputs == runs[2].outputs
    # without: 12 + 11 + 18 - 1 = 40 slots = 14 blocks of 3; with: ceil((5 + 9) / 3) + 1 = 6
    assert runs[0].peak == 14 and max(runs[1].peak, runs[2].peak) <= 6
    assert runs[2].ops[Preempt] > 0 and runs[2].ops[Share] > 0


def test_a_hybrid_model_releases_nothing() -> None:
    """Gemma 2: every other layer sees all keys, and one table serves all layers."""
    with Engine(from_module(tiny_model("gemma2")), EngineConfig(block_size=2, num_blocks=64)) as engine:
        assert ran(engine, [random_prompt(PROMPT_TOKENS, VOCAB_SIZE, 3)]).ops[Release] == 0


@pytest.mark.parametrize(
    ("family", "window", "sinks"),
    [
        ("llama", 6, None),
        ("llama", 6, 3),
        ("llama", 1, 4),
        ("llama", 60, 2),
        ("gpt2", 5, 2),
        ("mistral", 4, 2),
    ],
)
@pytest.mark.parametrize(("block_size", "budget"), [(2, 512), (4, 6)])
def test_the_policy_against_a_dense_mask(
    family: str, window: int, sinks: int | None, block_size: int, budget: int
) -> None:
    """Logits and captured rows are those of a forward pass with -inf wherever the policy hides a key.

    Mistral's own window of 5 is wider than the policy's 4, which takes its place. The table keeps the sinks' blocks.
    """
    prompt = random_prompt(PROMPT_TOKENS, VOCAB_SIZE, 4)
    config = EngineConfig(
        block_size=block_size, num_blocks=64, max_num_batched_tokens=budget, attention_window=window,
        attention_sinks=sinks,
    )  # fmt: skip
    capture = CaptureRequest(dtype="float32")
    with Engine(from_module(tiny_model(family)), config, capture=capture) as engine:
        [output], peak, ops = ran(engine, [prompt])
        found = logprobs(engine)
        assert engine.log is not None
        captures = [engine.log.capture(i) for i in range(len(engine.log))]
    whole = [*prompt, *output]
    dense = masked_forward(tiny_model(family), whole, Reach(window, sinks or 0))
    expected = expected_logprobs(dense.logits[0], whole)
    assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) <= TOLERANCE
    assert (ops[Release] > 0) == (window < 60)
    tokens = min(budget, PROMPT_TOKENS)
    bound = math.ceil((window + tokens) / block_size) + 1 + math.ceil((sinks or 0) / block_size)
    assert peak <= min(bound, math.ceil((len(whole) - 1) / block_size))

    compared = 0
    for captured in captures:
        for layer in captured.layers if captured else []:
            for rows in layer.rows:
                for i, row in enumerate(torch.tensor(rows.weights).unbind(1)):
                    query = rows.query_start + i
                    reference = dense.attentions[layer.layer][0, rows.heads, query]
                    length = row.shape[1]
                    assert (row - reference[:, rows.key_start : rows.key_start + length]).abs().max() <= TOLERANCE
                    assert reference[:, : rows.key_start].abs().sum() == 0, "nothing that a query saw is left out"
                    compared += 1
    assert compared >= 3 * (len(whole) - 1)
