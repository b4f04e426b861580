"""Files of a service's requests: one table of formats, chosen by what the file says.

    mooncake   JSON lines, timestamp in milliseconds, 512 tokens a hash; rows may have no hashes
    bailian    JSON lines with `chat_id` and `turn`, timestamp in seconds, 16 tokens a hash
    azure      CSV of Azure's LLM inference traces of 2023 and 2024, a date and time in each row
    burstgpt   CSV, timestamp in seconds; requests that failed have no response tokens

Other files of Mooncake's format have other blocks. A prompt of n tokens has ⌈n / t⌉ hashes of t tokens, so the rows of
a file bound t; a file whose rows allow several sizes, none of them its format's own, is refused. A request without
hashes shares nothing with any other.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from engine.bench.errors import BenchError


class Row(Struct, frozen=True):
    """Request of the file. `chat_id` and `turn` exist only in Bailian's."""

    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int] | None = None
    chat_id: int | str | None = None
    turn: int | None = None

    @property
    def is_bailian(self) -> bool:
        return self.chat_id is not None and self.turn is not None


class RequestFile(NamedTuple):
    """The requests of a file, by time. `hash_tokens`: None where no row has hashes."""

    rows: list[Row]
    format: str
    hash_tokens: int | None
    ticks: int  # of a timestamp, in a second
    num_failed: int = 0  # requests without an answer, which are left out

    @property
    def reading(self) -> str:
        """How the file is read, in words."""
        hashes = f"{self.hash_tokens} tokens a hash" if self.hash_tokens else "no hashes, so no shared prefixes"
        failed = f", {self.num_failed:,} requests without an answer left out" if self.num_failed else ""
        return f"{self.format}: {hashes}, timestamps in {'s' if self.ticks == 1 else 'ms'}{failed}"


class _Read(NamedTuple):
    """The rows of a file as a reader finds them, and how many had no answer."""

    rows: list[Row]
    num_failed: int = 0


def read_requests(path: Path, format: str | None = None) -> RequestFile:
    """Read a file's requests. `format`: one of `FORMATS`; None: as the file says.

    Raises:
        BenchError: the file cannot be read, a row is no request, or the rows contradict each other.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BenchError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BenchError(f"{path.name} is not UTF-8") from error
    name = format or _format_of(lines)
    ticks, hash_tokens, reader = FORMATS[name]
    rows, num_failed = reader(path.name, lines)
    if not rows:
        raise BenchError(f"{path.name} has no request")
    size = _hash_tokens(path, rows, hash_tokens) if hash_tokens and rows[0].hash_ids is not None else None
    return RequestFile(rows, name, size, ticks, num_failed)


def _format_of(lines: Sequence[str]) -> str:
    first = next((line for line in lines if line.strip()), "")
    for name, columns in COLUMNS.items():
        if all(column in first for column in columns):
            return name
    return "bailian" if '"chat_id"' in first and '"turn"' in first else "mooncake"


def _json_rows(name: str, lines: Sequence[str], is_bailian: bool) -> _Read:
    rows: list[Row] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line, type=Row)
        except msgspec.DecodeError as error:
            raise BenchError(f"{name}, line {number}: {error}") from error
        if row.is_bailian != is_bailian:
            raise BenchError(f"{name}, line {number}: chat_id and turn stand in every row of a file, or in none")
        _check(name, number, row, rows)
        if row.hash_ids is not None and min(row.hash_ids, default=-1) < 0:
            raise BenchError(f"{name}, line {number}: its hash_ids do not cover it, or one is below 0")
        if rows and (row.hash_ids is None) != (rows[0].hash_ids is None):
            raise BenchError(f"{name}, line {number}: hash_ids stand in every row of a file, or in none")
        rows.append(row)
    return _Read(rows)


def _csv_rows(format: str, name: str, lines: Sequence[str]) -> _Read:
    """Rows of a table with a head: when, tokens in, tokens out."""
    columns, rows, num_failed = COLUMNS[format], list[Row](), 0
    for number, found in enumerate(csv.DictReader(lines), 2):
        try:
            when, given, answered = (found[column] for column in columns)
            at = float(when) if format == "burstgpt" else datetime.fromisoformat(when).timestamp()
            row = Row(at, int(given), int(answered))
        except (KeyError, TypeError, ValueError) as error:
            raise BenchError(f"{name}, line {number}: it has not {', '.join(columns)}") from error
        if row.output_length == 0:
            num_failed += 1
            continue
        _check(name, number, row, rows)
        rows.append(row)
    return _Read(rows, num_failed)


def _check(name: str, number: int, row: Row, before: Sequence[Row]) -> None:
    if row.input_length < 1 or row.output_length < 1:
        raise BenchError(f"{name}, line {number}: a request has at least 1 token in and 1 out")
    if not (before[-1].timestamp if before else 0.0) <= row.timestamp < math.inf:
        raise BenchError(f"{name}, line {number}: {row.timestamp:g} is earlier than the line before")


COLUMNS = {  # of the head of a table: when, tokens in, tokens out
    "azure": ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    "burstgpt": ("Timestamp", "Request tokens", "Response tokens"),
}
# ticks of a timestamp in a second, tokens of a hash (0: it has none), reader of a file's lines
FORMATS: dict[str, tuple[int, int, Callable[[str, Sequence[str]], _Read]]] = {
    "mooncake": (1000, 512, lambda name, lines: _json_rows(name, lines, is_bailian=False)),
    "bailian": (1, 16, lambda name, lines: _json_rows(name, lines, is_bailian=True)),
    "azure": (1, 0, lambda name, lines: _csv_rows("azure", name, lines)),
    "burstgpt": (1, 0, lambda name, lines: _csv_rows("burstgpt", name, lines)),
}


def _hash_tokens(path: Path, rows: list[Row], usual: int) -> int:
    """Tokens of one hash: the format's own where the rows allow it, else what they determine."""
    low, high, low_line, high_line = 1, math.inf, 0, 0
    for number, row in enumerate(rows, 1):
        count = len(row.hash_ids or ())
        if (least := -(-row.input_length // count)) > low:
            low, low_line = least, number
        if count > 1 and (most := (row.input_length - 1) // (count - 1)) < high:
            high, high_line = most, number
    if low <= usual <= high:
        return usual
    powers = [power for power in (1 << exponent for exponent in range(24)) if low <= power <= high]
    if len(powers) == 1 and high < math.inf:
        return powers[0]
    if low == high:
        return low
    if high == math.inf:
        raise BenchError(f"{path.name}, line {low_line}: its hash_ids, {usual} tokens each, do not cover it")
    if low > high:
        raise BenchError(
            f"{path.name}: line {low_line} has at least {low} tokens a hash and line {high_line} at most {int(high)}; "
            "every hash of a file stands for the same number"
        )
    raise BenchError(
        f"{path.name}: its rows have from {low} to {int(high)} tokens a hash; a file has {usual} in this format, "
        "or rows that determine the number"
    )
