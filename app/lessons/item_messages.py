"""Messages of a course for the page: its items up to the checkpoint, without the answers to open questions."""

from __future__ import annotations

from msgspec import structs

from app.lessons.allocator.block_manager import BlockMove
from app.lessons.answers import (
    AskItem,
    AskOption,
    DoItem,
    GradedList,
    MendItem,
    PageItem,
    SandboxItem,
    ShowItem,
    TextItem,
    WorkItem,
    graded_list,
)
from app.lessons.course import AnswerRecord, Course
from app.lessons.figures import figure_of
from app.lessons.lesson import Ask, Do, Item, Sandbox, Show, Text, Work
from app.lessons.markup import OPEN, Node, text_of, tree
from app.lessons.numbers import agrees, in_digits, number_in, significant
from app.lessons.race import race_setup
from app.lessons.scene import Undecided
from app.lessons.words import unnamed


def page_items(course: Course, since: int = 0, language: str | None = None) -> list[PageItem]:
    """Return the items from `since` up to the checkpoint, for the page.

    `language`: language of the texts; None: the course's. Prompts and runs are always in the course's language.
    """
    text_language = language if language in course.lesson.languages else course.language
    return [_page_item(course, index, item, section, text_language) for index, item, section in course.items(since)]


def _page_item(course: Course, index: int, item: Item, section: int, language: str) -> PageItem:
    match item:
        case Text():
            blocks = _linked(course, tree(item.texts[language]), index)
            return TextItem(index=index, section=section, blocks=blocks)
        case Show():
            return ShowItem(index=index, section=section, part=item.part, view=item.view)
        case Do():
            race = race_setup(course.lesson, course.language, item.action) if item.action.verb == "race" else None
            moment = course.moment_after(index)
            keep = {code: at for code, at in item.action.keep.items() if code == course.language}
            action = structs.replace(item.action, keep=keep)
            return DoItem(index=index, section=section, action=action, moment=moment, race=race)
        case Ask():
            return _ask_item(course, index, section, item.again)
        case Work(mends=True):
            return _mend_item(course, index, section)
        case Work():
            return _work_item(course, index, section)
        case Sandbox():
            return SandboxItem(index=index, section=section)


def _ask_item(course: Course, index: int, section: int, again: str | None) -> AskItem:
    question, answered = course.questions[index], course.answers.get(index, AnswerRecord())
    given = [option for option in answered.given if option is None or isinstance(option, int)]
    return AskItem(
        index=index,
        section=section,
        rule=question.rule,
        values=question.values,
        options=[AskOption(text=o.text, values=o.values, number=o.number, place=o.place) for o in question.options],
        given=given,
        whys=[None if option is None else question.options[option].why for option in given],
        over=answered.over,
        right=question.right if answered.over else None,
        evidence=question.evidence if answered.over else None,
        of=unnamed(question),
        again=again or course.repeated_questions.get(index),
    )


def _work_item(course: Course, index: int, section: int) -> WorkItem:
    work, answered = course.works[index], course.answers.get(index, AnswerRecord())
    return WorkItem(
        index=index,
        section=section,
        tasks=work.tasks,
        records=course.moment_before(index).records,
        given=[_graded_list(course, index, moves) if isinstance(moves, list) else None for moves in answered.given],
        over=answered.over,
        engine=work.moves if answered.over else None,
    )


def _mend_item(course: Course, index: int, section: int) -> MendItem:
    answered, runs = course.answers.get(index, AnswerRecord()), course.mended(index)
    return MendItem(
        index=index,
        section=section,
        movable=course.lesson.movable[course.language],
        block_size=course.scene(course.moment_before(index)).block_size,
        before=course.sessions[index],
        given=[None if given is None else mended for given, mended in zip(answered.given, runs, strict=False)],
        over=answered.over,
        right=runs[-1] if answered.over else None,
        moment=course.moment_after(index) if runs else None,
    )


def _graded_list(course: Course, index: int, moves: list[BlockMove]) -> GradedList:
    return graded_list(moves, course.graded(index, moves))


def _linked(course: Course, nodes: list[Node], index: int) -> list[Node]:
    """Add the record of each figure to its link, and fill in the figures of the current run."""
    found: list[Node] = []
    for node in nodes:
        if isinstance(node, str):
            found.append(node)
            continue
        linked = {**node, "children": _linked(course, node["children"], index)}
        if "figure" in node:
            name, *arguments = node["figure"].split(":")
            try:
                figure = figure_of(course.scene(course.moment_before(index)), name, arguments)
                linked["record"] = figure.record
                linked["children"] = _figure_text(figure.value, linked["children"])
            except Undecided:  # the check of the lesson reports it; the page shows the text as it is
                linked["record"] = None
        found.append(linked)
    return found


def _figure_text(value: float, words: list[Node]) -> list[Node]:
    """Return the text of a figure, or the value of this run if the text is a placeholder or states another value."""
    text = text_of(words)
    if text == OPEN:
        return [significant(value, 3)]
    stated = number_in(text)
    return words if stated is not None and agrees(stated, value) else [in_digits(value, text)]
