"""Sliding windows: keys that queries do not see are released, and nothing else changes.

Freed blocks are filled with NaN after every step, so a read of one shows: 0 · NaN is NaN.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
import torch
from torch import Tensor

from engine.cache.attention_span import AttentionSpan, WindowPolicy
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.attention_reference import ReferenceAttention
from engine.model.batch import SequenceSlice
from engine.model.capture import CaptureRequest
from engine.model.loader import from_module
from engine.model.runner import ForwardResult, ModelRunner
from engine.requests.request_spec import RequestError
from engine.trace.operations import RELEASED, Lookup, Op, Preempt, Release, Share
from engine.trace.snapshot import snapshot_of
from tests.parity.harness import TOLERANCE, eager_forward, masked_forward, random_prompt
from tests.tiny_models import VOCAB_SIZE, WINDOW, tiny_model

PROMPT_TOKENS, NEW_TOKENS = 23, 18


class Ran(NamedTuple):
    outputs: list[list[int]]
    peak: int  # the most blocks of the last group that a sequence held in a forward pass
    ops: Counter[type[Op]]


def ran(engine: Engine, prompts: list[list[int]], poison: float = math.nan) -> Ran:
    """Run prompts greedily to their end; after each step, slots that are neither held nor cached are poisoned."""
    sampling = SamplingParams(max_tokens=NEW_TOKENS, ignore_eos=True)
    requests = [engine.add_request(prompt, sampling) for prompt in prompts]
    peaks, ops = [0], Counter[type[Op]]()
    execute = engine._runner.execute

    def watched(slices: Sequence[SequenceSlice], capture: CaptureRequest | None = None) -> ForwardResult:
        peaks.extend(sum(i != RELEASED for i in table) for piece in slices for table in piece.block_tables[-1:])
        return execute(slices, capture)

    engine._runner.execute = watched  # type: ignore[method-assign]
    while engine.has_unfinished():
        ops.update(type(op) for op in engine.step().ops)
        engine.check_integrity()
        now = engine.snapshot()
        gone = [i for i, count in enumerate(now.ref_counts) if count == 0 and now.block_hashes[i] is None]
        for group in engine.block_groups:
            ids = range(group.first_block, group.first_block + group.num_blocks)
            for pool in engine._runner.kv_store.pools(group.layers):
                pool[[i - group.first_block for i in gone if i in ids]] = poison
    return Ran([request.output_token_ids for request in requests], max(peaks), ops)


def logprobs(engine: Engine) -> list[float]:
    assert engine.log is not None
    return [o.logprob for i in range(len(engine.log)) for o in engine.log.record(i).outputs]


def expected_logprobs(logits: Tensor, token_ids: list[int]) -> list[float]:
    """Return the log probability of each generated token, by the logits [tokens, V] of the whole sequence."""
    rows = torch.log_softmax(logits.double(), dim=-1)
    return [float(rows[p - 1, token_ids[p]]) for p in range(PROMPT_TOKENS, len(token_ids))]


@pytest.mark.parametrize("block_size", [1, 2, 3, 4])
@pytest.mark.parametrize("budget", [512, 7])
def test_a_model_whose_layers_all_have_windows(block_size: int, budget: int) -> None:
    """Mistral with window 5 and 41 tokens has transformers' logits and holds at most ceil((5 + T) / B) + 1 blocks, T
    the tokens of a step.
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
    """Eight prompts, most with a shared prefix, run in large and small pools, with hits and preemption."""
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
                [cache] = engine._cache.groups
                cache.retention = None
                prefixes = engine._cache.prefixes
                prefixes._groups = [group._replace(retention=None) for group in prefixes._groups]
            runs.append(ran(engine, prompts))
        assert (runs[-1].ops[Release] > 0) == releases
    assert runs[0].outputs == runs[1].outputs == runs[2].outputs
    # without: 12 + 11 + 18 - 1 = 40 slots = 14 blocks of 3; with: ceil((5 + 9) / 3) + 1 = 6
    assert runs[0].peak == 14 and max(runs[1].peak, runs[2].peak) <= 6
    assert runs[2].ops[Preempt] > 0 and runs[2].ops[Share] > 0


@pytest.mark.parametrize("family", ["gemma2", "gemma3", "gpt_oss"])
@pytest.mark.parametrize(("block_size", "budget"), [(1, 512), (2, 7), (3, 512)])
def test_a_hybrid_model_releases_what_its_windowed_layers_left_behind(
    family: str, block_size: int, budget: int
) -> None:
    """Layers with a window have a separate pool, and hold no more of it than their window; the others keep all."""
    prompt = random_prompt(PROMPT_TOKENS, VOCAB_SIZE, 3)
    config = EngineConfig(
        block_size=block_size, num_blocks=64, max_num_batched_tokens=budget, enable_prefix_caching=block_size > 1
    )
    with Engine(from_module(tiny_model(family)), config) as engine:
        full, windowed = engine.block_groups
        windows = engine.model.facts.sliding_windows
        assert [windows[layer] for layer in full.layers] == [None] * len(full.layers) and full.window is None
        assert {windows[layer] for layer in windowed.layers} == {windowed.window} and windowed.window is not None
        [output], peak, _ = ran(engine, [prompt])
        found = logprobs(engine)
        assert engine.log is not None
        released = [op for i in range(len(engine.log)) for op in engine.log.record(i).ops if isinstance(op, Release)]
        assert released and all(op.block_id >= windowed.first_block for op in released)
    whole = [*prompt, *output]
    expected = expected_logprobs(eager_forward(tiny_model(family), whole).logits[0], whole)
    assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) <= TOLERANCE
    assert peak <= math.ceil((windowed.window + min(budget, PROMPT_TOKENS)) / block_size) + 1


