"""`kvtheater simulate --sweep`: a simulation for each point of a grid, on this machine or on a Ray cluster."""

from __future__ import annotations

import argparse
import copy
import itertools
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, NamedTuple

from app.cli.options import UserError, user_errors
from app.cli.terminal import say
from app.ground.plain import to_json
from engine.trace.messages.words import seconds_text

MAX_POINTS = 10_000
Figures = dict[str, Any]
Simulate = Callable[[argparse.Namespace], Figures]


class Point(NamedTuple):
    """Combination of the swept settings, and the arguments for its simulation."""

    settings: dict[str, str]
    arguments: argparse.Namespace


class PointResult(NamedTuple):
    """Result of a point: its figures, or the error message."""

    settings: dict[str, str]
    figures: Figures | None
    refused: str | None


def add_sweep_options(parser: argparse.ArgumentParser) -> None:
    """Add `--sweep`, `--processes` and `--ray`."""
    group = parser.add_argument_group("sweep")
    group.add_argument(
        "--sweep", action="append", default=[], metavar="OPTION=V,V,...",
        help="simulate with each value of an option (on, off for a flag without a value) and print a line for each; "
        "repeated: each combination",
    )  # fmt: skip
    group.add_argument(
        "--processes", type=int, metavar="N", help="points simulated in parallel (default: one per processor)"
    )  # fmt: skip
    group.add_argument(
        "--ray", nargs="?", const="local", metavar="ADDRESS",
        help="simulate on this Ray cluster or a new one (pip install 'kvtheater[ray]'); files need the same path on "
        "each machine",
    )  # fmt: skip


def sweep(arguments: argparse.Namespace, parser: argparse.ArgumentParser, simulate: Simulate) -> int:
    """Simulate every point, and print a table, or JSON. `simulate`: a function that other processes can import.

    Raises:
        UserError: an unknown option, an invalid value, or too many points.
    """
    if arguments.record:
        raise UserError("--record is for one run; leave it out with --sweep")
    points = grid(arguments, parser)
    run = _on_ray if arguments.ray else _here
    found = dict[int, PointResult]()
    for index, done in run(points, simulate, arguments):
        found[index] = done
        if sys.stderr.isatty():
            print(f"\r{len(found)} of {len(points)}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    rows = [found[index] for index in range(len(points))]
    if arguments.json:
        say(to_json([row._asdict() for row in rows]).decode())
    else:
        _print(rows)
    return 0


def grid(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> list[Point]:
    """Return all combinations of the swept values; those of the last option vary fastest.

    Raises:
        UserError: as `sweep`.
    """
    axes = [_axis(text) for text in arguments.sweep]
    names = [name for name, _ in axes]
    if len(set(names)) < len(names):
        raise UserError("--sweep takes each option once, with all its values, such as num-blocks=64,128")
    number = 1
    for _, values in axes:
        number *= len(values)
    if number > MAX_POINTS:
        raise UserError(f"{number} combinations; at most {MAX_POINTS} are simulated at once")
    points = []
    for chosen in itertools.product(*(values for _, values in axes)):
        settings = dict(zip(names, chosen, strict=True))
        words = [word for name, value in settings.items() for word in _words(parser, name, value)]
        point = parser.parse_args([str(arguments.requests), *words], copy.copy(arguments))
        for name in ("run", "parser"):  # another process does not need them
            delattr(point, name)
        points.append(Point(settings, point))
    return points


def _axis(text: str) -> tuple[str, list[str]]:
    name, _, values = text.partition("=")
    name, each = name.strip().lstrip("-").replace("_", "-"), [value.strip() for value in values.split(",")]
    if not name or not all(each):
        raise UserError(f"--sweep takes an option and its values, such as num-blocks=64,128; not {text!r}")
    return name, each


def _words(parser: argparse.ArgumentParser, name: str, value: str) -> list[str]:
    """Return the command-line words of an option's value. `parse_args` reports invalid ones."""
    action = parser._option_string_actions.get(f"--{name}")
    if action is None or action.nargs != 0:
        return [f"--{name}={value}"]
    if value not in ("on", "off"):
        raise UserError(f"--sweep {name} takes on and off, not {value!r}")
    return [f"--{name}" if value == "on" else f"--no-{name}"]


def simulate_point(simulate: Simulate, point: Point) -> PointResult:
    """Simulate a point. A user error becomes its result, since the other points are useful without it."""
    try:
        return PointResult(point.settings, simulate(point.arguments), None)
    except UserError as error:
        return PointResult(point.settings, None, str(error))


def _here(
    points: Sequence[Point], simulate: Simulate, arguments: argparse.Namespace
) -> Iterator[tuple[int, PointResult]]:
    workers = arguments.processes or os.cpu_count() or 1
    if workers < 1:
        raise UserError(f"--processes must be at least 1, not {workers}")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(points)), mp_context=context) as pool:
        futures = {pool.submit(simulate_point, simulate, point): index for index, point in enumerate(points)}
        for future in as_completed(futures):
            yield futures[future], future.result()


def _on_ray(
    points: Sequence[Point], simulate: Simulate, arguments: argparse.Namespace
) -> Iterator[tuple[int, PointResult]]:
    try:
        from engine.cluster.ray_tasks import on_ray
    except ModuleNotFoundError as error:
        raise UserError("Ray is not installed: pip install 'kvtheater[ray]'") from error
    address = None if arguments.ray == "local" else arguments.ray
    with user_errors(ConnectionError, of=f"no Ray cluster at {address}"):
        yield from on_ray(address, simulate_point, [(simulate, point) for point in points])


def _print(rows: Sequence[PointResult]) -> None:
    names = list(rows[0].settings)
    heads = [*names, "seconds", "TTFT p50", "p99", "TPOT p50", "p99", "hit %", "preempted", "busy %"]
    lines = [heads, *([*row.settings.values(), *_cells(row.figures)] for row in rows if row.figures)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        say("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    for row in rows:
        if row.refused:
            say(", ".join(f"{name} {value}" for name, value in row.settings.items()) + f": {row.refused}")


def _cells(figures: Figures) -> list[str]:
    def spread(name: str) -> list[str]:
        cuts = figures[name] or {}
        return [seconds_text(cuts[cut], " ") if cuts else "–" for cut in ("p50", "p99")]

    prompt_tokens, busy = figures["prompt_tokens"], figures["busy"]
    hit = f"{100 * figures['hit_tokens'] / prompt_tokens:.1f}" if prompt_tokens else "–"
    return [
        f"{figures['seconds']:.1f}",
        *spread("ttft"),
        *spread("tpot"),
        hit,
        str(figures["preemptions"]),
        "/".join(f"{100 * share:.0f}" for share in busy),
    ]
