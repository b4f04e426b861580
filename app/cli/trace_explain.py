"""`kvtheater trace explain`: causes of a run's waits, misses and preemptions, and the timeline of a request."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

from app.cli.options import UserError, add_command
from app.cli.reading import damage_status, open_trace, refuse_monitored
from app.cli.terminal import say, say_json
from engine.options.check import similar_words
from engine.trace.disagg_ids import plain_id
from engine.trace.explain import (
    Drafts,
    Fullest,
    Overview,
    SlowStep,
    Timeline,
    TimelineEvent,
    Wait,
    goodput_of,
    overview,
    timelines,
)
from engine.trace.goodput import APPLICATIONS, SLO, Goodput, slo_of
from engine.trace.log import TraceReader
from engine.trace.messages import Context, Voice, languages
from engine.trace.messages.words import bytes_text

Columns = tuple[tuple[str, int], ...]  # (name, width); right-aligned, or left-aligned if the width is negative
STEPS: Columns = (("record", 6), ("step", 6), ("ms", 8), ("forward", 8), ("sample", 7), ("schedule", 8))
REQUESTS: Columns = (
    ("request", -16), ("seq", 4), ("prompt", 6), ("cached", 6), ("new", 5), ("preempted", 9), ("again", 6),
    ("blocks", 6), ("queue", 8), ("ttft", 8), ("tpot", 8), ("slow", 4),
)  # fmt: skip


def add_parser(commands: Any) -> None:
    """Add the subcommand to those of `trace`."""
    parser = add_command(
        commands,
        "explain",
        "explain the use of memory, the slowest steps, and why requests waited, missed the cache or were preempted",
        "  kvtheater trace explain run.kvtrace\n"
        "  kvtheater trace explain run.kvtrace --request request-17\n"
        "  kvtheater trace explain run.kvtrace --request request-17 --lang zh\n"
        "  kvtheater trace explain run.kvtrace --goodput ttft:250,tpot:100\n"
        "  kvtheater trace explain run.kvtrace --json | jq .slowest\n",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--request", metavar="ID", help="print the timeline of one request, by id or number")
    parser.add_argument(
        "--goodput",
        type=_slo,
        metavar="SLO",
        help="print how many requests met objectives in milliseconds, such as ttft:250,tpot:100, or those of "
        + ", ".join(APPLICATIONS),
    )
    parser.add_argument("--lang", choices=languages(), default="en", help="language (default: en)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Explain. Exit status 0 if the file is sound, 1 if it is damaged (the part before the damage is explained)."""
    with open_trace(arguments.file) as log:
        refuse_monitored(log, "use `kvtheater trace show` or `kvtheater replay` for its reports")
        if arguments.request is not None:
            all_timelines = timelines(log)
            requests = timelines_of(all_timelines, arguments.request)
            if arguments.json:
                say_json(requests)
            else:
                _Narrator(log, all_timelines, arguments.lang).print(requests)
        elif arguments.json:
            found = overview(log)
            say_json(found if arguments.goodput is None else goodput_of(found, arguments.goodput))
        else:
            found, voice = overview(log), Voice(arguments.lang, first_record=0, thin_space=" ")
            _print_overview(found, voice)
            if arguments.goodput is not None:
                _print_goodput(goodput_of(found, arguments.goodput), voice)
        return damage_status(arguments.file, log.damage)


