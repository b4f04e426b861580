"""Learner's progress through a recorded lesson, and the data that the page may get at that point.

A server with the transcript sends no record before the preceding questions are answered. In a page that has the
complete transcript, `static/js/core/lesson_replay.js` does the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, structs

from app.lessons.allocator.block_manager import BlockMove
from app.lessons.allocator.grading import compare
from app.lessons.answers import (
    AskItem,
    DoItem,
    MendItem,
    Moment,
    PageItem,
    Progress,
    SandboxItem,
    WorkItem,
    graded_list,
)
from app.lessons.course import LearnerAnswer
from app.lessons.prompt_order import Mended, Mending, apply_moves, moves_error, predict_right
from app.lessons.transcript import MendKey, Transcript

Answers = Mapping[str, list[LearnerAnswer]]  # by item, in order; None: not sure


class ReplayState(Struct, frozen=True, kw_only=True):
    """Progress of a learner: at the item `at`, with the run shown up to `moment`."""

    at: int
    items: list[PageItem]
    progress: Progress
    moment: Moment


def replay_state(transcript: Transcript, at: int, answers: Answers) -> ReplayState:
    """Return the state at item `at`, or at the first question before it that is not closed."""
    items = transcript.items
    checkpoints = _checkpoints(items)
    checkpoint = next(checkpoints)
    while checkpoint < len(items) and checkpoint < at and _is_over(transcript, checkpoint, answers):
        checkpoint = next(checkpoints)
    is_open = checkpoint < len(items) and not _is_over(transcript, checkpoint, answers)
    first = checkpoint if is_open else checkpoint + 1  # first item whose question may be open
    shown = [_item_at(transcript, item, checkpoint, answers) for item in items[: checkpoint + 1]]
    done = [item.moment for item in shown if isinstance(item, DoItem | MendItem) and item.moment]
    return ReplayState(
        at=checkpoint,
        items=shown,
        progress=Progress(
            at=checkpoint,
            num_items=len(items),
            num_sections=transcript.num_sections,
            over=checkpoint >= len(items),
            num_optional=transcript.num_optional,
            asks=sorted({one.rule for one in items[first:] if isinstance(one, AskItem)}),
        ),
        moment=done[-1] if done else Moment(run=0, records=0),
    )


def _checkpoints(items: list[PageItem]) -> Iterator[int]:
    """Yield the indices of checkpoints, and the number of items."""
    yield from (item.index for item in items if isinstance(item, AskItem | WorkItem | MendItem | DoItem | SandboxItem))
    yield len(items)


def _given(transcript: Transcript, index: int, answers: Answers) -> tuple[list[int | None], bool]:
    """Return the valid answers of those given, and whether the question is closed."""
    key = transcript.keys[str(index)]
    valid: list[int | None] = []
    for given in answers.get(str(index), []):
        if isinstance(given, list | Mending) or (given is not None and not 0 <= given < len(key.whys)):
            continue  # answer to an earlier version of the lesson
        valid.append(given)
        if given is None or given == key.right or len(valid) >= transcript.tries:
            return valid, True
    return valid, False


def _lists(index: int, answers: Answers) -> list[list[BlockMove] | None]:
    """Return the learner's first list (None: the solution was requested). One try suffices, since it is not graded."""
    return [given for given in answers.get(str(index), []) if not isinstance(given, int | Mending)][:1]


def _mendings(transcript: Transcript, index: int, answers: Answers) -> tuple[list[Mended | None], bool]:
    """Return the valid mendings of those given, graded, and whether the exercise is closed."""
    item, key = transcript.items[index], transcript.mended[str(index)]
    assert isinstance(item, MendItem)
    valid: list[Mended | None] = []
    for given in answers.get(str(index), []):
        if isinstance(given, int | list) or (given and moves_error(item.before, item.movable, given.moves)):
            continue  # answer to an earlier version of the lesson
        valid.append(None if given is None else _graded(item, key, given))
        if (last := valid[-1]) is None or last.right or len(valid) >= transcript.tries:
            return valid, True
    return valid, False


def _is_over(transcript: Transcript, index: int, answers: Answers) -> bool:
    if str(index) in transcript.mended:
        return _mendings(transcript, index, answers)[1]
    if str(index) in transcript.works:
        return bool(_lists(index, answers))
    return str(index) not in transcript.keys or _given(transcript, index, answers)[1]


def _graded(item: MendItem, key: MendKey, given: Mending) -> Mended:
    """Grade a mending. Its turns are those of the recorded run if the session is the same; others cannot be run."""
    prompts = apply_moves([turn.lines for turn in item.before], given.moves)
    is_recorded = prompts == [turn.lines for turn in key.run.turns]
    right = is_recorded or predict_right(prompts, key.tokens, item.block_size)
    return Mended(moves=given.moves, turns=key.run.turns if is_recorded else [], right=right)


def _item_at(transcript: Transcript, item: PageItem, checkpoint: int, answers: Answers) -> PageItem:
    if isinstance(item, DoItem):
        return item if item.index < checkpoint else structs.replace(item, moment=None)
    if isinstance(item, WorkItem):
        engine, lists = transcript.works[str(item.index)], _lists(item.index, answers)
        given = [None if moves is None else graded_list(moves, compare(engine, moves)) for moves in lists]
        return structs.replace(item, given=given, over=bool(lists), engine=engine if lists else None)
    if isinstance(item, MendItem):
        mendings, is_over = _mendings(transcript, item.index, answers)
        return structs.replace(
            item,
            given=mendings,
            over=is_over,
            right=transcript.mended[str(item.index)].run if is_over else None,
            moment=item.moment if is_over else None,
        )
    if not isinstance(item, AskItem):
        return item
    key = transcript.keys[str(item.index)]
    valid, is_over = _given(transcript, item.index, answers)
    return structs.replace(
        item,
        given=valid,
        whys=[None if one is None else key.whys[one] for one in valid],
        over=is_over,
        right=key.right if is_over else None,
        evidence=key.evidence if is_over else None,
    )
