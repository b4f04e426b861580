"""Exercise on prompt order: the learner moves parts of the prompts of a session so that prefixes are cached.

The session consists of the lesson's prompts, one per turn. A part is a line of a prompt; the text before the colon is
its name. A part is moved in every turn that has it. The changed session is run, and is right if no full block is
recomputed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from app.lessons.scene import Scene, Undecided
from engine.cache.prefix_memory import common_prefix
from engine.trace.log import TraceReader
from engine.trace.operations import Lookup

Name = Annotated[str, Meta(max_length=100)]
LineTokens = Mapping[str, Sequence[int]]  # token ids of a line, without its end
MAX_MOVES = 64
_NAME = re.compile("[^:：]*")
_LINE_END = -1  # represents the token between two lines


class Move(Struct, frozen=True, kw_only=True):
    """Move of the part `part` before the part `before` (None: to the end), in every turn that has it.

    In a turn without `before`, it is moved before a part that follows `before` in the first turn that has both, or to
    the end.
    """

    part: Name
    before: Name | None = None


class Mending(Struct, frozen=True, kw_only=True):
    """A learner's moves, in order."""

    moves: Annotated[list[Move], Meta(max_length=MAX_MOVES)]


class TurnRun(Struct, frozen=True, kw_only=True):
    """Prompt of a turn, from the log of a run.

    Attributes:
        diverges_at: line of the first token that differs from the earlier prompt with the longest shared prefix; None
            for the first prompt.
        again: lines from `diverges_at` on that an earlier turn has, too.
        num_again: number of recomputed tokens of earlier turns, including those of `again`. The last token of a prompt
            is always computed and not counted.
    """

    lines: list[str]
    num_tokens: int
    num_hit: int
    diverges_at: int | None
    again: list[int]
    num_again: int
    record: int


class Mended(Struct, frozen=True, kw_only=True):
    """List of moves, and the run of the resulting session."""

    moves: list[Move]
    turns: list[TurnRun]  # empty: not run
    right: bool  # whether no full block is recomputed


class Prompt(NamedTuple):
    """Prompt of a lookup. `starts`: number of tokens before each line."""

    lines: list[str]
    starts: list[int]
    token_ids: list[int]
    diverges_at: int  # line of the first token that differs from the closest earlier prompt

    @property
    def ends(self) -> list[int]:
        return [*self.starts[1:], len(self.token_ids)]


def name_of(line: str) -> str:
    """Return the name of a part."""
    found = _NAME.match(line)
    return found[0] if found else ""


def moves_error(turns: Sequence[TurnRun], movable: Sequence[str], moves: Sequence[Move]) -> str | None:
    """Return one sentence that says why the moves are invalid; None if they are valid."""
    if not moves:
        return "there is no move"
    names = {name_of(line) for turn in turns for line in turn.lines}
    for earlier, move in zip([None, *moves], moves, strict=False):
        if move.part not in movable:
            return f"{move.part!r} cannot be moved; movable parts are {', '.join(movable)}"
        if move.before is not None and (move.before not in names or move.before == move.part):
            return f"{move.part!r} cannot go before {move.before!r}: no other part has this name"
        if move == earlier:
            return f"{move.part!r} is moved to the same place twice in a row"
    return None


def apply_moves(prompts: Sequence[Sequence[str]], moves: Sequence[Move]) -> list[list[str]]:
    """Apply moves to prompts, each a list of lines."""
    found = [list(lines) for lines in prompts]
    for move in moves:
        after = _following(found, move)
        for lines in found:
            names = [name_of(line) for line in lines]
            if move.part not in names or after is None:
                continue
            line = lines.pop(names.index(move.part))
            names.remove(move.part)
            lines.insert(next((names.index(name) for name in after if name in names), len(lines)), line)
    return found


def _following(prompts: Sequence[Sequence[str]], move: Move) -> list[str] | None:
    """Return the names from `before` on in the first prompt that has both parts, or None if there is no such prompt."""
    if move.before is None:
        return []
    for lines in prompts:
        names = [name_of(line) for line in lines]
        if {move.part, move.before} <= set(names) and move.part != move.before:
            return [name for name in names[names.index(move.before) :] if name != move.part]
    return None


def turns_of(log: TraceReader, end: int) -> list[TurnRun]:
    """Return the turns in a run's first `end` records, in the order of their lookups."""
    found: list[TurnRun] = []
    for index, op in _lookups(log, end):
        prompt = prompt_of(log, index, op)
        again = _again(prompt.lines, prompt.diverges_at, {line for turn in found for line in turn.lines})
        turn = TurnRun(
            lines=prompt.lines,
            num_tokens=op.num_tokens,
            num_hit=op.num_hit_tokens,
            diverges_at=prompt.diverges_at if found else None,
            again=again,
            num_again=_num_again(_num_shared(op), op.num_hit_tokens, prompt.starts, prompt.ends, again),
            record=index,
        )
        found.append(turn)
    return found


