"""Drafter with a chosen accuracy, and runs of a small model that use it."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from pathlib import Path

from engine.config import EngineConfig
from engine.engine import Engine
from engine.model.capture import CaptureRequest
from engine.scheduling.sequence import Sequence
from engine.scheduling.speculation import Drafter, Proposal, Speculation
from engine.trace.operations import DraftMethod
from engine.trace.records import StepRecord
from engine.trace.snapshot import snapshot_of
from engine.trace.state import State
from tests.unit.engine.runs import log_of, tiny_llama

NGRAM = '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 1, "prompt_lookup_max": 3}'


class Scripted:
    """Drafter that drafts `propose(token_ids, max_drafts)`."""

    method: DraftMethod = "ngram"

    def __init__(self, propose: Callable[[list[int], int], list[int]]) -> None:
        self._propose = propose

    def propose(self, requests: Items[tuple[Sequence, int]]) -> list[Proposal]:
        return [Proposal(self._propose(sequence.token_ids, max_drafts)) for sequence, max_drafts in requests]

    def close(self) -> None:
        pass


def speculating(
    config: EngineConfig, drafter: Drafter, num_tokens: int = 8, capture: bool = False, path: Path | None = None
) -> Engine:
    """Return an engine that uses this drafter."""
    everything = CaptureRequest(layers=None, heads=None) if capture else None
    engine = Engine(tiny_llama(), config, capture=everything, log_path=path)
    engine._scheduler.speculation = Speculation(
        drafter, num_tokens, engine._cache, engine._outputs.token_bytes, engine._ops.append
    )
    return engine


def right_then_wrong(future: Items[int], num_right: Callable[[int], int]) -> Callable[[list[int], int], list[int]]:
    """Draft `num_right(number of tokens)` tokens of the full sequence `future` and then a wrong one."""

    def propose(token_ids: list[int], max_drafts: int) -> list[int]:
        at = len(token_ids)
        right = list(future[at : at + num_right(at)])
        wrong = [(future[at + len(right)] + 1) % 100] if at + len(right) < len(future) else [1]
        return [*right, *wrong, 1, 1, 1][:max_drafts]

    return propose


def records_of(engine: Engine) -> list[StepRecord]:
    """Return the engine's log."""
    log = log_of(engine)
    return [log.record(index) for index in range(len(log))]


def step_checked(engine: Engine) -> State:
    """Take a step, and check that the log folds to the engine's state and that cached content is some prefix."""
    record = engine.step()
    engine.check_integrity()
    state = log_of(engine).state_now()
    assert snapshot_of(state) == engine.snapshot()
    assert record.memory == engine.snapshot().memory
    assert not any(sequence.draft_token_ids for sequence in engine._scheduler.running)
    texts = [sequence.token_ids for sequence in state.sequences.values()]
    size = state.block_size
    for block in state.blocks:
        if block.block_hash is not None:
            assert block.logical is not None
            at = block.logical * size
            assert any(text[at : at + size] == block.token_ids for text in texts)
    return state
