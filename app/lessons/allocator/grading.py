"""Grading of a learner's operations against the engine's: right, a valid alternative, or illegal, with a reason."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from app.lessons.allocator.block_manager import BlockManager, BlockMove, Objection
from app.lessons.allocator.exercise import Done, Exercise, Hashed
from engine.trace.state import State

ChoiceFault = Literal["order", "not_head", "not_tail", "needless"]


class Verdict(Struct, frozen=True, kw_only=True):
    """Verdict on one operation: as the engine, `other`: a valid alternative, or `illegal`.

    `differs`: the engine did something else; in a recorded lesson, which has the operations but not the rules.
    """

    grade: Literal["right", "other", "illegal", "differs"]
    why: Objection | ChoiceFault | None = None
    refs: int = 0  # ref_count of its block before the operation


class Graded(Struct, frozen=True, kw_only=True):
    """Verdict on a list."""

    verdicts: list[Verdict]
    missing: int  # operations of the engine without a counterpart in the list

    @property
    def right(self) -> bool:
        return not self.missing and all(verdict.grade == "right" for verdict in self.verdicts)


def compare(engine: list[Done], given: list[BlockMove]) -> Graded:
    """Compare a list with the engine's operations by position."""
    verdicts = [
        Verdict(grade="right" if i < len(engine) and move == engine[i].move else "differs")
        for i, move in enumerate(given)
    ]
    return Graded(verdicts=verdicts, missing=max(0, len(engine) - len(given)))


def grade(exercise: Exercise, state: State, given: list[BlockMove]) -> Graded:
    """Grade a list of operations on `state`.

    The engine's next operation is right. Once the list has diverged, its policy is right: the head of the learner's
    queue, the last block of the learner's table.
    """
    manager = BlockManager(state, exercise.leaving)
    coming = list(exercise.done)
    verdicts = []
    for move in given:
        if not _exists(move, manager):
            verdicts.append(Verdict(grade="illegal", why="nobody"))
            continue
        refs = manager.refs[move.source if move.kind == "copy" and move.source is not None else move.block]
        _pass_hashes(coming, manager)
        why = manager.objection(move)
        if why is not None:
            verdicts.append(Verdict(grade="illegal", why=why, refs=refs))
            continue
        choice = _choice(move, coming, manager)
        manager.do(move)
        verdicts.append(Verdict(grade="other" if choice else "right", why=choice, refs=refs))
    return Graded(verdicts=verdicts, missing=sum(isinstance(one, Done) for one in coming))


def _exists(move: BlockMove, manager: BlockManager) -> bool:
    return all(0 <= block < len(manager.refs) for block in (move.block, move.source) if block is not None)


def _pass_hashes(coming: list[Done | Hashed], manager: BlockManager) -> None:
    """Apply the hashes that the engine set before its next operation."""
    while coming and isinstance(coming[0], Hashed):
        hashed = coming.pop(0)
        assert isinstance(hashed, Hashed)
        manager.cache(hashed.block, hashed.tokens)


def _choice(move: BlockMove, coming: list[Done | Hashed], manager: BlockManager) -> ChoiceFault | None:
    """Return how a legal operation differs from the engine's; removes its counterpart from `coming`."""
    same = [one for one in coming if isinstance(one, Done) and (one.move.kind, one.move.seq) == (move.kind, move.seq)]
    meant = next((one for one in same if _is_policy(move, one.move, manager)), None)
    if meant is None:
        if not same:
            return "needless"
        coming.remove(same[0])
        return "not_tail" if move.kind == "free" else "not_head"
    first = next(one for one in coming if isinstance(one, Done))
    coming.remove(meant)
    return None if meant is first else "order"


def _is_policy(move: BlockMove, engines: BlockMove, manager: BlockManager) -> bool:
    """Return whether it is the engine's operation, or its policy applied to the learner's queue and table."""
    match move.kind:
        case "allocate" | "evict":
            return move.block == manager.queue[0]
        case "copy":
            return move.block == manager.queue[0] and move.source == engines.source
        case "share":
            return move.block == engines.block
        case "free":
            return move.seq is not None and move.block == manager.tables[move.seq][-1]
