"""Hints about wrong answers are true in the runs where they are given.

Each hint has a claim about a run (`CLAIMS`). Claims are checked on the runs of the shipped lessons, and at several
moments of short runs with every strategy, block size and window.
"""

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.lessons.catalogue import lesson_files, shipped_folder
from app.lessons.course import Course
from app.lessons.lesson import Ask
from app.lessons.lesson_engine import BareLessonEngine, LessonPrompt
from app.lessons.parse import read_lesson, settings_of
from app.lessons.questions import RULES, ask
from app.lessons.questions.rules import Option, Question
from app.lessons.scene import Scene, Undecided, visible_log
from app.lessons.words import question_texts
from engine.config import EngineConfig, SamplingParams
from engine.trace.operations import Finish, Forget, Lookup
from engine.trace.state import Sequence
from tests.unit.lessons.models import builder

# modules of rules whose hints contain no numbers of the run
MODULES = (
    "computing", "writing", "blocks", "scheduling", "sharing", "states", "instances", "drafting", "forgetting",
)  # fmt: skip
NO_HINT = {"stem", "right", "answer"}
TEXTS = question_texts("en")


class Case:
    """Wrong answer with the run in which it was given."""

    def __init__(self, scene: Scene, question: Question, option: Option, arguments: dict[str, str]) -> None:
        self.scene, self.question, self.arguments = scene, question, arguments
        self.place = question.options.index(option) - question.right  # negative if it is before the right answer
        self.n = float(option.number if option.number is not None else -1)
        right = question.options[question.right]
        self.right = right.number if right.number is not None else right.text.rpartition(".")[2]

    @property
    def few(self) -> bool:
        """Return whether the answer is smaller than the right one."""
        return isinstance(self.right, int | float) and self.n < self.right

    @property
    def many(self) -> bool:
        return isinstance(self.right, int | float) and self.n > self.right

    @property
    def seq(self) -> int:
        return int(self.arguments.get("seq", 0))

    @property
    def now(self) -> Sequence:
        return self.scene.sequence(self.seq)

    @property
    def end(self) -> Sequence:
        return self.scene.final_state.sequences[self.seq]

    @property
    def memory(self) -> Any:
        return self.scene.log.record(len(self.scene.log) - 1).memory

    @property
    def step_tokens(self) -> int:
        return len(self.scene.entry(self.scene.next_step(), self.seq).token_ids)

    @property
    def lookup(self) -> Lookup:
        ops = (op for record in self.scene.unseen_records() for op in record.ops)
        return next(op for op in ops if isinstance(op, Lookup) and op.seq_id == self.seq)

    @property
    def lookup_hits(self) -> int:
        ops = (op for record in self.scene.all_records() for op in record.ops)
        return sum(op.num_hit_tokens for op in ops if isinstance(op, Lookup) and op.seq_id == self.seq)

    def setting(self, name: str) -> int:
        """Return a setting of `forget_policy`."""
        return int(self.scene.header.engine[f"forget_{name}"])  # type: ignore[arg-type]

    @property
    def forgets_by_score(self) -> bool:
        return self.scene.header.engine["forget_policy"] != "window"

    @property
    def forgets_at(self) -> int:
        """Return the number of computed tokens at the sequence's next decision."""
        ops = (op for record in self.scene.unseen_records() for op in record.ops)
        return next(op.at for op in ops if isinstance(op, Forget) and op.seq_id == self.seq)

    @property
    def chooses(self) -> bool:
        return self.scene.samples_token(self.scene.next_step(), self.seq)


Claim = Callable[[Case], bool]


def always(_: Case) -> bool:
    """Claim of hints that hold in every run."""
    return True


def few(case: Case) -> bool:
    return case.few


def many(case: Case) -> bool:
    return case.many


def right_is(*answers: str) -> Claim:
    return lambda case: case.right in answers


def ends_short(case: Case) -> bool:
    """Return whether the last block of a finished sequence was partial."""
    size = case.scene.block_size
    log = case.scene.log
    ended = [(record.index, op) for record in case.scene.all_records() for op in record.ops if isinstance(op, Finish)]
    return any(log.state_at(index).sequences[op.seq_id].num_computed_tokens % size for index, op in ended)


