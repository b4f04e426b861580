"""Learner's progress through a recorded lesson, and the data that may be sent at that point.

`static/js/core/lesson_replay.js` does the same in a page that has the complete transcript. A server with the transcript
sends no record before the preceding questions are answered.
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
from app.lessons.course import Given
from app.lessons.prompt_order import Mended, Mending, moved, refusal, would_be_right
from app.lessons.transcript import MendKey, Transcript

Answers = Mapping[str, list[Given]]  # by item, in order; None: not sure


class Way(Struct, frozen=True, kw_only=True):
    """Progress of a learner: at the item `at`, with the run shown up to `moment`."""

    at: int
    items: list[PageItem]
    progress: Progress
    moment: Moment


def way(transcript: Transcript, at: int, answers: Answers) -> Way:
    """Go to item `at`, or to the first question before it that is not closed."""
    items = transcript.items
    barriers = _barriers(items)
    here = next(barriers)
    while here < len(items) and here < at and _is_over(transcript, here, answers):
        here = next(barriers)
    first = here if here < len(items) and not _is_over(transcript, here, answers) else here + 1  # not answered yet
    shown = [_item_at(transcript, item, here, answers) for item in items[: here + 1]]
    done = [item.moment for item in shown if isinstance(item, DoItem | MendItem) and item.moment]
    return Way(
        at=here,
        items=shown,
        progress=Progress(
            at=here,
            num_items=len(items),
            num_sections=transcript.num_sections,
            over=here >= len(items),
            num_optional=transcript.num_optional,
            asks=sorted({one.rule for one in items[first:] if isinstance(one, AskItem)}),
        ),
        moment=done[-1] if done else Moment(run=0, records=0),
    )


def _barriers(items: list[PageItem]) -> Iterator[int]:
    """Yield the checkpoints, and the end."""
    yield from (item.index for item in items if isinstance(item, AskItem | WorkItem | MendItem | DoItem | SandboxItem))
    yield len(items)


def _given(transcript: Transcript, index: int, answers: Answers) -> tuple[list[int | None], bool]:
    """Return the valid answers of those given, and whether the question is closed."""
    key = transcript.keys[str(index)]
    taken: list[int | None] = []
    for given in answers.get(str(index), []):
        if isinstance(given, list | Mending) or (given is not None and not 0 <= given < len(key.whys)):
            continue  # to an earlier text of the lesson
        taken.append(given)
        if given is None or given == key.right or len(taken) >= transcript.tries:
            return taken, True
    return taken, False


def _lists(index: int, answers: Answers) -> list[list[BlockMove] | None]:
    """Return the learner's list, or None for a requested solution: one suffices, since it is not graded here."""
    return [given for given in answers.get(str(index), []) if not isinstance(given, int | Mending)][:1]


def _mendings(transcript: Transcript, index: int, answers: Answers) -> tuple[list[Mended | None], bool]:
    """Return the valid mendings of those given, graded, and whether the exercise is closed."""
    item, key = transcript.items[index], transcript.mended[str(index)]
    assert isinstance(item, MendItem)
    taken: list[Mended | None] = []
    for given in answers.get(str(index), []):
        if isinstance(given, int | list) or (given and refusal(item.before, item.movable, given.moves)):
            continue  # to an earlier text of the lesson
        taken.append(None if given is None else _graded(item, key, given))
        if (last := taken[-1]) is None or last.right or len(taken) >= transcript.tries:
            return taken, True
    return taken, False


def _is_over(transcript: Transcript, index: int, answers: Answers) -> bool:
    if str(index) in transcript.mended:
        return _mendings(transcript, index, answers)[1]
    if str(index) in transcript.works:
        return bool(_lists(index, answers))
    return str(index) not in transcript.keys or _given(transcript, index, answers)[1]


def _graded(item: MendItem, key: MendKey, given: Mending) -> Mended:
    """Grade a mending, with the recorded run if it makes the same session: there is no engine to run another."""
    prompts = moved([turn.lines for turn in item.before], given.moves)
    is_recorded = prompts == [turn.lines for turn in key.run.turns]
    right = is_recorded or would_be_right(prompts, key.tokens, item.block_size)
    return Mended(moves=given.moves, turns=key.run.turns if is_recorded else [], right=right)


def _item_at(transcript: Transcript, item: PageItem, here: int, answers: Answers) -> PageItem:
    if isinstance(item, DoItem):
        return item if item.index < here else structs.replace(item, moment=None)
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
    taken, is_over = _given(transcript, item.index, answers)
    return structs.replace(
        item,
        given=taken,
        whys=[None if one is None else key.whys[one] for one in taken],
        over=is_over,
        right=key.right if is_over else None,
        evidence=key.evidence if is_over else None,
    )
