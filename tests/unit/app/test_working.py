"""Progress line of a terminal, which counts seconds."""

import logging
import os
import re
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.cli.terminal import LineHandler, say
from app.ground.working import working

CLEARED = rb"\r\x1b\[K"
COUNT = rb"(?:\r\x1b\[Kkvtheater: reading \(\d+ s\))+"


class Terminal:
    """Pseudo-terminal and its output, which is complete when the context ends."""

    output = b""

    def __init__(self, master: int) -> None:
        self.master = master


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, kind: str = "xterm") -> Iterator[Terminal]:
    """Redirect standard output and error to a pseudo-terminal."""
    master, end = os.openpty()
    found = Terminal(master)
    with open(end, "w", encoding="utf-8") as stream, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", stream)
        patched.setattr(sys, "stdout", stream)
        patched.setenv("TERM", kind)
        yield found
        working("")
        while not found.output.endswith(b"a line\r\n"):  # the last output of each test
            found.output += os.read(master, 1000)
    os.close(master)


@pytest.mark.parametrize("how", ["say", "log"])
def test_the_progress_line_counts_and_is_cleared(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    with terminal(monkeypatch) as found:
        working("reading")
        assert select.select([found.master], [], [], 20)[0], "nothing was counted"
        if how == "say":
            say("a line", flush=True)
        else:
            LineHandler().emit(logging.makeLogRecord({"msg": "a line"}))
    assert re.fullmatch(COUNT + CLEARED + rb"a line\r\n", found.output), found.output


def test_work_under_a_second_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as found:
        working("reading")
        working("")
        time.sleep(1.1)
        say("a line", flush=True)
    assert found.output == b"a line\r\n"


@pytest.mark.parametrize("kind", ["dumb", "pipe"])
def test_no_progress_without_a_capable_terminal(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    with terminal(monkeypatch, "dumb" if kind == "dumb" else "xterm") as found:
        if kind == "pipe":
            monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
        working("reading")
        time.sleep(1.1)
        say("a line", flush=True)
    assert found.output == b"a line\r\n"