def _slo(text: str) -> SLO:
    try:
        return slo_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def timelines_of(all_timelines: list[Timeline], request_id: str) -> list[Timeline]:
    """Return the timelines of a request's sequences, on all instances. A number selects the only request whose id ends
    with it and has no other digits or, if there is none, a sequence.
    """
    names = list(dict.fromkeys(plain_id(one.request_id) for one in all_timelines))
    numbered = [name for name in names if _number(name) == _number(request_id)]
    if request_id not in names and request_id.isdecimal():
        request_id = numbered[0] if len(numbered) == 1 else request_id
        if not numbered and (found := [one for one in all_timelines if str(one.seq_id) == request_id]):
            return found
    found = [one for one in all_timelines if request_id in (one.request_id, plain_id(one.request_id))]
    if not found:
        some = ", ".join(names[:8]) + (f", … {names[-1]}" if len(names) > 8 else "")
        meant = numbered if _number(request_id) is not None and numbered else similar_words(request_id, names)
        hint = f"; did you mean {' or '.join(meant[:3])}?" if meant else ""
        raise UserError(f"there is no request {request_id!r}; the trace has {len(names)}: {some or 'none'}{hint}")
    return found


def _number(name: str) -> int | None:
    """Return the number that a request's id ends with; None if it has other digits too, like a random id."""
    digits = re.fullmatch(r"[^0-9]*([0-9]{1,18})", name)
    return int(digits[1]) if digits else None


def _print_overview(found: Overview, voice: Voice) -> None:
    totals = found.totals
    share = f"{totals.hit_tokens / totals.asked_tokens:.1%}" if totals.asked_tokens else "-"
    say(
        voice.say(
            "explain.totals",
            requests=totals.requests,
            steps=totals.num_steps,
            seconds=f"{totals.seconds:.3f}",
            computed=totals.computed_tokens,
            chosen=totals.output_tokens,
        )
    )
    say(
        voice.say(
            "explain.cache",
            hit=totals.hit_tokens,
            asked=totals.asked_tokens,
            share=share,
            evictions=totals.evictions,
            preemptions=totals.preemptions,
        )
    )
    if found.drafts.passes:
        _print_drafts(found.drafts, voice)
    if found.fullest:
        _print_fullest(found.fullest, voice)
    if found.slowest:
        say("", voice.say("explain.slowest", median=f"{found.median_seconds * 1000:.2f}"))
        say(_head(STEPS, voice) + "  " + voice.say("explain.column.tokens"))
        for step in found.slowest:
            say(_slow_step(step, voice))
    say("", _head(REQUESTS, voice) + "  " + voice.say("explain.column.end"))
    for named in found.sequences:
        s = named.figures
        times = ["-" if seconds is None else f"{seconds * 1000:.1f}" for seconds in (s.queue, s.ttft, named.tpot)]
        cells: tuple[str | int, ...] = (
            named.request_id, s.seq_id, len(s.prompt_token_ids), s.num_cached_tokens, len(s.tokens),
            s.num_preemptions, named.recomputed_tokens, s.blocks_peak, *times, named.slow_steps,
        )  # fmt: skip
        say(_row(REQUESTS, cells) + "  " + voice.say(f"timeline.end.{s.finish_reason or s.status}"))
    say(voice.say("explain.notes"))


def _print_drafts(found: Drafts, voice: Voice) -> None:
    share = f"{found.accepted / found.drafted:.1%}"
    per_pass = f"{found.tokens / found.passes:.2f}"
    counts = {"drafted": found.drafted, "accepted": found.accepted, "passes": found.passes}
    say(voice.say("explain.drafts", **counts, share=share, per_pass=per_pass))


def _print_fullest(fullest: Fullest, voice: Voice) -> None:
    memory = fullest.memory
    wasted = memory.slots_wasted / max(1, memory.blocks_held * memory.block_size)
    sentence = voice.say(
        "explain.fullest",
        record=fullest.record,
        step=fullest.step,
        held=memory.blocks_held,
        blocks=memory.num_blocks,
        size=memory.block_size,
        bytes=bytes_text(memory.bytes_held, " "),
        cached=memory.blocks_cached,
        free=memory.blocks_free,
        wasted=memory.slots_wasted,
        share=f"{wasted:.1%}",
    )
    say("", sentence)
    for holder in fullest.holders:
        name = voice.say("explain.sequence", id=f"{holder.seq_id:<4}")
        text = voice.say("explain.holder", request=f"{holder.request_id:<16}", sequence=name, blocks=holder.blocks)
        say("  " + (voice.say("explain.shared", text=text, n=holder.shared) if holder.shared else text))


