"""`kvtheater trace compare`: two recorded runs side by side."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import Any

from app.cli.options import UserError, add_command
from app.cli.reading import open_trace
from app.cli.terminal import say, say_json
from engine.trace.codec import TraceFormatError
from engine.trace.compare import Comparison, OpDifference, SequencePair, compare
from engine.trace.figures import Token, Totals
from engine.trace.observing import UNSAID
from engine.trace.operations import Op
from engine.trace.state import TraceStateError

TOTALS = [  # name, unit
    ("num_steps", ""), ("requests", ""), ("output_tokens", ""), ("computed_tokens", ""), ("hit_tokens", ""),
    ("asked_tokens", ""), ("preemptions", ""), ("evictions", ""), ("copies", ""), ("swapped_bytes", "B"),
    ("blocks_peak", ""), ("bytes_peak", "B"), ("wasted_peak", "B"), ("seconds", "s"), ("flops", "FLOP"),
    ("bytes_moved", "B"),
]  # fmt: skip


def add_parser(commands: Any) -> None:
    """Add the subcommand to those of `trace`."""
    parser = add_command(
        commands,
        "compare",
        "compare two runs, aligned by request and token; exit status 1 when an operation differs or a file is damaged",
        "  kvtheater trace compare paged.kvtrace contiguous.kvtrace\n"
        "  kvtheater trace compare a.kvtrace b.kvtrace --json | jq .first_token\n",
    )
    parser.add_argument("a", type=Path, metavar="A")
    parser.add_argument("b", type=Path, metavar="B")
    parser.add_argument("--json", action="store_true", help="print the whole comparison as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compare the runs, and print the result."""
    with contextlib.ExitStack() as files:
        readers = [files.enter_context(open_trace(path)) for path in (arguments.a, arguments.b)]
        try:
            found = compare(*readers)
        except (TraceFormatError, TraceStateError) as error:
            raise UserError(f"cannot compare the traces: {error}; check them with `kvtheater trace check`") from error
        if any(reader.header.observed is not None for reader in readers):
            _print_monitored(found, arguments)
        elif arguments.json:
            say_json(found)
        else:
            _print(found, arguments.a, arguments.b)
        damaged = [r for r in readers if r.damage]
        for reader in damaged:
            say(f"kvtheater: {reader.path} is damaged: {reader.damage}", to=sys.stderr)
        return 1 if damaged or found.first_op else 0


def _print_monitored(found: Comparison, arguments: argparse.Namespace) -> None:
    """Print the first difference only, since a monitored server does not report the other figures."""
    if arguments.json:
        say_json({"first_op": found.first_op, "unknown": UNSAID})
        return
    say(f"A  {arguments.a}", f"B  {arguments.b}", "", *_op_difference(found.first_op), "", f"nothing more: {UNSAID}")


def _print(found: Comparison, a: Path, b: Path) -> None:
    say(f"A  {a}", f"B  {b}")
    if not found.same_model:
        say("the models differ")
    if not found.same_machine:
        say("the machines differ, so times also depend on them")
    for setting in found.settings:
        say(f"{setting.name}: A {setting.a}, B {setting.b}")
    say("", *_op_difference(found.first_op))
    first = found.first_token
    if first is None:
        say("first token that differs: none, as far as both runs go")
    else:
        say(
            f"first token that differs: request {first.request_id}, position {first.position}: "
            f"A {_token(first.a)}, B {_token(first.b)}"
        )
    say("", f"{'request':<20} {'tokens equal':>14} {'A':>5} {'B':>5} {'cached A/B':>12} {'preempted A/B':>14}")
    for pair in found.sequences:
        say(_row(pair))
    say("", f"{'':<18} {'A':>22} {'B':>22}")
    for name, unit in TOTALS:
        sides = ((found.a, found.unsaid.a), (found.b, found.unsaid.b))
        values = ["unknown" if name in unsaid else _figure(run.totals, name, unit) for run, unsaid in sides]
        say(f"{name:<18} {values[0]:>22} {values[1]:>22}")


def _op_difference(difference: OpDifference | None) -> list[str]:
    """Return the lines about the first difference: its place, and each run's operation."""
    label = "first operation that differs: "
    if difference is None:
        return [f"{label}none"]
    where = f"{label}record {difference.record}, operation {difference.op}"
    return [where, f"  A {_op(difference.a, difference.kind_a)}", f"  B {_op(difference.b, difference.kind_b)}"]


def _op(op: Op | None, kind: str | None) -> str:
    if op is None:
        return "the log ends before it" if kind is None else f"{kind}: no more operations"
    fields = {name: getattr(op, name) for name in op.__struct_fields__}
    text = f"{op.__struct_config__.tag} " + " ".join(f"{k}={_short(v)}" for k, v in fields.items())
    return text if len(text) <= 160 else text[:157] + "..."


def _token(token: Token | None) -> str:
    if token is None:
        return "has ended"
    chosen = ", chosen from outside" if token.chosen else ""
    return f"{token.token_id} {token.token_bytes.decode('utf-8', 'backslashreplace')!r} (record {token.record}{chosen})"


def _row(pair: SequencePair) -> str:
    name = pair.request_id + (f" #{pair.number}" if pair.number else "") + (f".{pair.member}" if pair.member else "")
    sides = (pair.a, pair.b)
    equal = str(pair.equal_tokens) if pair.same_prompt else "other prompt" if all(sides) else "-"
    tokens = [str(len(s.tokens)) if s else "-" for s in sides]
    cached = "/".join(str(s.num_cached_tokens) if s else "-" for s in sides)
    preempted = "/".join(str(s.num_preemptions) if s else "-" for s in sides)
    return f"{name:<20} {equal:>14} {tokens[0]:>5} {tokens[1]:>5} {cached:>12} {preempted:>14}"


def _figure(totals: Totals, name: str, unit: str) -> str:
    value = getattr(totals, name)
    return (f"{value:.4f}" if isinstance(value, float) else f"{value:,}") + (f" {unit}" if unit else "")


def _short(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)
