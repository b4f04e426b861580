"""`kvtheater trace explain`: why a run went as it did, or what happened to one request."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from app.cli.options import UserError, add_command
from app.cli.reading import open_trace
from app.cli.terminal import say, say_json
from engine.trace.events import (
    Adjust,
    Admit,
    DeferReason,
    Finish,
    Fork,
    Lookup,
    LookupReason,
    Preempt,
    PreemptReason,
    Submit,
)
from engine.trace.explain import Fullest, Moment, Overview, SlowStep, Story, Wait, overview, stories

CHOSEN: dict[PreemptReason, str] = {
    "last_admitted": "chosen as the last one admitted",
    "worst_priority": "chosen for its priority {priority}, the worst of the running (of several: who came last)",
    "deadlock": "every running sequence waited for a beam without room, so all had to go",
}
DEFERRED: dict[DeferReason, str] = {
    "max_num_seqs": "because as many ran as may (max_num_seqs)",
    "token_budget": "because the step's tokens were spent (max_num_batched_tokens)",
    "no_free_blocks": "for want of free blocks",
    "step_preempted": "because the step had preempted somebody",
}
MISSED: dict[LookupReason, str] = {  # why the hits end where they do
    "evicted": "the next block was cached until record {evicted_in}, when {taker} took it (block {lost_block_id})",
    "shared_too_short": "the closest, {closest}, shares {num_shared_tokens} tokens, which is not a block",
    "differs": "it differs from the closest, {closest}, at position {num_shared_tokens}",
    "earlier_ended": "the closest, {closest}, has only {num_shared_tokens} tokens: its last block was never full",
    "other_salt": "{closest} has the next block, under another cache_salt",
    "not_computed": "{closest} has the same tokens, but had not computed them yet",
    "nothing_shared": "no earlier sequence begins with the same token",
    "forgotten": "whoever had the next block is no longer remembered",
}


def add_parser(what: Any) -> None:
    """The subcommand of `trace`."""
    parser = add_command(
        what,
        "explain",
        "say where the memory went, which steps were slow, and why a request waited, missed the cache or was preempted",
        "  kvtheater trace explain run.kvtrace\n"
        "  kvtheater trace explain run.kvtrace --request request-17\n"
        "  kvtheater trace explain run.kvtrace --json | jq .slowest\n",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--request", metavar="ID", help="the story of one request")
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Explain. 0 when the file is sound, 1 when it is damaged (what came before the damage is explained)."""
    with open_trace(arguments.file) as log:
        if arguments.request is not None:
            everyone = stories(log)
            found = _of_request(everyone, arguments.request)
            if arguments.json:
                say_json(found)
            else:
                _Narrator(everyone).tell(found)
        elif arguments.json:
            say_json(overview(log))
        else:
            _print_overview(overview(log))
        if log.damage:
            sys.stdout.flush()
            say(f"kvtheater: {arguments.file} is damaged: {log.damage}", to=sys.stderr)
            return 1
    return 0


def _of_request(everyone: list[Story], request_id: str) -> list[Story]:
    found = [story for story in everyone if story.request_id == request_id]
    if not found:
        names = list(dict.fromkeys(story.request_id for story in everyone))
        some = ", ".join(names[:8]) + (f", … {names[-1]}" if len(names) > 8 else "")
        raise UserError(f"no request is called {request_id!r}; the trace has {len(names)}: {some or 'none'}")
    return found


def _print_overview(found: Overview) -> None:
    totals = found.totals
    share = f"{totals.hit_tokens / totals.asked_tokens:.1%}" if totals.asked_tokens else "-"
    say(
        f"{_count(totals.requests, 'request')}, {_count(totals.num_steps, 'step')}, "
        f"{totals.seconds:.3f} s of the engine; "
        f"{totals.computed_tokens:,} tokens computed, {totals.output_tokens:,} chosen"
    )
    say(
        f"prefix cache: {totals.hit_tokens:,} of {totals.asked_tokens:,} tokens found at first admissions ({share}); "
        f"{totals.evictions} blocks evicted; {totals.preemptions} preemptions"
    )
    if found.fullest:
        _print_fullest(found.fullest)
    if found.slowest:
        say("", f"slowest steps (median {found.median_seconds * 1000:.2f} ms)")
        say(f"{'record':>6} {'step':>6} {'ms':>8} {'forward':>8} {'sample':>7} {'schedule':>8}  tokens")
        for step in found.slowest:
            say(_slow_step(step))
    head = f"{'request':<16} {'seq':>4} {'prompt':>6} {'cached':>6} {'new':>5} {'preempted':>9} {'again':>6}"
    say("", f"{head} {'blocks':>6} {'TTFT ms':>8}  end")
    for named in found.sequences:
        s = named.figures
        first = f"{s.ttft * 1000:.1f}" if s.ttft is not None else "-"
        say(
            f"{named.request_id:<16} {s.seq_id:>4} {len(s.prompt_token_ids):>6} {s.num_cached_tokens:>6} "
            f"{len(s.tokens):>5} {s.num_preemptions:>9} {named.recomputed_tokens:>6} {s.blocks_peak:>6} {first:>8}  "
            f"{s.finish_reason or s.status}"
        )
    say("cached: tokens found at its first admission; again: tokens computed twice; blocks: at most at once")


