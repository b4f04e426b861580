"""Grading of a learner's operations against the engine's."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from app.lessons.allocator.block_manager import BlockManager, BlockMove, Objection
from app.lessons.allocator.exercise import Done, Exercise, Hashed
from engine.trace.state import State

ChoiceFault = Literal["order", "not_head", "not_tail", "needless"]


class Verdict(Struct, frozen=True, kw_only=True):
    """Verdict on one operation.

    `right`: as the engine's. `other`: a valid alternative. `illegal`: not allowed. `differs`: not the engine's; used in
    recorded lessons, which cannot check whether an operation is allowed.
    """

    grade: Literal["right", "other", "illegal", "differs"]
    why: Objection | ChoiceFault | None = None
    refs: int = 0  # ref_count of the block before the operation


class Graded(Struct, frozen=True, kw_only=True):
    """Verdict on a list of operations."""

    verdicts: list[Verdict]
    missing: int  # number of the engine's operations that have no counterpart in the list

    @property
    def right(self) -> bool:
        return not self.missing and all(verdict.grade == "right" for verdict in self.verdicts)


def compare(engine: list[Done], given: list[BlockMove]) -> Graded:
    """Compare a list with the engine's operations position by position."""
    verdicts = [
        Verdict(grade="right" if i < len(engine) and move == engine[i].move else "differs")
        for i, move in enumerate(given)
    ]
    return Graded(verdicts=verdicts, missing=max(0, len(engine) - len(given)))


def grade(exercise: Exercise, state: State, given: list[BlockMove]) -> Graded:
    """Grade a list of operations on `state`.

    The engine's next operation is right. After the list has diverged, an operation is right if it follows the engine's
    policy: allocate the head of the learner's free queue, and free the last block of the learner's table.
    """
    manager = BlockManager(state, exercise.leaving)
    remaining = list(exercise.done)
    verdicts = []
    for move in given:
        if not _exists(move, manager):
            verdicts.append(Verdict(grade="illegal", why="nobody"))
            continue
        refs = manager.refs[move.source if move.kind == "copy" and move.source is not None else move.block]
        _apply_hashes(remaining, manager)
        why = manager.objection(move)
        if why is not None:
            verdicts.append(Verdict(grade="illegal", why=why, refs=refs))
            continue
        fault = _choice_fault(move, remaining, manager)
        manager.do(move)
        verdicts.append(Verdict(grade="other" if fault else "right", why=fault, refs=refs))
    return Graded(verdicts=verdicts, missing=sum(isinstance(one, Done) for one in remaining))


def _exists(move: BlockMove, manager: BlockManager) -> bool:
    return all(0 <= block < len(manager.refs) for block in (move.block, move.source) if block is not None)


def _apply_hashes(remaining: list[Done | Hashed], manager: BlockManager) -> None:
    """Apply the hashes that the engine set before its next operation."""
    while remaining and isinstance(remaining[0], Hashed):
        hashed = remaining.pop(0)
        assert isinstance(hashed, Hashed)
        manager.cache(hashed.block, hashed.tokens)


def _choice_fault(move: BlockMove, remaining: list[Done | Hashed], manager: BlockManager) -> ChoiceFault | None:
    """Return how a legal operation differs from the engine's, and remove its counterpart from `remaining`."""
    done = [one for one in remaining if isinstance(one, Done)]
    same = [one for one in done if (one.move.kind, one.move.seq) == (move.kind, move.seq)]
    counterpart = next((one for one in same if _is_policy(move, one.move, manager)), None)
    if counterpart is None:
        if not same:
            return "needless"
        remaining.remove(same[0])
        return "not_tail" if move.kind == "free" else "not_head"
    remaining.remove(counterpart)
    return None if counterpart is done[0] else "order"


def _is_policy(move: BlockMove, engine_move: BlockMove, manager: BlockManager) -> bool:
    """Return whether a move equals the engine's, or follows the engine's policy on the learner's queue and table."""
    match move.kind:
        case "allocate" | "evict":
            return move.block == manager.queue[0]
        case "copy":
            return move.block == manager.queue[0] and move.source == engine_move.source
        case "share":
            return move.block == engine_move.block
        case "free":
            return move.seq is not None and move.block == manager.tables[move.seq][-1]
