"""`kvtheater trace what-if`: the effect of another pool size, by a replay of the log's requests."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from app.cli.options import UserError, add_command, user_errors
from app.cli.reading import damage_status, open_trace
from app.cli.terminal import say, say_json
from engine.simulate.replay_inputs import ReplayError
from engine.simulate.what_if import WhatIf, what_if

ROWS = [  # label, field of `Figures`
    ("blocks", "num_blocks"), ("steps", "steps"), ("tokens computed", "computed_tokens"),
    ("  computed again", "recomputed_tokens"), ("prompt tokens looked up", "asked_tokens"),
    ("  hit", "hit_tokens"), ("preemptions", "preemptions"), ("evictions", "evictions"),
    ("  computed again later", "evicted_again"), ("steps without room for the next", "steps_without_room"),
    ("steps to the first token, p50", "ttft_steps_p50"), ("steps to the first token, p99", "ttft_steps_p99"),
    ("sequences finished", "finished"), ("requests refused", "refused"),
]  # fmt: skip


def add_parser(commands: Any) -> None:
    """Add the subcommand to those of `trace`."""
    parser = add_command(
        commands,
        "what-if",
        "replay a log's requests with another pool size, through the scheduler and the cache, without a model",
        "  kvtheater trace what-if run.kvtrace\n"
        "  kvtheater trace what-if run.kvtrace --times 0.5\n"
        "  kvtheater trace what-if run.kvtrace --json | jq .other.preemptions\n",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--times", type=float, default=2.0, metavar="X", help="factor of the pool size (default: 2)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Replay and print. Exit status 0 if the trace is sound, 1 if it is damaged (the part before the damage is
    replayed).
    """
    if not 0 < arguments.times <= 1000:
        raise UserError(f"--times must be over 0 and at most 1000, not {arguments.times:g}")
    with open_trace(arguments.file) as log:
        with user_errors(ReplayError, of=arguments.file):
            found = what_if(log, arguments.times)
        if arguments.json:
            say_json(found)
        else:
            _print(found)
        return damage_status(arguments.file, log.damage)


def _print(found: WhatIf) -> None:
    head = ("log", "replayed", f"{found.times:g} x", "difference")
    say(f"{'':<38}" + "".join(f"{name:>14}" for name in head))
    for text, name in ROWS:
        values = [getattr(one, name) for one in (found.log, found.same, found.other)]
        change = "" if None in values else f"{values[2] - values[1]:+,.10g}"
        say(f"{text:<38}" + "".join(f"{_text(value):>14}" for value in values) + f"{change:>14}")
    say("")
    if found.differs_in is None:
        say(f"Replayed with the log's own pool, all {found.num_records:,} records have the same decisions.")
    else:
        say(f"Replayed with the log's own pool, record {found.differs_in} is the first with a different decision.")
    say("Each request arrives after as many steps as in the log and samples the same tokens; nothing is computed.")
    say("A request that continues an answer arrives as many steps after that answer's end as in the log.")


def _text(value: float | None) -> str:
    return "?" if value is None else f"{value:,.10g}"