@pytest.mark.parametrize("mode", ["recompute", "swap"])
@pytest.mark.parametrize("family", ["gemma2", "gpt_oss"])
def test_a_hybrid_under_preemption_gives_the_same_tokens(family: str, mode: Any) -> None:
    """Greedy output equals that of single requests under shared prefixes, both kinds of preemption, chunks, and a small
    pool.

    The poison is a number here: layers with full attention pad the shorter sequences of a batch with slots that are not
    written yet, whose weight is 0.
    """
    shared = random_prompt(12, VOCAB_SIZE, 2)
    prompts = [[*shared, *random_prompt(n, VOCAB_SIZE, n)] for n in (3, 4, 5, 7, 8, 9)]
    config = EngineConfig(
        block_size=3, num_blocks=24, max_model_len=60, preemption_mode=mode, max_num_batched_tokens=9, max_num_seqs=6
    )
    model = from_module(tiny_model(family))
    with Engine(model, config) as engine:
        together = ran(engine, prompts, poison=1e9)
        assert engine.log is not None
        hits = [op for i in range(len(engine.log)) for op in engine.log.record(i).ops if isinstance(op, Lookup)]
        assert snapshot_of(engine.log.state_now()) == engine.snapshot()
    assert together.ops[Preempt] > 0 and together.ops[Release] > 0
    assert any(op.verdict == "hit" for op in hits)
    alone = []
    for prompt in prompts:
        with Engine(model, config) as engine:
            alone += ran(engine, [prompt]).outputs
    assert together.outputs == alone


def test_the_policy_may_leave_every_nth_layer_alone() -> None:
    """Logits are those of a dense mask that differs between layers; keys are at the positions of their layer's
    table.
    """
    prompt = random_prompt(PROMPT_TOKENS, VOCAB_SIZE, 5)
    config = EngineConfig(
        block_size=2, num_blocks=64, attention_window=4, attention_sinks=2, sliding_window_pattern=2,
        max_num_batched_tokens=8,
    )  # fmt: skip
    with Engine(from_module(tiny_model("llama")), config) as engine:
        full, windowed = engine.block_groups
        num_layers = engine.model.facts.num_layers
        assert full.layers == list(range(1, num_layers, 2)) and windowed.layers == list(range(0, num_layers, 2))
        assert (windowed.window, windowed.sinks) == (4, 2)
        [output], _, ops = ran(engine, [prompt])
        found = logprobs(engine)
    assert ops[Release] > 0
    whole = [*prompt, *output]
    model = from_module(tiny_model("llama"))
    runner = ModelRunner(model, 1, len(whole), len(whole), backend=ReferenceAttention(), policy=WindowPolicy(4, 2, 2))
    piece = SequenceSlice(0, whole, 0, [[0]], samples=True, all_logits=True)
    expected = expected_logprobs(runner.execute([piece]).logits, whole)
    assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) <= TOLERANCE


def test_a_request_longer_than_the_pool_fits_when_every_layer_has_a_window() -> None:
    """Mistral with window 5 and steps of 4 tokens holds at most 1 + ceil(7 / 2) = 5 blocks of 2, whatever the
    length.
    """
    prompt = random_prompt(40, VOCAB_SIZE, 6)
    config = EngineConfig(block_size=2, num_blocks=5, max_num_batched_tokens=4)
    with Engine(from_module(tiny_model("mistral")), config) as engine:
        [output], peak, _ = ran(engine, [prompt])
    assert peak <= 5 and len(output) == NEW_TOKENS
    whole = [*prompt, *output]
    logits = eager_forward(tiny_model("mistral"), whole).logits[0]
    assert [int(logits[p - 1].argmax()) for p in range(len(prompt), len(whole))] == output
    with (
        Engine(from_module(tiny_model("mistral")), msgspec.structs.replace(config, num_blocks=4)) as engine,
        pytest.raises(RequestError, match="40 tokens"),
    ):
        engine.add_request(prompt)


@pytest.mark.parametrize(
    ("family", "window", "sinks"),
    [("llama", 6, None), ("llama", 6, 3), ("llama", 1, 4), ("llama", 60, 2), ("gpt2", 5, 2), ("mistral", 4, 2)],
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
    dense = masked_forward(tiny_model(family), whole, AttentionSpan(window, sinks or 0))
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