def line_tokens(log: TraceReader, end: int) -> dict[str, list[int]]:
    """Return the token ids of each line of the prompts of a run's first `end` records."""
    found: dict[str, list[int]] = {}
    for index, op in _lookups(log, end):
        prompt = prompt_of(log, index, op)
        for line, start, stop in zip(prompt.lines, prompt.starts, prompt.ends, strict=True):
            is_last = stop == len(prompt.token_ids)
            found.setdefault(line, prompt.token_ids[start : stop if is_last else stop - 1])
    return found


def prompt_of(log: TraceReader, index: int, op: Lookup) -> Prompt:
    """Return the prompt that record `index` looks up."""
    sequence = log.state_at(index).sequences[op.seq_id]
    tokens = sequence.token_bytes[: sequence.num_prompt_tokens]
    lines = b"".join(tokens).decode().split("\n")
    shared, rest = b"".join(tokens[: _num_shared(op)]), b"".join(tokens[_num_shared(op) :])
    diverges_at = shared.count(b"\n") + rest.startswith(b"\n")  # a completed line is shared
    starts = [0, *(at + 1 for at, token in enumerate(tokens) for _ in range(token.count(b"\n")))]
    return Prompt(lines, starts, sequence.token_ids[: len(tokens)], diverges_at)


def session_to_mend(scene: Scene) -> list[TurnRun]:
    """Return the turns of the session to mend, which are those in the visible part of the run.

    Raises:
        Undecided: no full block is recomputed.
    """
    found = turns_of(scene.log, scene.now)
    if is_right(found, scene.block_size):
        raise Undecided("no full block is recomputed in this run, so there is nothing to mend")
    return found


def is_right(turns: Sequence[TurnRun], block_size: int) -> bool:
    """Return whether no turn recomputes a full block."""
    return all(turn.num_again < block_size for turn in turns)


def predict_right(prompts: Sequence[Sequence[str]], tokens: LineTokens, block_size: int) -> bool:
    """Predict `is_right` for prompts (lists of lines) without running them.

    It is assumed that every full block of a prefix shared with an earlier prompt hits, except for the last token.
    """
    earlier: list[list[int]] = []
    seen: set[str] = set()
    for lines in prompts:
        ids: list[int] = []
        starts: list[int] = []
        for line in lines:
            starts.append(len(ids))
            ids += [*tokens[line], _LINE_END]
        del ids[-1:]
        shared = max((common_prefix(ids, other) for other in earlier), default=0)
        hit = min(shared, len(ids) - 1) // block_size * block_size
        diverges_at = sum(start + len(tokens[line]) <= shared for start, line in zip(starts, lines, strict=True))
        again = _again(lines, diverges_at, seen)
        if _num_again(shared, hit, starts, [*starts[1:], len(ids)], again) >= block_size:
            return False
        earlier.append(ids)
        seen |= set(lines)
    return True


def solve(turns: Sequence[TurnRun], movable: Sequence[str]) -> list[Move]:
    """Return moves that mend a session.

    Constant parts come first, in the order of the first turn, then parts that only some turns have, and finally parts
    that vary between turns.
    """
    texts = {name: [line for turn in turns for line in turn.lines if name_of(line) == name] for name in movable}
    changing = [name for name, lines in texts.items() if len(set(lines)) > 1]
    added = [name for name, lines in texts.items() if len(lines) < len(turns) and name not in changing]
    last = [*added, *changing]
    order = [name_of(line) for line in turns[0].lines if name_of(line) in movable and name_of(line) not in last]
    moves = [Move(part=name) for name in last]
    for name, after in zip(order[-2::-1], order[::-1], strict=False):
        places = [[name_of(line) for line in turn.lines] for turn in turns]
        if any(names.index(name) > names.index(after) for names in places):
            moves.append(Move(part=name, before=after))
    return moves


def _lookups(log: TraceReader, end: int) -> list[tuple[int, Lookup]]:
    return [(index, op) for index in range(end) for op in log.record(index).ops if isinstance(op, Lookup)]


def _num_shared(op: Lookup) -> int:
    return max(op.num_shared_tokens, op.num_hit_tokens)


def _again(lines: Sequence[str], diverges_at: int, seen: set[str]) -> list[int]:
    return [at for at in range(diverges_at, len(lines)) if lines[at] in seen]


def _num_again(num_shared: int, num_hit: int, starts: Sequence[int], ends: Sequence[int], again: Sequence[int]) -> int:
    """Return the number of recomputed tokens (`TurnRun.num_again`)."""
    after_prefix = sum(ends[at] - max(starts[at], num_shared) for at in again)
    return max(0, min(num_shared + after_prefix, ends[-1] - 1) - num_hit)
