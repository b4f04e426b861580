"""Printing of text from files. Control characters are escaped, since a terminal executes them."""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

from app.ground.plain import to_json
from app.ground.working import without_progress_line

if TYPE_CHECKING:
    from rich.progress import Progress

# JSON already escapes the control characters below 32
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


def escaped(text: str) -> str:
    """Return the text with unprintable characters, line ends included, replaced by escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, with an s in the plural: "2 steps"."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def say(*lines: str, to: TextIO | None = None, flush: bool = False) -> None:
    """Print lines. Escapes line ends within a line, and characters that the terminal's encoding lacks."""
    stream: TextIO = to or sys.stdout
    encoding = stream.encoding or "utf-8"
    with without_progress_line():
        for line in lines or ("",):
            encodable = escaped(line).encode(encoding, "backslashreplace").decode(encoding)
            stream.write(encodable + "\n")
        if flush:
            stream.flush()


def progress_bar(*columns: Any) -> Progress:
    """Return a progress bar on standard error, by default with rich's columns. It is erased when it ends."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes each log record to standard error, on a separate line."""

    def emit(self, record: logging.LogRecord) -> None:
        with without_progress_line():
            super().emit(record)


class EscapingFormatter(logging.Formatter):
    """Formatter that escapes control characters, which a file name in a record may have."""

    def format(self, record: logging.LogRecord) -> str:
        """Format each line of the message; a stack trace has several."""
        return "\n".join(map(escaped, super().format(record).split("\n")))


def say_json(value: Any) -> None:
    """Print a value as one line of JSON; unprintable characters are escaped as in JSON."""
    sys.stdout.write(_UNPRINTABLE.sub(_escaped, to_json(value).decode()) + "\n")


def _escaped(found: re.Match[str]) -> str:
    character = found.group()
    encoding = sys.stdout.encoding or "utf-8"
    if character.isprintable() and character.encode(encoding, "ignore"):
        return character
    return json.dumps(character)[1:-1]
