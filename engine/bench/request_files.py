"""Files of requests, a JSON object a line, in two formats with the same field names.

    Mooncake   timestamp in milliseconds, 512 tokens a hash
    Bailian    timestamp in seconds, 16 tokens a hash; each row also has `chat_id` and `turn`

Other files of Mooncake's format have other blocks. A prompt of n tokens has ⌈n / t⌉ hashes of t tokens, so the rows of
a file bound t; a file whose rows allow several sizes, none of them its format's own, is refused.
"""

from __future__ import annotations

import math
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
    hash_ids: list[int]
    chat_id: int | str | None = None
    turn: int | None = None

    @property
    def is_bailian(self) -> bool:
        return self.chat_id is not None and self.turn is not None


class RequestFile(NamedTuple):
    """The requests of a file, by time."""

    rows: list[Row]
    hash_tokens: int
    ticks: int  # of a timestamp, in a second

    @property
    def reading(self) -> str:
        """How the file is read, in words."""
        return f"{self.hash_tokens} tokens a hash, timestamps in {'s' if self.ticks == 1 else 'ms'}"


def read_requests(path: Path) -> RequestFile:
    """Raises:
    BenchError: the file cannot be read, a row is no request, or the rows contradict each other.
    """
    rows = _rows(path)
    is_bailian = bool(rows) and rows[0].is_bailian
    for number, row in enumerate(rows, 1):
        if row.is_bailian != is_bailian:
            raise BenchError(f"{path.name}, line {number}: chat_id and turn stand in every row of a file, or in none")
    usual, ticks = (16, 1) if is_bailian else (512, 1000)
    return RequestFile(rows, _hash_tokens(path, rows, usual), ticks)


def _hash_tokens(path: Path, rows: list[Row], usual: int) -> int:
    """Tokens of one hash: the format's own where the rows allow it, else what they determine."""
    low, high, low_line, high_line = 1, math.inf, 0, 0
    for number, row in enumerate(rows, 1):
        count = len(row.hash_ids)
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


def _rows(path: Path) -> list[Row]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise BenchError(f"cannot read {path}: {error.strerror or error}") from error
    rows: list[Row] = []
    for number, line in enumerate(lines, 1):
        try:
            row = msgspec.json.decode(line, type=Row)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BenchError(f"{path.name}, line {number}: {error}") from error
        if row.input_length < 1 or row.output_length < 1:
            raise BenchError(f"{path.name}, line {number}: a request has at least 1 token in and 1 out")
        if not (rows[-1].timestamp if rows else 0.0) <= row.timestamp < math.inf:
            raise BenchError(f"{path.name}, line {number}: {row.timestamp:g} is earlier than the line before")
        if min(row.hash_ids, default=-1) < 0:
            raise BenchError(f"{path.name}, line {number}: its hash_ids do not cover it, or one is below 0")
        rows.append(row)
    return rows
