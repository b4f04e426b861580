"""Printing text from files: control characters are escaped, since a terminal executes them."""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

from app.ground.plain import to_json
from app.ground.working import alone_on_the_line

if TYPE_CHECKING:
    from rich.progress import Progress

# JSON escapes the control characters below 32 itself
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


def shown(text: str) -> str:
    """Return the text with unprintable characters, line ends included, written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, whose plural has an s: "2 steps"."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def say(*lines: str, to: TextIO | None = None, flush: bool = False) -> None:
    """Print lines; a line end within one is escaped, and so are characters that the terminal lacks."""
    stream: TextIO = to or sys.stdout
    encoding = stream.encoding or "utf-8"
    with alone_on_the_line():
        for line in lines or ("",):
            known = shown(line).encode(encoding, "backslashreplace").decode(encoding)
            stream.write(known + "\n")
        if flush:
            stream.flush()


def progress_bar(*columns: Any) -> Progress:
    """Return a bar on standard error with these columns, or rich's usual ones; it disappears at its end."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes log records to standard error, each on a line of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        with alone_on_the_line():
            super().emit(record)


class ShownFormatter(logging.Formatter):
    """Formatter of log records, which may name files, with control characters escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Format each line of the message; a stack trace has several."""
        return "\n".join(map(shown, super().format(record).split("\n")))


def say_json(value: Any) -> None:
    """Print a value as one line of JSON; unprintable characters are escaped as in JSON."""
    sys.stdout.write(_UNPRINTABLE.sub(_escaped, to_json(value).decode()) + "\n")


def _escaped(found: re.Match[str]) -> str:
    character = found.group()
    encoding = sys.stdout.encoding or "utf-8"
    if character.isprintable() and character.encode(encoding, "ignore"):
        return character
    return json.dumps(character)[1:-1]