CLAIMS: dict[str, dict[str, Claim]] = {
    "tokens_computed": {
        "all_again": lambda c: c.many and c.scene.has_cache and c.now.num_computed_tokens > 0,
        "prompt_again": lambda c: c.many and c.now.num_computed_tokens >= c.now.num_prompt_tokens,
        "prompt_alone": lambda c: c.few and c.right == len(c.now.token_ids) and not c.now.num_computed_tokens,
        "only_new": lambda c: c.few and not c.now.num_computed_tokens,
        "chosen_too": lambda c: c.n == c.step_tokens + 1 and c.chooses,
        "none": lambda c: c.few and c.now.num_computed_tokens < len(c.now.token_ids) > c.now.num_prompt_tokens,
        "none_yet": lambda c: c.few and c.now.num_computed_tokens < c.now.num_prompt_tokens,
        "one_by_one": lambda c: c.few and len(c.now.token_ids) == c.now.num_prompt_tokens,
        "whole": lambda c: c.many and not c.chooses,
        "found_before": lambda c: c.many and c.scene.entry(c.scene.next_step(), c.seq).start > 0,
    },
    "total_computed": {
        "as_cached": few,
        "not_found": lambda c: c.many and c.lookup_hits > 0,
        "as_text": lambda c: c.many and c.scene.has_cache,
        "text_once": lambda c: c.few and not c.scene.has_cache,
        "prompt_each_time": lambda c: c.few and not c.scene.has_cache,
        "prompt_once": lambda c: (
            c.scene.has_cache and c.n == c.end.num_prompt_tokens * (len(c.end.token_ids) - c.end.num_prompt_tokens)
        ),
        "square": many,
        "as_uncached": lambda c: c.many and c.scene.has_cache,
    },
    "times_computed": {
        "once": lambda c: c.few and not c.scene.has_cache,
        "each_step": lambda c: c.many and c.scene.has_cache,
        "each_token": lambda c: c.many and not c.scene.has_cache and c.n == len(c.end.token_ids),
        "one_less": lambda c: c.n == c.right - 1,  # type: ignore[operator]
        "never": few,
        "before_it": lambda c: c.many and int(c.arguments["position"]) >= c.end.num_prompt_tokens,
    },
    "keys_read": {
        "not_itself": lambda c: c.n == c.right - 1,  # type: ignore[operator]
        "one_ahead": lambda c: c.n == c.right + 1,  # type: ignore[operator]
        "only_prompt": lambda c: c.few and len(c.now.token_ids) > c.now.num_prompt_tokens == c.n,
        "newest": few,
    },
    "tokens_chosen": {
        "none": lambda c: c.right == 1 and c.chooses,
        "one": lambda c: c.right == 0 and len(c.now.token_ids) == c.now.num_prompt_tokens,
        "each": lambda c: c.n == c.step_tokens > 1 and c.right == 1,
        "chunk": lambda c: c.right == 0 and len(c.now.token_ids) == c.now.num_prompt_tokens,
    },
    "query_uses": {"each_later": many, "each_later_but_one": many, "never": few},
    "where_now": {"next": right_is("nowhere"), "last": right_is("nowhere")},
    "written_in": {
        "when_chosen": lambda c: c.few and int(c.arguments["position"]) >= c.end.num_prompt_tokens,
        "later": lambda c: c.n == c.right + 1,  # type: ignore[operator]
        "prefill": lambda c: c.few and int(c.arguments["position"]) >= c.end.num_prompt_tokens,
    },
    "slot": {
        "logical": lambda c: c.n == int(c.arguments["position"]),
        "next_slot": lambda c: c.n == c.right + 1,  # type: ignore[operator]
        "next_block": lambda c: c.n // c.scene.block_size == c.right // c.scene.block_size + 1,  # type: ignore[operator]
        "block_start": lambda c: c.few and c.n % c.scene.block_size == 0,
    },
    "hashed": {"yes": right_is("no"), "no": right_is("yes")},
    "cached_at_end": {"all": lambda c: c.n == c.right + 1, "none": few, "two_less": few},  # type: ignore[operator]
    "next_block": {
        "after_highest": always,
        "lowest_free": lambda c: c.n in c.scene.state.free_queues[0],
        "tail": lambda c: c.n == c.scene.state.free_queues[0][-1],
        "second": lambda c: c.n == c.scene.state.free_queues[0][1],
    },
    "needs_block": {
        "yes": lambda c: c.scene.entry(c.scene.next_step(), c.seq).start % c.scene.block_size != 0,
        "no": lambda c: c.scene.entry(c.scene.next_step(), c.seq).start % c.scene.block_size == 0,
    },
    "ref_count": {"one_each": few, "all": many, "all_and_cache": many, "tokens": always},
    "copied": {"none": right_is("tail"), "tail": right_is("none"), "full": always, "every": always},
    "bytes_after": {
        "only_tokens": lambda c: c.n == c.memory.bytes_used < c.memory.bytes_held,
        "block_more": many,
        "hidden_size": lambda c: c.many and c.scene.header.model.num_heads > c.scene.header.model.num_kv_heads,
        "only_keys": lambda c: 2 * c.n == c.right,
    },
    "released": {
        "newest": always,
        "first": lambda c: bool(c.scene.header.engine.get("attention_sinks")),
        "second": always,
    },
    "most_blocks": {
        "only_window": lambda c: c.few and c.scene.header.engine["attention_window"] is not None,
        "all_tokens": lambda c: c.many and c.scene.header.engine["attention_window"] is not None,
        "one_less": few,
        "one_more": lambda c: c.many and c.scene.header.engine["attention_window"] is not None,
        "not_needed": lambda c: c.many and not c.scene.reserves,
    },
    "slots_wasted": {
        "none": few,
        "as_now": lambda c: c.n == c.scene.log.record(c.scene.now - 1).memory.slots_wasted,
        "one_alone": lambda c: c.few and len(c.scene.final_state.running) > 1,
        "all_held": lambda c: c.n == c.memory.blocks_held * c.memory.block_size and c.memory.tokens_held > 0,
        "a_block": lambda c: c.n == c.scene.block_size and not c.scene.reserves,
        "most": lambda c: c.many and not c.scene.reserves,
        "all_free": lambda c: c.many and c.memory.blocks_held < c.memory.num_blocks,
    },
    "left_at_end": {
        "forgotten": few,
        "still_held": lambda c: c.memory.blocks_held == 0,
        "tail_too": lambda c: c.many and ends_short(c),
    },
    "admitted": {
        "admit": lambda c: c.right not in ("admit", "partly"),
        "partly": right_is("admit"),
        "only_part": right_is("partly"),
        "max_num_seqs": right_is("admit", "partly"),
        "no_free_blocks": right_is("admit", "partly"),
        "token_budget": right_is("admit", "partly"),
        "other": lambda c: c.right not in ("admit", "partly"),
    },
    "victim": {"first": always, "longest": always, "who_asks": always},
    "recomputed": {"nothing": few, "only_output": few, "only_prompt": few, "found_again": many, "one": few},
    "run_at_once": {
        "all": many,
        "one": few,
        "places": many,
        "more": lambda c: c.many and c.right != c.scene.header.engine["max_num_seqs"],
        "no_place": lambda c: c.many and c.right == c.scene.header.engine["max_num_seqs"],
    },
    "gap_against_before": {
        "shorter": right_is("longer"),
        "same": right_is("longer", "shorter"),
        "longer": right_is("shorter"),
        "as_before": right_is("same"),
    },
    "first_token_against_before": {
        "earlier": right_is("later"),
        "same": right_is("later", "earlier"),
        "later": right_is("earlier"),
        "as_before": right_is("same"),
    },
    "hit_tokens": {
        "keys_alone": lambda c: c.many and c.n == c.lookup.num_shared_tokens and c.lookup.reason == "no_state",
        "not_rounded": lambda c: c.n == c.lookup.num_shared_tokens or c.lookup.reason is None,
        "rounded_up": many,
        "last_too": lambda c: c.many and c.n == c.lookup.num_tokens,
        "not_all_equal": lambda c: c.many and c.lookup.num_shared_tokens < c.n,
        "none": few,
        "block_less": few,
    },
    "bytes_with_state": {
        "all_layers": lambda c: "state" in c.scene.header.model.layer_kinds,
        "state_each": many,
        "only_keys": few,
        "only_state": lambda c: c.few and c.scene.header.model.num_layers > 0,
    },
    "recalled": {"yes": right_is("no"), "no": right_is("yes")},
    "lighter_from": {
        "no_keys": lambda c: c.few and c.scene.header.model.num_layers > 0,
        "only_own": many,
        "at_once": few,
        "block_later": lambda c: c.n == c.right + c.scene.block_size,  # type: ignore[operator]
    },
    "held_up": {
        "shorter": right_is("longer"),
        "same": right_is("longer", "shorter"),
        "longer": right_is("shorter"),
        "as_before": right_is("same"),
    },
    "held_where": {
        "sender": right_is("both", "receiver"),
        "receiver": right_is("both"),
        "both": right_is("sender", "receiver"),
        "nobody": always,
    },
    "bytes_moved": {"tokens": few, "everything": many, "keys": few, "nothing": few, "one_layer": few},
    "moving_or_computing": {  # an answer is named after the faster one
        "moving": lambda c: c.right == "computing" and c.question.values["computing"] < c.question.values["moving"],  # type: ignore[operator]
        "computing": lambda c: c.right == "moving" and c.question.values["moving"] < c.question.values["computing"],  # type: ignore[operator]
    },
    "after_loss": {"same": right_is("aborted"), "aborted": right_is("same"), "other": right_is("same", "aborted")},
    "keys_kept": {
        "all": many,
        "pinned_only": lambda c: c.few and c.n == c.setting("sinks") + c.setting("recent"),
        "chosen_only": lambda c: c.few and c.n == c.setting("budget") - c.setting("sinks") - c.setting("recent"),
        "divided": few,
    },
    "goes_next": {
        "sink": lambda c: c.n < c.setting("sinks"),
        "oldest": lambda c: c.few and c.forgets_by_score,
        "newest": lambda c: c.n == c.forgets_at - 1 and c.setting("recent") > 0,
        "next_but_one": lambda c: c.forgets_by_score and c.setting("sinks") <= c.n < c.forgets_at - c.setting("recent"),
        "younger": lambda c: not c.forgets_by_score and c.many and c.n < c.forgets_at - c.setting("recent"),
    },
    "first_change": {
        "first_output": lambda c: c.few and c.n == c.end.num_prompt_tokens,
        "at_once": lambda c: c.few and c.n == c.end.num_prompt_tokens + 1 > c.setting("budget"),
        "at_end": many,
    },
    "after_keeping": {
        "earlier": right_is("same", "later", "never"),
        "same": right_is("later", "never"),
        "later": right_is("earlier", "same", "never"),
        "never": right_is("earlier", "same", "later"),
    },
    "freed_by_forgetting": {"all_masked": many, "each_token": many, "none": few, "some": always},
    "drafts_kept": {"all": many, "none": few, "one": always},
    "tokens_gained": {"without_own": few, "one_a_step": few, "all_computed": many},
    "taken_back": {"nothing": few, "all_drafts": many, "kept": always, "all_computed": many},
    "hit_reason": {},
    "diverges_at": {"same": lambda c: c.place < 0, "behind": lambda c: c.place > 0},
    "loaded_from": {},
    "loaded_tokens": {
        "last_too": lambda c: c.n == c.lookup.num_tokens,
        "not_rounded": many,
        "rounded_up": many,
        "none": few,
        "block_less": few,
    },
}


