"""Ablation of heads and layers: its effect on a pass, forks, and the separation of cached keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from msgspec.structs import replace
from torch import Tensor

from engine.cache.ablate_settings import Off, read_ablation
from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.engine import Engine
from engine.lab.change import AblateChange, AbortChange, Change, RequestChange, config_of_fork
from engine.lab.rerun import Rerun
from engine.model.capture import CaptureRequest
from engine.model.loader import from_module
from engine.setup.resolve import resolve_for
from engine.trace.check import check
from engine.trace.operations import Lookup, Preempt
from tests.tiny_models import tiny_model
from tests.unit.engine.runs import GREEDY, PROMPTS, log_of, ops_of, tiny_llama

CONFIG = EngineConfig(block_size=4, num_blocks=64, enforce_eager=True)
TOKENS = PROMPTS[0]
EACH = CaptureRequest(layers=None, heads=None, outputs=True, dtype="float32")


def finished(config: EngineConfig, prompts: list[list[int]], capture: CaptureRequest | None = None) -> Engine:
    """Return an engine that has run the prompts one after another. The caller closes it."""
    engine = Engine(tiny_llama(), config, capture=capture)
    for prompt in prompts:
        engine.add_request(prompt, GREEDY)
        while engine.has_unfinished():
            engine.step()
    return engine


def run_of(config: EngineConfig, prompts: Sequence[list[int]]) -> Engine:
    """Return an engine that has run the prompts, submitted at once. The caller closes it."""
    engine = Engine(tiny_llama(), config)
    for prompt in prompts:
        engine.add_request(prompt, replace(GREEDY, max_tokens=20))
    while engine.has_unfinished():
        engine.step()
    return engine


def forked(source: Engine, at: int, change: Change, log_path: Path | None = None) -> Engine:
    config = config_of_fork(msgspec.convert(log_of(source).header.engine, EngineConfig), at, change)
    engine = Engine(tiny_llama(), config, capture=source.capture, log_path=log_path)
    Rerun(engine, log_of(source), at, change, follow=True).finish()
    return engine


def lookups_of(engine: Engine) -> list[Lookup]:
    log = log_of(engine)
    return [op for i in range(len(log)) for op in ops_of(log.record(i), Lookup)]


def outputs_of(engine: Engine, seq_id: int) -> list[tuple[int, Any]]:
    log = log_of(engine)
    outputs = [one for i in range(len(log)) for one in log.record(i).outputs if one.seq_id == seq_id]
    return [(one.token_id, pytest.approx(one.logprob, abs=1e-4)) for one in outputs]


def expected(module: Any, off: Off) -> Tensor:
    """Return the log probabilities after TOKENS, computed by transformers with hooks."""

    def no_head(_: Any, args: tuple[Tensor]) -> tuple[Tensor]:
        mixed = args[0].clone()
        mixed.view(*mixed.shape[:-1], 4, -1)[..., off.head, :] = 0
        return (mixed,)

    layer = module.model.layers[off.layer]
    hook = (
        layer.register_forward_hook(lambda _, args, __: args[0])
        if off.head is None
        else layer.self_attn.o_proj.register_forward_pre_hook(no_head)
    )
    with torch.inference_mode():
        logits = module(torch.tensor([TOKENS])).logits[0, -1]
    hook.remove()
    found: Tensor = logits.log_softmax(-1)
    return found


@pytest.mark.parametrize("off", [Off(1, 3, 0), Off(0, 0, 0), Off(2, None, 0)], ids=str)
def test_ablation_equals_transformers_without_the_head_or_layer(off: Off) -> None:
    module = tiny_model("llama")
    module.set_attn_implementation("eager")
    reference = expected(module, off)
    with Engine(from_module(tiny_model("llama")), replace(CONFIG, ablate=str(off))) as engine:
        engine.add_request(TOKENS, SamplingParams(max_tokens=2, ignore_eos=True))
        [output] = engine.step().outputs
        assert output.token_id == int(reference.argmax())
        for one in output.top:
            assert one.logprob == pytest.approx(float(reference[one.token_id]), abs=1e-4)


def test_a_fork_with_an_ablation_differs_only_from_its_record_on(tmp_path: Path) -> None:
    change, path = AblateChange(layer=1, head=2), tmp_path / "fork.kvtrace"
    with finished(CONFIG, [TOKENS], EACH) as source, forked(source, 4, change, path) as fork:
        log, other = log_of(source), log_of(fork)
        assert other.header.engine["ablate"] == "1.2@4"
        assert [r.outputs for r in map(log.record, range(4))] == [r.outputs for r in map(other.record, range(4))]
        before, after = log.capture(4), other.capture(4)
        assert before and after
        same = [bool((a.k == b.k).all()) for a, b in zip(before.layers, after.layers, strict=True)]
        assert same == [True, True, False], "a head of layer 1 changes keys from layer 2 on"
        with Engine(tiny_llama(), fork.config) as again:
            Rerun(again, other, len(other), None, follow=False).finish()
        with forked(fork, 6, AblateChange(layer=0)) as second:
            assert second.config.ablate == "1.2@4 0@6"
            assert log_of(second).record(5).outputs == other.record(5).outputs
    assert not list(check(path))


def test_recomputation_in_one_pass_equals_the_steps_of_a_fork() -> None:
    """The head is ablated only for tokens after the fork."""
    with finished(CONFIG, [TOKENS], EACH) as source, forked(source, 4, AblateChange(layer=0, head=1)) as fork:
        log = log_of(fork)
        rows = {i: log.capture(i) for i in range(len(log)) if log.record(i).batch}
        recomputed = fork.recompute_attention(0, 2, num_tokens=len(TOKENS) + 8).layers[0]
        for index, capture in rows.items():
            start = log.record(index).batch[0].start
            assert capture is not None
            k = capture.layers[2].k[: len(recomputed.k) - start]
            assert abs(k - recomputed.k[start : start + len(k)]).max(initial=0) < 1e-4


def test_a_preempted_sequence_is_recomputed_with_its_ablations() -> None:
    """The pool holds one and a half of two sequences. The younger is preempted after the ablation begins."""
    found = []
    for num_blocks, caching in ((64, True), (12, True), (12, False)):
        config = replace(CONFIG, num_blocks=num_blocks, enable_prefix_caching=caching, ablate="1.2@4")
        with run_of(config, (TOKENS, PROMPTS[5])) as engine:
            log = log_of(engine)
            assert any(ops_of(log.record(i), Preempt) for i in range(5, len(log))) == (num_blocks == 12)
            found.append([outputs_of(engine, seq_id) for seq_id in (0, 1)])
    assert found[0] == found[1] == found[2]


def test_an_ablation_that_begins_during_preemption_spares_computed_tokens() -> None:
    """The ablation applies from the first token that was never computed, even if the sequence holds no computed token
    when the ablation begins.
    """
    requests = (TOKENS, PROMPTS[5])
    with run_of(replace(CONFIG, num_blocks=12), requests) as engine:
        log = log_of(engine)
        [at, *_] = [(i, op) for i in range(len(log)) for op in ops_of(log.record(i), Preempt)]
        record, count = at[0] + 1, at[1].num_computed_tokens
    with run_of(CONFIG, requests) as engine:
        log = log_of(engine)
        ends = [(i, b.start + len(b.token_ids)) for i in range(len(log)) for b in log.record(i).batch if b.seq_id == 1]
        same = next(i for i, end in ends if end == count) + 1
    with (
        run_of(replace(CONFIG, num_blocks=12, ablate=f"0@{record}"), requests) as preempted,
        run_of(replace(CONFIG, ablate=f"0@{same}"), requests) as single,
    ):
        assert outputs_of(preempted, 1) == outputs_of(single, 1)


def test_strategy_none_ablates_the_same_tokens() -> None:
    with (
        run_of(replace(CONFIG, ablate="0@4"), [TOKENS]) as paged,
        run_of(replace(CONFIG, ablate="0@4", strategy="none"), [TOKENS]) as none,
    ):
        assert outputs_of(none, 0) == outputs_of(paged, 0)


def test_forked_sequences_are_remembered_with_their_ablations() -> None:
    """The layer is ablated from the middle of the first prompt on. In the equal second prompt it is ablated from the
    start, so nothing hits.
    """
    config = replace(CONFIG, max_num_batched_tokens=4, ablate="0@3")
    with finished(config, []) as engine:
        for n in (2, 1):
            engine.add_request(TOKENS, replace(GREEDY, n=n, temperature=1.0, seed=1))
            while engine.has_unfinished():
                engine.step()
        _, again = lookups_of(engine)
        assert (again.num_hit_tokens, again.reason, again.closest_seq_id) == (0, "other_ablation", 1)


def test_forking_before_an_ablation_drops_it() -> None:
    config = replace(CONFIG, ablate="1.2@4 0@6")
    assert config_of_fork(config, 5, AbortChange(request_id="x")).ablate == "1.2@4"
    assert config_of_fork(config, 3, AblateChange(layer=2)).ablate == "2@3"
    assert config_of_fork(config, 3, AbortChange(request_id="x")).ablate is None
    assert config_of_fork(config, 3, None) == config
    with (
        finished(CONFIG, [TOKENS]) as source,
        forked(source, 6, AblateChange(layer=0)) as ablated,
        forked(ablated, 4, RequestChange(prompt=PROMPTS[5], sampling=GREEDY)) as fork,
    ):
        assert fork.config.ablate is None and outputs_of(fork, 0) == outputs_of(source, 0)


def test_ablated_and_unablated_keys_never_mix() -> None:
    """The ablation begins before the second of three equal prompts. The third hits blocks of the second."""
    with finished(CONFIG, [TOKENS]) as engine:
        at = len(log_of(engine))
    with (
        finished(CONFIG, [TOKENS, TOKENS, TOKENS]) as source,
        forked(source, at, AblateChange(layer=1, head=2)) as fork,
    ):
        found = lookups_of(fork)
        assert [(op.num_hit_tokens, op.reason) for op in found] == [
            (0, "nothing_shared"),
            (0, "other_ablation"),
            (16, None),
        ]
        assert outputs_of(fork, 1) == outputs_of(fork, 2) != outputs_of(fork, 0)
        with finished(replace(CONFIG, ablate="1.2@0", enable_prefix_caching=False), [TOKENS]) as single:
            assert outputs_of(fork, 1) == outputs_of(single, 0)


def test_blocks_of_an_ablation_hit_only_with_the_same_ablation() -> None:
    """The first blocks of a fork are computed without the ablation. A request with its tokens does not hit them."""
    with finished(CONFIG, [TOKENS]) as source, forked(source, 6, AblateChange(layer=1, head=2)) as fork:
        text = log_of(fork).state_now().sequences[0].token_ids
        fork.add_request(text, GREEDY)
        fork.step()
        found = lookups_of(fork)[-1]
        assert found.num_hit_tokens == 0, "the request is ablated from its first token on"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"ablate": "1.2"}, "LAYER.HEAD@RECORD"),
        ({"ablate": "1.9@0"}, "ablate has 1.9, but the last layer and head of tiny-llama are 2.3"),
        ({"ablate": "3@0"}, "ablate has 3,"),
        ({"strategy": "dynamic"}, "leave out strategy dynamic"),
        ({"mixed": 2}, "leave out prefill, decode and mixed"),
        ({"forget_policy": "h2o"}, "leave out forget_policy"),
        ({"preemption_mode": "swap"}, "leave out preemption_mode swap"),
    ],
)
def test_incompatible_features_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence.replace(".", r"\.")):
        resolve_for(replace(CONFIG, **{"ablate": "1.2@0", **settings}), tiny_llama().facts)


def test_ablation_text_round_trips() -> None:
    offs = [Off(1, 2, 7), Off(3, None, 12)]
    assert read_ablation(" ".join(map(str, offs))) == offs and read_ablation(None) == []
