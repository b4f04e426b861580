"""Moves of the parts of a session's prompts."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lessons.lesson import LessonError
from app.lessons.parse import parse_lesson
from app.lessons.prompt_order import Move, TurnRun, apply_moves, moves_error, predict_right, solve

NAMES = ["rule", "time", "read", "write", "ask", "told"]
MOVE = st.builds(lambda a, b: Move(part=a, before=b), st.sampled_from(NAMES), st.sampled_from([*NAMES, None, "none"]))
MOVES = st.lists(MOVE, max_size=6)


@given(prompts=st.lists(st.lists(st.sampled_from(NAMES), unique=True), max_size=4), moves=MOVES)
def test_a_move_keeps_the_other_parts_in_order(prompts: list[list[str]], moves: list[Move]) -> None:
    lines = [[f"{name}: {i}" for name in prompt] for i, prompt in enumerate(prompts)]
    found = apply_moves(lines, moves)
    parts = {move.part for move in moves}
    for before, after in zip(lines, found, strict=True):
        assert sorted(after) == sorted(before)
        rest = [[line for line in one if line.split(":")[0] not in parts] for one in (before, after)]
        assert rest[0] == rest[1]
    for at, lines_after in enumerate(found):
        names = [line.split(":")[0] for line in lines_after]
        if moves and moves[-1].part in names and moves[-1].before is None:
            assert names[-1] == moves[-1].part, at


@given(prompts=st.lists(st.lists(st.sampled_from(NAMES), unique=True), max_size=4), move=MOVE)
def test_a_part_is_moved_in_every_turn_that_has_it(prompts: list[list[str]], move: Move) -> None:
    both = [prompt for prompt in prompts if {move.part, move.before} <= {*prompt, None}]
    found = apply_moves(prompts, [move])
    if move.before == move.part or not both:
        assert found == prompts
        return
    after = [name for name in both[0][both[0].index(move.before) :] if name != move.part] if move.before else []
    for lines in found:
        if move.part in lines:
            behind = lines[lines.index(move.part) + 1 :]
            assert behind[:1] == [name for name in after if name in lines][:1]


def test_the_best_order_puts_changing_parts_last() -> None:
    prompts = [
        ["time: 1", "read: r", "write: w", "ask: a"],
        ["time: 2", "write: w", "read: r", "note: n", "ask: a", "told: b"],
    ]
    moves = solve([turn(lines) for lines in prompts], ["time", "read", "write", "note"])
    assert apply_moves(prompts, moves) == [
        ["read: r", "write: w", "ask: a", "time: 1"],
        ["read: r", "write: w", "ask: a", "told: b", "note: n", "time: 2"],
    ]


WORDS = st.text("ab", min_size=1, max_size=4)


@given(
    prompts=st.lists(st.lists(WORDS, min_size=1, max_size=5, unique=True), min_size=1, max_size=4),
    block_size=st.sampled_from([1, 2, 4]),
)
def test_a_session_is_right_if_no_full_block_is_recomputed(prompts: list[list[str]], block_size: int) -> None:
    """The check is independent: tokens are letters, and computed ones are those of known lines or a common prefix."""
    right, texts, seen = True, list[str](), set[str]()
    for lines in prompts:
        text = "\n".join(lines)
        common = max((common_length(text, other) for other in texts), default=0)
        hit = min(common, len(text) - 1) // block_size * block_size
        computed = set(range(common))
        for at, line in enumerate(lines):
            start = len("\n".join(lines[:at])) + (at > 0)
            if line in seen and not text.startswith("\n".join(lines[: at + 1]), 0, common):
                computed |= set(range(start, min(start + len(line) + 1, len(text))))
        right &= len(computed) - hit - (len(computed) == len(text)) < block_size
        texts.append(text)
        seen |= set(lines)
    ids = {line: [ord(letter) for letter in line] for lines in prompts for line in lines}
    assert predict_right(prompts, ids, block_size) == right


def common_length(one: str, other: str) -> int:
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def turn(lines: list[str]) -> TurnRun:
    return TurnRun(lines=lines, num_tokens=1, num_hit=0, diverges_at=0, again=[], num_again=0, record=0)


@pytest.mark.parametrize(
    ("moves", "why"),
    [
        ([], "there is no move"),
        ([Move(part="rule")], "'rule' cannot be moved; movable parts are time, note"),
        ([Move(part="nothing")], "'nothing' cannot be moved"),
        ([Move(part="time", before="nothing")], "'time' cannot go before 'nothing'"),
        ([Move(part="time", before="time")], "'time' cannot go before 'time'"),
        ([Move(part="time"), Move(part="time")], "'time' is moved to the same place twice in a row"),
    ],
)
def test_invalid_moves_are_refused(moves: list[Move], why: str) -> None:
    turns = [turn(["rule: r", "time: 1"]), turn(["rule: r", "time: 2", "note: n"])]
    assert (moves_error(turns, ["time", "note"], moves) or "").startswith(why)
    assert moves_error(turns, ["time", "note"], [Move(part="note", before="time"), Move(part="time")]) is None


def test_movable_parts_must_be_in_the_prompt() -> None:
    text = """+++
id = "bad"
minutes = 1
title = { en = "Bad" }
prompts = { en = ["a: 1\\nb: 2"] }
movable = { en = ["a", "c"] }
+++
## start
work: mend
"""
    with pytest.raises(LessonError, match="no line of a prompt begins with 'c'"):
        parse_lesson(text, Path("bad.md"))