def rules() -> list[str]:
    return [name for name, rule in RULES.items() if inspect.getmodule(rule).__name__.rpartition(".")[2] in MODULES]  # type: ignore[union-attr]


def test_every_hint_has_a_claim() -> None:
    assert set(rules()) == CLAIMS.keys()
    for name in rules():
        words = {key.split(".")[2] for key in TEXTS if key.startswith(f"question.{name}.")} - NO_HINT - {"why"}
        assert words == CLAIMS[name].keys(), name


def false_hints(scene: Scene, question: Question, arguments: dict[str, str]) -> Iterator[str]:
    """Yield the hints about wrong answers that are false."""
    for option in question.options:
        if option.why is None or option.why == "near" or option.why not in CLAIMS[question.rule]:
            continue
        case = Case(scene, question, option, arguments)
        if not CLAIMS[question.rule][option.why](case):
            engine = scene.header.engine
            yield (
                f"{question.rule} {arguments}: {option.number} for {case.right}: {text_of(question.rule, option.why)}"
                f" (strategy {engine['strategy']}, blocks of {scene.block_size}, record {scene.now})"
            )


def text_of(rule: str, why: str) -> str:
    return TEXTS.get(f"question.{rule}.{why}") or TEXTS[f"question.{rule}.why.{why}"]


