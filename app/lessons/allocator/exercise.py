"""Creation of an exercise from a log: the tasks of the block manager in the next records, and its operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, field

from app.lessons.allocator.block_manager import BlockMove
from app.lessons.scene import Scene, Undecided
from engine.trace.operations import (
    Admit,
    Allocate,
    Cache,
    Copy,
    Evict,
    Finish,
    Fork,
    Free,
    Load,
    Preempt,
    Release,
    Reserve,
    Share,
    Submit,
    SwapIn,
    SwapOut,
)
from engine.trace.records import StepRecord

MAX_MOVES = 24  # operations in an exercise


class Task(Struct, frozen=True, kw_only=True):
    """Request of the scheduler to the block manager in a step.

    `admit`    sequence `seq` is admitted and needs blocks for its first `end` tokens
    `write`    positions [`start`, `end`) of the sequence will be written
    `leave`    the sequence ends or is preempted after the step, and its blocks are freed
    """

    kind: Literal["admit", "write", "leave"]
    step: int
    seq: int
    start: int = 0
    end: int = 0


class Done(Struct, frozen=True, kw_only=True):
    """Operation of the engine, and its position in the log."""

    move: BlockMove = field(name="deed")  # its key in recorded lessons
    record: int
    op: int


class Hashed(Struct, frozen=True, kw_only=True):
    """Full block whose hash the engine sets between two operations."""

    block: int
    tokens: list[int]


class Exercise(Struct, frozen=True, kw_only=True):
    """Tasks and solution of an exercise."""

    tasks: list[Task]
    done: list[Done | Hashed]  # in log order

    @property
    def moves(self) -> list[Done]:
        return [one for one in self.done if isinstance(one, Done)]

    @property
    def leaving(self) -> set[int]:
        return {task.seq for task in self.tasks if task.kind == "leave"}


def exercise(scene: Scene) -> Exercise:
    """Return the exercise of the records that the learner has not seen.

    Raises:
        Undecided: there are no operations, too many, or unsupported ones.
    """
    if len(scene.state.block_groups) > 1 or scene.header.engine.get("strategy") not in (None, "paged"):
        raise Undecided("an exercise needs the paged strategy and one group of layers")
    tasks: list[Task] = []
    done: list[Done | Hashed] = []
    for record in scene.unseen_records():
        tasks += _tasks(record)
        done += list(_done(record))
    found = Exercise(tasks=tasks, done=done)
    if not found.moves:
        raise Undecided("no block is allocated, shared, copied or freed within the lesson")
    if len(found.moves) > MAX_MOVES:
        raise Undecided(f"there are {len(found.moves)} operations; an exercise has at most {MAX_MOVES}")
    return found


def _tasks(record: StepRecord) -> Iterator[Task]:
    admitted = {op.seq_id for op in record.ops if isinstance(op, Admit)}
    for entry in record.batch:
        end = entry.start + len(entry.token_ids)
        if entry.seq_id in admitted:  # without `start`, since the learner has to find the number of cached tokens
            yield Task(kind="admit", step=record.step, seq=entry.seq_id, end=end)
        else:
            yield Task(kind="write", step=record.step, seq=entry.seq_id, start=entry.start, end=end)
    for op in record.ops:
        if isinstance(op, Finish | Preempt):
            yield Task(kind="leave", step=record.step, seq=op.seq_id)


def _done(record: StepRecord) -> Iterator[Done | Hashed]:
    copied = False
    for place, op in enumerate(record.ops):
        move = None
        match op:
            case Submit() | Fork():
                raise Undecided("sequences must be submitted and forked by an earlier do: submit or do: prefill")
            case Reserve() | Release() | SwapIn() | SwapOut() | Load():
                raise Undecided("an exercise does not support reserve, release, swap and load operations")
            case Allocate(reason="copy"):
                copied = True
            case Copy():
                assert copied, "a copy follows the allocation of its block"
                move = BlockMove(kind="copy", block=op.dst, seq=op.seq_id, source=op.src)
            case Allocate():
                move = BlockMove(kind="allocate", block=op.block_id, seq=op.seq_id)
            case Share():
                move = BlockMove(kind="share", block=op.block_id, seq=op.seq_id)
            case Free():
                move = BlockMove(kind="free", block=op.block_id, seq=op.seq_id)
            case Evict():
                move = BlockMove(kind="evict", block=op.block_id)
            case Cache():
                yield Hashed(block=op.block_id, tokens=op.token_ids)
        if move is not None:
            yield Done(move=move, record=record.index, op=place)