def _print_fullest(fullest: Fullest) -> None:
    memory = fullest.memory
    wasted = memory.slots_wasted / max(1, memory.blocks_held * memory.block_size)
    say(
        "",
        f"fullest after record {fullest.record} (step {fullest.step}): {memory.blocks_held} of {memory.num_blocks} "
        f"blocks of {memory.block_size} held ({memory.bytes_held:,} B), {memory.blocks_cached} cached, "
        f"{memory.blocks_free} free; {memory.slots_wasted} slots held without content ({wasted:.1%})",
    )
    for holder in fullest.holders:
        shared = f", {holder.shared} of them others' too" if holder.shared else ""
        say(f"  {holder.request_id:<16} sequence {holder.seq_id:<4} {holder.blocks:>4} blocks{shared}")


def _slow_step(step: SlowStep) -> str:
    timing, ms = step.timing, 1000.0
    parts = f"{timing.forward * ms:>8.2f} {timing.sample * ms:>7.2f} {timing.schedule * ms:>8.2f}"
    tokens = f"{step.prefill_tokens} prefill, {step.decode_tokens} decode"
    return f"{step.record:>6} {step.step:>6} {step.seconds * ms:>8.2f} {parts}  {tokens}"


class _Narrator:
    """Tells stories in sentences, in which sequences have their requests' names."""

    def __init__(self, everyone: list[Story]) -> None:
        self._priority: int = 0
        self._requests = {story.seq_id: story.request_id for story in everyone}

    def tell(self, found: list[Story]) -> None:
        for story in found:
            say(f"request {story.request_id}, sequence {story.seq_id}")
            for moment in story.moments:
                waited = f"; it {_waited(moment.wait)}" if moment.wait and moment.wait.steps else ""
                say(f"  record {moment.record:>5}, step {moment.step:>5}: {self._moment(moment)}{waited}")
            if story.waiting:
                say(f"  the log ends, and it has {_waited(story.waiting)}")

    def _moment(self, moment: Moment) -> str:
        op = moment.op
        match op:
            case Submit():
                self._priority = op.priority
                salt = f", cache_salt {op.cache_salt!r}" if op.cache_salt else ""
                return (
                    f"submitted with {_count(len(op.prompt_token_ids), 'prompt token')}, at most {op.max_tokens} new, "
                    f"priority {op.priority}{salt}; {op.queue_position} before it in the queue"
                )
            case Fork():
                return f"forked from {self._name(op.parent_seq_id)} ({op.reason})"
            case Lookup():
                return self._lookup(op)
            case Admit():
                swapped = f", {_count(op.num_swapped_tokens, 'token')} swapped in" if op.num_swapped_tokens else ""
                again = f", {_count(moment.computed_again, 'token')} to compute again" if moment.computed_again else ""
                return ("resumed" if op.resumed else "admitted") + swapped + again
            case Preempt():
                return self._preempt(op)
            case Adjust():
                return f"sampling changed from outside, at most {op.max_tokens} new tokens"
            case Finish():
                return f"finished: {op.reason}" + (f" ({op.detail})" if op.detail else "")

    def _lookup(self, op: Lookup) -> str:
        if op.verdict == "disabled":
            return f"prefix caching is off: all {_count(op.num_tokens, 'token')} are computed"
        if op.verdict == "skipped":
            return f"not looked up, because log probabilities of all {op.num_tokens} prompt tokens were asked for"
        if op.verdict == "too_short":
            return f"{_count(op.num_tokens, 'token')} have no full block before the last one, so nothing can hit"
        found = f"{op.num_hit_tokens} of {op.num_tokens} tokens found" if op.num_hit_tokens else "miss, nothing found"
        if op.reason is None:
            return f"prefix cache: {found}"
        fields = {name: getattr(op, name) for name in op.__struct_fields__}
        names = {"closest": self._name(op.closest_seq_id), "taker": self._name(op.evicted_for)}
        return f"prefix cache: {found}; {MISSED[op.reason].format(**fields, **names)}"

    def _preempt(self, op: Preempt) -> str:
        whom = self._name(op.for_seq_id) if op.for_seq_id != op.seq_id else "itself"
        refused = "; a swap was wanted, but CPU memory had no room" if op.swap_refused else ""
        if op.mode == "swap":
            cost = f"{op.num_bytes:,} B moved to CPU memory"
        else:
            cost = (
                f"of {_count(op.num_computed_tokens, 'computed token')} {op.num_kept_tokens} could still be found then"
            )
        chosen = CHOSEN[op.reason].format(priority=self._priority)
        gave = _count(op.num_blocks, "block")
        return f"preempted by {op.mode}: no block was free for {whom}; {chosen}; gave back {gave}; {cost}{refused}"

    def _name(self, seq_id: int | None) -> str:
        return f"{self._requests.get(seq_id, '?')} (sequence {seq_id})" if seq_id is not None else "nobody"


def _waited(wait: Wait) -> str:
    """“waited 9 steps: 3 behind others, 6 for want of free blocks”, and what it needed last."""
    parts = [f"{wait.behind} behind others"] if wait.behind else []
    parts += [f"{count} {DEFERRED[reason]}" for reason, count in wait.deferred.items()]
    last = f" (last: needed {wait.last.needed}, available {wait.last.available})" if wait.last else ""
    return f"waited {_count(wait.steps, 'step')}" + (": " + ", ".join(parts) if parts else "") + last


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
