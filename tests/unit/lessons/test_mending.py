"""Moves of the parts of a session."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lessons.lesson import LessonError
from app.lessons.mending import Move, TurnRun, mending_of, moved
from app.lessons.parse import parse_lesson

NAMES = ["rule", "time", "read", "write", "ask", "told"]
MOVES = st.lists(
    st.builds(lambda a, b: Move(part=a, before=b), st.sampled_from(NAMES), st.sampled_from([*NAMES, None, "none"])),
    max_size=6,
)


@given(prompts=st.lists(st.lists(st.sampled_from(NAMES), unique=True), max_size=4), moves=MOVES)
def test_a_move_leaves_nothing_out_and_the_rest_in_its_order(prompts: list[list[str]], moves: list[Move]) -> None:
    lines = [[f"{name}: {i}" for name in prompt] for i, prompt in enumerate(prompts)]
    found = moved(lines, moves)
    parts = {move.part for move in moves}
    for before, after in zip(lines, found, strict=True):
        assert sorted(after) == sorted(before)
        rest = [[line for line in one if line.split(":")[0] not in parts] for one in (before, after)]
        assert rest[0] == rest[1]
    for at, lines_after in enumerate(found):
        names = [line.split(":")[0] for line in lines_after]
        if moves and moves[-1].part in names and moves[-1].before is None:
            assert names[-1] == moves[-1].part, at


def test_what_changes_goes_last_and_what_stays_keeps_the_first_order() -> None:
    prompts = [["time: 1", "read: r", "write: w", "ask: a"], ["time: 2", "write: w", "read: r", "ask: a", "told: b"]]
    turns = [TurnRun(lines=lines, num_tokens=1, num_hit=0, parts=0, again=[], record=0) for lines in prompts]
    moves = mending_of(turns, ["time", "read", "write"])
    assert moved(prompts, moves) == [
        ["read: r", "write: w", "ask: a", "time: 1"],
        ["read: r", "write: w", "ask: a", "told: b", "time: 2"],
    ]


def test_what_may_be_moved_is_a_part_of_a_prompt() -> None:
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
