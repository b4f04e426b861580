"""A learner's list of operations beside the engine's: right, another choice that might be, or impossible, and why."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from app.lessons.allocator.block_manager import BlockManager, BlockMove, Objection
from app.lessons.allocator.exercise import Done, Exercise, Hashed
from engine.trace.state import State

ChoiceFault = Literal["order", "not_head", "not_tail", "needless"]


class Verdict(Struct, frozen=True, kw_only=True):
    """On one operation: what the engine does too, `other`: it might be done so, or `illegal`.

    `differs`: the engine did something else there; in a recorded lesson, which has what was done and not the rules.
    """

    grade: Literal["right", "other", "illegal", "differs"]
    why: Objection | ChoiceFault | None = None
    refs: int = 0  # ref_count of the block that it is about, before


class Graded(Struct, frozen=True, kw_only=True):
    """On a list."""

    verdicts: list[Verdict]
    missing: int  # operations of the engine that nothing in the list stands for

    @property
    def right(self) -> bool:
        return not self.missing and all(verdict.grade == "right" for verdict in self.verdicts)


def compare(engine: list[Done], given: list[BlockMove]) -> Graded:
    """Return a list beside what was done, place by place."""
    verdicts = [
        Verdict(grade="right" if i < len(engine) and move == engine[i].move else "differs")
        for i, move in enumerate(given)
    ]
    return Graded(verdicts=verdicts, missing=max(0, len(engine) - len(given)))


def grade(exercise: Exercise, state: State, given: list[BlockMove]) -> Graded:
    """Grade a list of operations on `state`.

    What the engine does next is right. Where the list has gone another way, the engine's policy is: the head of the
    queue as the list has left it, the last block of a table as it is now.
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
    """Return how a possible operation differs from what the engine would do; what it stands for is no longer to
    come.
    """
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
    """Return whether it is the engine's operation, or what the engine's rule makes of the learner's own queue and
    table.
    """
    match move.kind:
        case "allocate" | "evict":
            return move.block == manager.queue[0]
        case "copy":
            return move.block == manager.queue[0] and move.source == engines.source
        case "share":
            return move.block == engines.block
        case "free":
            return move.seq is not None and move.block == manager.tables[move.seq][-1]
