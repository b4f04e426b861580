"""Progress of a benchmark on standard error, and its interruption without loss of measurements."""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from app.cli.terminal import progress_bar, say

if TYPE_CHECKING:
    from engine.bench.runner import Progress


class BenchProgress:
    """Progress of a benchmark: a bar with the remaining time on a terminal, otherwise a line per round.

    Ctrl-C and SIGTERM stop the benchmark between two steps.
    """

    def __init__(self) -> None:
        self._bar: Any = None
        self._stop = False
        self._last: tuple[str, int] = ("", -1)
        self._handlers: dict[int, Any] = {}
        if sys.stderr.isatty():
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[left]}"),
            )
            self._bar = progress_bar(*columns)
            self._task = self._bar.add_task("", total=None, left="")

    def __enter__(self) -> BenchProgress:
        if threading.current_thread() is threading.main_thread():
            self._handlers = {
                number: signal.signal(number, self._interrupt) for number in (signal.SIGINT, signal.SIGTERM)
            }
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if self._bar:
            self._bar.stop()

    def interrupted(self) -> bool:
        """Return whether Ctrl-C or SIGTERM was received."""
        return self._stop

    def _interrupt(self, *_: object) -> None:
        if self._stop:  # the second signal stops immediately
            raise KeyboardInterrupt
        self._stop = True

    def show(self, progress: Progress) -> None:
        left = "" if progress.seconds_left is None else f"{_duration(progress.seconds_left)} left"
        if self._bar:
            at = "" if progress.at is None else f", {progress.variant} at {progress.at}"
            text = f"{progress.scenario}: {_phase(progress)}{at}"
            self._bar.update(self._task, description=text, completed=progress.done, total=progress.total, left=left)
        elif (progress.phase, progress.round) != self._last:
            self._last = (progress.phase, progress.round)
            say(f"{progress.scenario}: {_phase(progress)}" + (f", {left}" if left else ""), to=sys.stderr)


def _phase(progress: Progress) -> str:
    if progress.phase == "round":
        return f"round {progress.round}/{progress.rounds}"
    return "waiting for a quiet machine" if progress.phase == "waiting" else "warming up"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} min"