@pytest.mark.parametrize("path", lesson_files(shipped_folder()), ids=lambda path: path.stem)
def test_hints_of_shipped_lessons_are_true(path: Path) -> None:
    lesson = read_lesson(path)
    found: list[str] = []
    for language in lesson.languages:
        engine = BareLessonEngine(builder, settings_of(lesson, {})[0], lesson.model)
        course = Course(lesson, language, engine)
        course.advance()
        while course.checkpoint is not None:
            if isinstance(item := course.checkpoint, Ask) and course.question and item.rule in CLAIMS:
                earlier = course.logs[course.moment.run - 1] if course.moment.run else None
                scene = Scene(visible_log(course.log, len(course.log)), course.moment.records, earlier)
                found += false_hints(scene, course.question, item.arguments)
                if item.rule == "hit_reason":  # answers are words, and each wrong one has a hint
                    assert sum(option.why is None for option in course.question.options) == 1
            course.answer_right()
            course.advance()
        engine.close()
    assert not found, "\n".join(found)


PROMPTS = ["Who has seen the wind?", "Who has seen the sea? Nobody.", "Once upon a time, there was a"]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"block_size": 1, "num_blocks": 192},
    {"block_size": 16, "num_blocks": 12},
    {"num_blocks": 10, "max_num_seqs": 2},
    {"max_num_batched_tokens": 4},
    {"attention_window": 8},
    {"attention_window": 8, "attention_sinks": 4},
    {"strategy": "none"},
    {"strategy": "contiguous", "max_model_len": 48},
    {"strategy": "first_fit"},
    {"forget_policy": "h2o", "forget_budget": 8, "forget_compare": True},
    {"forget_policy": "window", "forget_budget": 6, "forget_sinks": 2},
]
ARGUMENTS = {"position": "3", "logical": "1", "layer": "1", "head": "0"}


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda one: " ".join(f"{k}={v}" for k, v in one.items()) or "paged")
def test_hints_are_true_in_runs_of_every_strategy(settings: dict[str, Any]) -> None:
    """Every rule that a run can answer is checked, up to the next step and up to the end."""
    config = EngineConfig(**{"block_size": 4, "num_blocks": 48, "enforce_eager": True, **settings})
    engine = BareLessonEngine(builder, config, "bundled")
    engine.submit([LessonPrompt(text=text) for text in PROMPTS], SamplingParams(max_tokens=9, ignore_eos=True))
    while engine.step():
        pass
    found: list[str] = []
    log, num_questions = engine.log, 0
    names = [name for name in rules() if "request" not in inspect.signature(RULES[name]).parameters]
    for now in range(1, len(log), 2):
        for end, name, seq in itertools.product({now + 1, len(log)}, names, range(len(PROMPTS))):
            parameters = inspect.signature(RULES[name]).parameters
            arguments = {k: v for k, v in {**ARGUMENTS, "seq": str(seq)}.items() if k in parameters}
            scene = Scene(visible_log(log, end), now)
            with contextlib.suppress(Undecided, LookupError):
                question = ask(name, arguments, scene)
                found += false_hints(scene, question, arguments)
                num_questions += 1
    engine.close()
    assert num_questions > 100
    assert not found, "\n".join(sorted(set(found)))