def _print_goodput(found: Goodput, voice: Voice) -> None:
    rate = found.per_second
    text = voice.say(
        "explain.goodput",
        met=found.met,
        n=found.ended,
        rate="-" if rate is None else f"{rate:.3g}",
        ttft=f"{found.slo.ttft * 1000:g}",
        tpot=f"{found.slo.tpot * 1000:g}",
    )
    say("", text)


def _slow_step(step: SlowStep, voice: Voice) -> str:
    timing = step.timing
    times = [f"{seconds * 1000:.2f}" for seconds in (step.seconds, timing.forward, timing.sample, timing.schedule)]
    tokens = voice.say("explain.tokens", prefill=step.prefill_tokens, decode=step.decode_tokens)
    return _row(STEPS, (step.record, step.step, *times)) + "  " + tokens


def _head(columns: Columns, voice: Voice) -> str:
    return _row(columns, tuple(voice.say(f"explain.column.{name}") for name, _ in columns))


def _row(columns: Columns, cells: tuple[str | int, ...]) -> str:
    return " ".join(_padded(str(cell), width) for (_, width), cell in zip(columns, cells, strict=True))


def _padded(text: str, width: int) -> str:
    """Pad `text` to `width` columns of a terminal, where a Chinese character takes two."""
    spaces = " " * (abs(width) - sum(2 if east_asian_width(c) in "WF" else 1 for c in text))
    return text + spaces if width < 0 else spaces + text


class _Narrator:
    """Printer of the timelines of sequences. Other sequences are named with their requests."""

    def __init__(self, log: TraceReader, all_timelines: list[Timeline], language: str) -> None:
        self._log = log
        self._requests = {one.seq_id: one.request_id for one in all_timelines}
        self._about: int | None = None
        self._voice = Voice(language, name=self._name, first_record=0, thin_space=" ")
        self._say: Callable[..., str] = self._voice.say

    def print(self, found: list[Timeline]) -> None:
        for timeline in found:
            self._about = timeline.seq_id
            say(self._say("explain.story", request=timeline.request_id, id=timeline.seq_id))
            for event in timeline.events:
                where = {"record": f"{event.record:>5}", "step": f"{event.step:>5}"}
                say("  " + self._say("explain.moment", **where, text=self._event(event)))
            if timeline.waiting:
                say("  " + self._waited("timeline.waits", timeline.waiting))

    def _event(self, event: TimelineEvent) -> str:
        record = self._log.record(event.record)
        place = record.ops.index(event.op)
        sentences = [self._voice.render(event.op, Context(header=self._log.header, record=record, index=place))]
        if event.computed_again:
            sentences.append(self._say("timeline.again", n=event.computed_again))
        if event.wait and event.wait.steps:
            sentences.append(self._waited("timeline.waited", event.wait))
        return self._say("join.sentences").join(sentences)

    def _waited(self, key: str, wait: Wait) -> str:
        """Return a sentence such as “It waited 9 steps: 3 behind others, 6 because …; at last it needed 2, and 1 was
        available.”
        """
        parts = [self._say("timeline.behind", n=wait.behind)] if wait.behind else []
        for reason, count in wait.deferred.items():
            parts.append(self._say("timeline.deferred", n=count, reason=self._say(f"op.defer.reason.{reason}.chain")))
        reasons = self._say("join.list").join(parts)
        if wait.last:
            last = self._say("timeline.needed", needed=wait.last.needed, available=wait.last.available)
            reasons += self._say("join.clauses") + last
        return self._say(key, n=wait.steps, reasons=reasons)

    def _name(self, seq_id: int) -> str:
        if seq_id == self._about:
            return self._say("explain.sequence", id=seq_id)
        return self._say("explain.other", id=seq_id, request=self._requests.get(seq_id, "?"))
