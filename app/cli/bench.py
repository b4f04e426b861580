"""`kvtheater bench`: list, run, compare and report benchmarks."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.bench_progress import BenchProgress
from app.cli.options import UserError, add_command, file_errors, user_errors
from app.cli.terminal import say

if TYPE_CHECKING:
    from engine.bench.compare import Difference
    from engine.bench.record import Record
    from engine.bench.scenario import Scenario


def add_parser(commands: Any) -> None:
    bench = add_command(
        commands,
        "bench",
        "run benchmarks of this engine and of others",
        "  kvtheater bench list\n"
        "  kvtheater bench run block-size --rounds 3\n"
        "  kvtheater bench run --all\n"
        "  kvtheater bench compare before/ after/\n",
    )
    subcommands = bench.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_list(subcommands)
    _add_run(subcommands)
    _add_compare(subcommands)
    _add_report(subcommands)


def _add_list(subcommands: Any) -> None:
    parser = add_command(subcommands, "list", "list the scenarios", "  kvtheater bench list\n")
    parser.set_defaults(run=run_list)


def _add_run(subcommands: Any) -> None:
    parser = add_command(
        subcommands,
        "run",
        "run scenarios and write a record of each; exit status 1 if the engine's tokens differ between variants",
        "  kvtheater bench run prefix-sharing\n"
        "  kvtheater bench run my-scenario.toml --out records/ --trace\n"
        "  kvtheater bench run --all\n",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="id of a scenario, or a .toml file")
    parser.add_argument("--all", action="store_true", help="run every shipped scenario")
    parser.add_argument("--rounds", type=int, metavar="N", help="number of rounds (default: the scenario's)")
    parser.add_argument("--seed", type=int, metavar="N", help="random seed (default: the scenario's)")
    parser.add_argument("--only", metavar="IDS", help="run only these variants, separated by commas")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="folder for the records (default: bench-results; in a checkout, for unchanged shipped scenarios, "
        "engine/bench/results)",
    )
    parser.add_argument("--trace", action="store_true", help="write a .kvtrace of each variant at each point")
    parser.add_argument(
        "--wait-quiet",
        type=float,
        default=60,
        metavar="SECONDS",
        help="maximum wait for a quiet machine (default: %(default)s)",
    )
    parser.set_defaults(run=run_run)


def _add_compare(subcommands: Any) -> None:
    parser = add_command(
        subcommands,
        "compare",
        "compare two records, or two folders of them; exit status 1 if something became worse",
        "  kvtheater bench compare engine/bench/results/guard.json new/guard.json --threshold 0.15\n"
        "  kvtheater bench compare before/ after/ --counts\n",
    )
    parser.add_argument("before", type=Path, metavar="A")
    parser.add_argument("after", type=Path, metavar="B")
    parser.add_argument("--threshold", type=float, metavar="SHARE", help="change that counts as worse (default: 0.1)")
    parser.add_argument("--counts", action="store_true", help="compare only counts, not times")
    parser.set_defaults(run=run_compare)


def _add_report(subcommands: Any) -> None:
    parser = add_command(
        subcommands,
        "report",
        "print records as Markdown",
        "  kvtheater bench report\n"
        "  kvtheater bench report records/guard.json --lang zh\n"
        "  kvtheater bench report --into docs/benchmarks.md\n",
    )
    parser.add_argument(
        "path", nargs="?", type=Path, metavar="PATH", help="a record or a folder of records (default: the shipped ones)"
    )
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language (default: en)")
    parser.add_argument("--summary", action="store_true", help="print only the headlines")
    parser.add_argument(
        "--into",
        type=Path,
        metavar="FILE",
        help="replace the table between the marks of this Markdown file",
    )
    parser.set_defaults(run=run_report)


def run_list(_: argparse.Namespace) -> int:
    """Print ids, sizes and titles."""
    from engine.bench.scenario import find_scenario, scenario_ids

    width = max(map(len, scenario_ids()))
    for name in scenario_ids():
        scenario = find_scenario(name)
        size = f"{len(scenario.axis.points())} × {len(scenario.variants)} × {scenario.rounds} rounds"
        say(f"{name:<{width}} {size:<20} {scenario.title.en}")
    return 0


def run_run(arguments: argparse.Namespace) -> int:
    """Run the scenarios, and write a record of each. An interruption does not lose earlier records."""
    scenarios = _scenarios(arguments)
    from engine.bench.environment import refusal
    from engine.bench.errors import BenchError, Cancelled
    from engine.bench.record import write_record
    from engine.bench.report import summary
    from engine.bench.runner import Runner

    out: Path = arguments.out or _default_out(arguments)
    with file_errors("write to", out):
        out.mkdir(parents=True, exist_ok=True)  # fails now, not after minutes of measuring
    sound = True
    for scenario in scenarios:
        if arguments.all and (reason := refusal(scenario)) is not None:
            say(f"{scenario.id} is skipped: {reason.en}", to=sys.stderr)
            continue
        for line in _request_files(scenario):
            say(line)
        with BenchProgress() as bar:
            runner = Runner(
                scenario,
                rounds=arguments.rounds,
                seed=arguments.seed,
                on_progress=bar.show,
                cancelled=bar.interrupted,
                traces=out / "traces" if arguments.trace else None,
                quiet_seconds=arguments.wait_quiet,
                command=_command(scenario, arguments),
            )
            try:
                record = runner.run()
            except Cancelled:
                say(f"kvtheater: {scenario.id} was stopped before its first round ended", to=sys.stderr)
                return 130
            except (BenchError, ValueError) as error:  # ModelError is a ValueError
                raise UserError(str(error)) from error
        path = out / f"{scenario.id}.json"
        if not record.complete and path.exists():
            path = out / f"{scenario.id}-stopped.json"  # an incomplete record must not replace a complete one
        with file_errors("write", path):
            write_record(record, path)
        say(str(path) + ("" if record.complete else f" (stopped after {record.rounds} rounds)"))
        say(*summary([record]).split("\n"))
        sound &= _print_problems(record)
        if not record.complete:
            return 130
    return 0 if sound else 1


def _request_files(scenario: Scenario) -> list[str]:
    """Return a description of each request file that is not shipped: which columns are read, and how."""
    from engine.bench.errors import BenchError
    from engine.bench.request_files import read_requests
    from engine.bench.scenario import workloads_of
    from engine.bench.workload import TRACES, Trace

    own = {(one.path, one.format) for one in workloads_of(scenario) if isinstance(one, Trace)}
    with user_errors(BenchError):
        return [
            f"requests of {path.name}: {read_requests(path, format, lambda text: list(text.encode())).reading}"
            for path, format in sorted(own, key=str)
            if path.parent != TRACES
        ]


def _print_problems(record: Record) -> bool:
    """Print the caveats of the figures. Returns whether all outputs were as expected."""
    environment = record.environment
    if not environment.quiet or (environment.busy_cpus or 0) > 0.1:
        busy = f"other programs used {environment.busy_cpus} CPUs on average"
        say(f"the machine was not quiet: {busy}", to=sys.stderr)
    sound = True
    for point in record.points:
        if point.failed:
            say(f"{point.variant} at {point.at} did not run: {point.failed}", to=sys.stderr)
        if point.tokens_identical is False:
            say(f"{point.variant} at {point.at} computed other tokens than the reference", to=sys.stderr)
            sound &= point.variant in record.peers  # a peer may compute other tokens
    return sound


def run_compare(arguments: argparse.Namespace) -> int:
    """Print the differences. Exit status 1 if a figure is worse by more than the threshold, or a point is missing."""
    from engine.bench.compare import THRESHOLD, compare, lost_points
    from engine.bench.errors import BenchError
    from engine.bench.record import read_records

    threshold = THRESHOLD if arguments.threshold is None else arguments.threshold
    with user_errors(BenchError):
        before = {record.scenario.id: record for record in read_records(arguments.before)}
        after = {record.scenario.id: record for record in read_records(arguments.after)}
    common = [name for name in before if name in after]
    if not common:
        raise UserError(f"{arguments.before} and {arguments.after} have no scenario in common")
    worse: list[Difference] = []
    lost: list[str] = []
    num_compared = 0
    for name in common:
        found = compare(before[name], after[name], threshold, arguments.counts)
        num_compared += len(found)
        worse += [difference for difference in found if difference.worse]
        lost += lost_points(before[name], after[name])
    for d in sorted(worse, key=lambda d: -d.change):
        against = f" against {d.against}" if d.against else ""
        say(
            f"{d.scenario}, {d.at}, {d.variant}: {d.metric}{against} {d.before.median:g} "
            f"[{d.before.low:g}, {d.before.high:g}] -> {d.after.median:g} [{d.after.low:g}, {d.after.high:g}], "
            f"{d.change:.0%} worse"
        )
    for sentence in lost:
        say(sentence)
    say(f"{num_compared} figures compared, {len(worse)} worse by more than {threshold:.0%}, {len(lost)} points lost")
    return 1 if worse or lost else 0


def run_report(arguments: argparse.Namespace) -> int:
    """Print Markdown, or write the headlines into a file."""
    from engine.bench.errors import BenchError
    from engine.bench.record import RESULTS, read_records
    from engine.bench.report import END, START, details, insert, summary

    with user_errors(BenchError):
        records = read_records(arguments.path or RESULTS)
    if arguments.into is None:
        parts = [summary(records, arguments.lang)]
        if not arguments.summary:
            parts += [details(record, arguments.lang) for record in records]
        say(*"\n".join(parts).split("\n"))
        return 0
    path: Path = arguments.into
    with file_errors("write", path):
        document = path.read_text(encoding="utf-8")
        changed = insert(document, records, arguments.lang)
        if changed is None:
            raise UserError(f"{path} has no {START} and {END} to put the table between")
        path.write_text(changed, encoding="utf-8")
    return 0


def _scenarios(arguments: argparse.Namespace) -> list[Scenario]:
    from msgspec.structs import replace

    from engine.bench.errors import BenchError
    from engine.bench.scenario import check, find_scenario, scenario_ids

    if bool(arguments.names) == arguments.all:
        raise UserError("name the scenarios to run (kvtheater bench list), or --all")
    if arguments.rounds is not None and arguments.rounds < 1:
        raise UserError(f"--rounds must be at least 1, not {arguments.rounds}")
    with user_errors(BenchError):
        found = [find_scenario(name) for name in (scenario_ids() if arguments.all else arguments.names)]
        if arguments.only is None:
            return found
        wanted = arguments.only.split(",")
        chosen = []
        for scenario in found:
            unknown = sorted(set(wanted) - {variant.id for variant in scenario.variants})
            if unknown:
                raise UserError(f"scenario {scenario.id} has no variant {', '.join(unknown)}")
            adjusted = replace(
                scenario,
                variants=[variant for variant in scenario.variants if variant.id in wanted],
                baselines=[name for name in scenario.baselines if name in wanted],
                headlines=[h for h in scenario.headlines if {h.variant, h.against or h.variant} <= set(wanted)],
            )
            check(adjusted)
            chosen.append(adjusted)
        return chosen


def _default_out(arguments: argparse.Namespace) -> Path:
    """Return the default folder: in a checkout, that of the shipped records, if all scenarios are shipped ones and
    unchanged.
    """
    from engine.bench.environment import ROOT
    from engine.bench.record import RESULTS

    own = any(name.endswith(".toml") for name in arguments.names)
    changed = own or any(getattr(arguments, option) is not None for option in ("rounds", "seed", "only"))
    return RESULTS if (ROOT / ".git").exists() and not changed else Path("bench-results")


def _command(scenario: Scenario, arguments: argparse.Namespace) -> str:
    """Return the command that runs this scenario in the same way."""
    words: list[str] = ["kvtheater", "bench", "run"]
    own = (Path(name).name for name in arguments.names if name.endswith(f"{scenario.id}.toml"))
    words.append(next(own, scenario.id))  # a record must not contain a user's paths
    for option in ("rounds", "seed", "only"):
        value = getattr(arguments, option)
        if value is not None:
            words += [f"--{option}", str(value)]
    return shlex.join(words)
