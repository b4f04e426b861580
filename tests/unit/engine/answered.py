"""Models with known greedy outputs and their service by an engine, for layers with states or latents."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from engine.cluster.build import local_cluster
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.batch import SequenceSlice
from engine.model.loaded import LoadedModel
from engine.model.loader import from_module
from engine.model.runner import ModelRunner
from engine.requests.request_spec import RequestSpec
from engine.trace.check import check
from engine.trace.operations import Op
from engine.trace.snapshot import snapshot_of
from tests.causal_types import VOCAB_SIZE

NEW = 12  # new tokens of each output
BEAMS = 3
SAMPLING = SamplingParams(max_tokens=NEW, ignore_eos=True)


def prompts() -> list[list[int]]:
    """Return four distinct prompts, one with the prefix of the first, and one that extends the third."""
    distinct = [[random.Random(i).randrange(3, VOCAB_SIZE) for _ in range(n)] for i, n in enumerate((23, 9, 31, 5))]
    return [*distinct, [*distinct[0][:20], 7, 8, 9], [*distinct[2], 11, 12]]


class Case(NamedTuple):
    model: LoadedModel
    answers: list[list[int]]  # of the module itself, token by token, without a cache


def answered(module: Any) -> Iterator[Case]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    answers = []
    for prompt in prompts():
        ids = list(prompt)
        with torch.inference_mode():
            for _ in range(NEW):
                ids.append(int(module(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
        answers.append(ids[len(prompt) :])
    yield Case(from_module(module), answers)
    torch.set_num_threads(before)


def config(**settings: Any) -> EngineConfig:
    usual = {"block_size": 4, "num_blocks": 64, "max_num_seqs": 4, "max_num_batched_tokens": 16, "max_model_len": 64}
    return EngineConfig(**{**usual, **settings})


def serve(engine: Engine, case: Case) -> list[Op]:
    """Serve every prompt, and check the cache and the log after every step, and the tokens."""
    ops: list[Op] = []
    requests = [engine.add_request(prompt, SAMPLING) for prompt in prompts()]
    while engine.has_unfinished():
        ops += engine.step().ops
        engine.check_integrity()
        assert engine.log is not None and snapshot_of(engine.log.state_now()) == engine.snapshot()
    assert [request.output_token_ids for request in requests] == case.answers
    return ops


def run(case: Case, path: Path, **settings: Any) -> list[Op]:
    """Serve every prompt twice."""
    with Engine(case.model, config(**settings), log_path=path) as engine:
        ops = serve(engine, case) + serve(engine, case)
    assert not list(check(path))
    return ops


def handed_over(case: Case, **settings: Any) -> None:
    """Serve every prompt on several instances, and check the tokens."""
    cluster = local_cluster(case.model, config(max_num_seqs=2, **settings))
    try:
        cluster.submit([RequestSpec(prompt, SAMPLING) for prompt in prompts()])
        while cluster.num_unfinished:
            cluster.step(wait=0.01)
        found = {tuple(s.token_ids[:-NEW]): s.token_ids[-NEW:] for s in cluster.log.state_now().sequences.values()}
    finally:
        cluster.close()
    expected = {tuple(prompt): answer for prompt, answer in zip(prompts(), case.answers, strict=True)}
    assert {prompt: found[prompt] for prompt in expected} == expected


def search(engine: Engine, case: Case) -> list[Op]:
    """Run a beam search, and check the scores against separate passes. Beams fork in the middle of a block."""
    new, ops = 6, list[Op]()
    engine.add_request(
        prompts()[1], SamplingParams(use_beam_search=True, beam_width=BEAMS, n=BEAMS, max_tokens=new, ignore_eos=True)
    )
    while engine.has_unfinished():
        ops += engine.step().ops
        engine.check_integrity()
    assert engine.log is not None
    ranked = [sequence for sequence in engine.log.state_now().sequences.values() if sequence.rank is not None]
    assert len(ranked) == BEAMS
    for sequence in ranked:
        single = log_probabilities(case.model, sequence.token_ids[:-1])
        scored = sum(single[sequence.num_prompt_tokens - 1 :][i, t] for i, t in enumerate(sequence.token_ids[-new:]))
        assert sequence.cumulative_logprob == pytest.approx(float(scored), abs=2e-2)
    return ops


def log_probabilities(model: LoadedModel, token_ids: list[int]) -> torch.Tensor:
    """Return the log probabilities of each next token [T, V], computed in one pass over the sequence."""
    runner = ModelRunner(model, 1, len(token_ids), len(token_ids))
    sequence = SequenceSlice(0, token_ids, 0, [[0]], samples=True, all_logits=True)
    return torch.log_softmax(runner.execute([sequence]).logits, dim=-1)
