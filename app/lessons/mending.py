"""Mending of a session: the learner moves parts of its prompts, and the mended session is run and graded from its log.

The session is the lesson's prompts, each the prompt of a turn. A part is a line of a prompt; its name stands before the
colon. A part is moved in every turn that has it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from app.lessons.scene import Scene, Undecided
from engine.trace.events import Lookup
from engine.trace.log import TraceReader

Name = Annotated[str, Meta(max_length=100)]
_NAME = re.compile("[^:：]*")


class Move(Struct, frozen=True, kw_only=True):
    """The part `part` goes before another, in every turn that has both; to the end of each that has it without
    `before`.
    """

    part: Name
    before: Name | None = None


class Mending(Struct, frozen=True, kw_only=True):
    """A learner's moves, in order."""

    moves: Annotated[list[Move], Meta(max_length=64)]


class TurnRun(Struct, frozen=True, kw_only=True):
    """Prompt of a turn, as the log of a run has it.

    `parts`: the line in which it parts from the earlier prompt that shares most with it; None: it is the first.
    `again`: lines from there on that an earlier turn had too, whose tokens are computed again.
    """

    lines: list[str]
    num_tokens: int
    num_hit: int
    parts: int | None
    again: list[int]
    record: int


class Mended(Struct, frozen=True, kw_only=True):
    """A list of moves, and what the run of the session that it makes came to; no turns: it was not run."""

    moves: list[Move]
    turns: list[TurnRun]
    right: bool  # nothing is computed again


def name_of(line: str) -> str:
    """Return the name of a part."""
    found = _NAME.match(line)
    return found[0] if found else ""


def moved(prompts: Sequence[Sequence[str]], moves: Sequence[Move]) -> list[list[str]]:
    """Return prompts, each as its lines, after moves."""
    found = [list(lines) for lines in prompts]
    for move in moves:
        for lines in found:
            names = [name_of(line) for line in lines]
            if move.part not in names or move.before == move.part or move.before not in (None, *names):
                continue
            line = lines.pop(names.index(move.part))
            at = len(lines) if move.before is None else [name_of(one) for one in lines].index(move.before)
            lines.insert(at, line)
    return found


def turns_of(log: TraceReader, end: int) -> list[TurnRun]:
    """Return the prompts of a run's first `end` records, in the order in which they were looked up."""
    found: list[TurnRun] = []
    for index in range(end):
        for op in log.record(index).ops:
            if not isinstance(op, Lookup):
                continue
            lines, parts, _ = parting(log, index, op)
            seen = {line for turn in found for line in turn.lines}
            turn = TurnRun(
                lines=lines,
                num_tokens=op.num_tokens,
                num_hit=op.num_hit_tokens,
                parts=parts if found else None,
                again=[i for i in range(parts, len(lines)) if lines[i] in seen],
                record=index,
            )
            found.append(turn)
    return found


def parting(log: TraceReader, index: int, op: Lookup) -> tuple[list[str], int, list[int]]:
    """Return the lines of a prompt that record `index` looks up, the one in which it parts from the closest earlier
    one, and for each how many tokens come before it.
    """
    sequence = log.state_at(index).sequences[op.seq_id]
    tokens = sequence.token_bytes[: sequence.num_prompt_tokens]
    lines = b"".join(tokens).decode().split("\n")
    num_shared = max(op.num_shared_tokens, op.num_hit_tokens)
    shared, rest = b"".join(tokens[:num_shared]), b"".join(tokens[num_shared:])
    parts = shared.count(b"\n") + rest.startswith(b"\n")  # a line that the other one ended with is shared
    starts = [0, *(at + 1 for at, token in enumerate(tokens) if b"\n" in token)]
    return lines, parts, starts


def session_of(scene: Scene) -> list[TurnRun]:
    """Return the turns of the session that a learner is to mend: those of the run as it is shown.

    Raises:
        Undecided: nothing in it is computed again.
    """
    found = turns_of(scene.log, scene.now)
    if not any(turn.again for turn in found):
        raise Undecided("no part of a prompt is computed again in this run: there is nothing to mend")
    return found


def mending_of(turns: Sequence[TurnRun], movable: Sequence[str]) -> list[Move]:
    """Return the moves that mend a session: what is not the same in all turns goes to the end, and what is comes in
    the order of the first turn.
    """
    texts = {name: [[line for line in turn.lines if name_of(line) == name] for turn in turns] for name in movable}
    volatile = [name for name, lines in texts.items() if any(one != lines[0] for one in lines)]
    order = [name_of(line) for line in turns[0].lines if name_of(line) in movable and name_of(line) not in volatile]
    moves = [Move(part=name) for name in volatile]
    for name, after in zip(order[-2::-1], order[::-1], strict=False):
        places = [[name_of(line) for line in turn.lines] for turn in turns]
        if any(names.index(name) > names.index(after) for names in places):
            moves.append(Move(part=name, before=after))
    return moves
