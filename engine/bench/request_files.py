"""Request traces of services in several file formats, recognized by content.

    mooncake   JSON lines or a list, timestamp in milliseconds, 512 tokens per hash; hashes are optional
    bailian    JSON lines or a list with `chat_id` and `turn`, timestamp in seconds, 16 tokens per hash
    sharegpt   JSON list or JSON lines of conversations, with texts and without times; each human turn with an answer is
               a request
    azure      CSV of Azure's LLM inference traces of 2023 and 2024, a date and time in each row
    burstgpt   CSV, timestamp in seconds; failed requests have no response tokens

Files of Mooncake's format may have other block sizes. A prompt of n tokens has ⌈n / t⌉ hashes of t tokens, which bounds
t; a file that allows several sizes, but not the format's default, is rejected. A request without hashes shares no
prefix.

Sessions are closed loops: a request is sent when the previous answer has ended, and no earlier than its timestamp. A
session is a ShareGPT conversation, or is given by Bailian's `parent_chat_id` or Mooncake's `session_id`. `delay` of a
Mooncake row is the time between the previous answer and the request. As in AIPerf, a row of a Mooncake session counts
only the new tokens, unless its hashes begin with those of the previous row.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from engine.bench.errors import BenchError

Encode: TypeAlias = Callable[[str], Sequence[int]]
HUMAN, ANSWERS, OTHERS = {"human", "user"}, {"gpt", "assistant", "chatgpt", "bing", "bard"}, {"system", "tool"}


class Row(Struct, frozen=True):
    """Request of a file. Only Bailian's format has `chat_id`, `parent_chat_id` and `turn`."""

    input_length: int
    output_length: int
    timestamp: float = math.nan  # nan: none
    hash_ids: list[int] | None = None
    chat_id: int | str | None = None
    parent_chat_id: int | str | None = None
    turn: int | None = None
    session_id: int | str | None = None
    delay: float | None = None  # since the end of the previous answer; such a row needs no timestamp

    @property
    def is_bailian(self) -> bool:
        return self.chat_id is not None and self.turn is not None


class RequestFile(NamedTuple):
    """Requests of a file, sorted by time. `hash_tokens`: None if no row has hashes.

    `after`: the previous turn of each row. `new_tokens`: tokens that a row adds to the previous turn and its answer;
    empty if the file has no texts.
    """

    rows: list[Row]
    format: str
    hash_tokens: int | None
    ticks: int  # timestamp units per second
    num_failed: int = 0  # requests without an answer, left out
    after: Sequence[int | None] = ()
    new_tokens: Sequence[Sequence[int]] = ()

    @property
    def reading(self) -> str:
        """Return a summary of how the file was read."""
        hashes = f"{self.hash_tokens} tokens per hash" if self.hash_tokens else "no hashes, so no shared prefixes"
        failed = f", {self.num_failed:,} requests without an answer left out" if self.num_failed else ""
        times = f"timestamps in {'s' if self.ticks == 1 else 'ms'}"
        if self.new_tokens:
            hashes, times = "the texts' tokens", "no timestamps, so every conversation begins at once"
        later = sum(after is not None for after in self.after)
        closed = f", {later:,} sent after the previous answer" if later else ""
        has_sessions = later and self.hash_tokens is None and not self.new_tokens
        new = ", with lengths of new tokens only" if has_sessions else ""
        return f"{self.format}: {hashes}, {times}{failed}{closed}{new}"

    def holds(self, number: int) -> bool:
        """Return whether a row's prompt contains the previous turn, by its hashes and its length."""
        row, before = self.rows[number], self.after[number]
        if before is None or self.hash_tokens is None or row.hash_ids is None:
            return False
        earlier = self.rows[before]
        count = earlier.input_length // self.hash_tokens
        return (
            count > 0
            and row.input_length > earlier.input_length + earlier.output_length
            and row.hash_ids[:count] == (earlier.hash_ids or [])[:count]
        )


class _ParsedFile(NamedTuple):
    """Rows that a reader found; the fields are those of `RequestFile`."""

    rows: list[Row]
    num_failed: int = 0
    after: Sequence[int | None] = ()
    new_tokens: Sequence[Sequence[int]] = ()


def read_requests(path: Path, format: str | None = None, encode: Encode | None = None) -> RequestFile:
    """Read a file's requests. `format`: one of `FORMATS`; None: recognize it. `encode`: tokenizer of texts.

    Raises:
        BenchError: the file cannot be read, a row is not a request, or rows contradict each other.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BenchError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BenchError(f"{path.name} is not UTF-8") from error
    name = format or _format_of(text)
    ticks, hash_tokens, reader = FORMATS[name]
    parsed = reader(path.name, text, encode)
    rows = parsed.rows
    if not rows:
        raise BenchError(f"{path.name} has no request")
    size = _hash_tokens(path, rows, hash_tokens) if hash_tokens and rows[0].hash_ids is not None else None
    return RequestFile(rows, name, size, ticks, parsed.num_failed, parsed.after, parsed.new_tokens)


def _format_of(text: str) -> str:
    text = text.lstrip()
    is_list = text.startswith("[")
    first = text[: text.find("}")] if is_list else text.split("\n", 1)[0]
    if '"conversations"' in first or (is_list and '"input_length"' not in first):
        return "sharegpt"
    for name, columns in COLUMNS.items():
        if all(column in first for column in columns):
            return name
    return "bailian" if '"chat_id"' in first and '"turn"' in first else "mooncake"


def _json_rows(name: str, text: str, is_bailian: bool) -> _ParsedFile:
    rows: list[Row] = []
    after: list[int | None] = []
    last: dict[Hashable, int] = {}  # row of each chat or session
    for where, row in _rows_in(name, text):
        if row.is_bailian != is_bailian:
            raise BenchError(f"{where}: chat_id and turn must be in every row of a file, or in none")
        session = row.chat_id if is_bailian else row.session_id
        before = last.get(row.parent_chat_id) if is_bailian and row.parent_chat_id is not None else last.get(session)
        if math.isnan(row.timestamp) and row.delay is not None and before is not None:
            row = replace(row, timestamp=rows[-1].timestamp)
        _check(where, row, rows)
        if row.hash_ids is not None and min(row.hash_ids, default=-1) < 0:
            raise BenchError(f"{where}: hash_ids do not cover the prompt, or one is below 0")
        if rows and (row.hash_ids is None) != (rows[0].hash_ids is None):
            raise BenchError(f"{where}: hash_ids must be in every row of a file, or in none")
        if session is not None:
            last[session] = len(rows)
        rows.append(row)
        after.append(before)
    return _ParsedFile(rows, after=after)


def _rows_in(name: str, text: str) -> Iterator[tuple[str, Row]]:
    """Yield the rows of JSON lines or of a list, each with its location."""
    if text.lstrip().startswith("["):
        try:
            rows = msgspec.json.decode(text, type=list[Row])
        except msgspec.DecodeError as error:
            raise BenchError(f"{name}: {error}") from error
        yield from ((f"{name}, row {number}", row) for number, row in enumerate(rows, 1))
        return
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            row = msgspec.json.decode(line, type=Row)
        except msgspec.DecodeError as error:
            raise BenchError(f"{where}: {error}") from error
        yield where, row


def _csv_rows(format: str, name: str, text: str) -> _ParsedFile:
    """Read a CSV table with a header: time, input tokens, output tokens."""
    columns, rows, num_failed = COLUMNS[format], list[Row](), 0
    for number, found in enumerate(csv.DictReader(text.splitlines()), 2):
        try:
            when, given, answered = (found[column] for column in columns)
            at = float(when) if format == "burstgpt" else datetime.fromisoformat(when).timestamp()
            row = Row(int(given), int(answered), at)
        except (KeyError, TypeError, ValueError) as error:
            raise BenchError(f"{name}, line {number}: it lacks {', '.join(columns)}") from error
        if row.output_length == 0:
            num_failed += 1
            continue
        _check(f"{name}, line {number}", row, rows)
        rows.append(row)
    return _ParsedFile(rows, num_failed)


class _Turn(Struct, frozen=True):
    speaker: str = msgspec.field(name="from")
    value: str


class _Conversation(Struct, frozen=True):
    conversations: list[_Turn]


def _whole_conversations(name: str, text: str) -> list[_Conversation]:
    try:
        return msgspec.json.decode(text, type=list[_Conversation])
    except msgspec.DecodeError as error:
        raise BenchError(f"{name}: {error}; {SHAREGPT}") from error


def _conversation_lines(name: str, text: str) -> list[_Conversation]:
    found = list[_Conversation]()
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines: texts may contain other line separators
        try:
            if line.strip():
                found.append(msgspec.json.decode(line, type=_Conversation))
        except msgspec.DecodeError as error:
            raise BenchError(f"{name}, line {number}: {error}; {SHAREGPT}") from error
    return found


def _conversations(name: str, text: str, encode: Encode | None) -> _ParsedFile:
    """Read a list of conversations: a row per human turn with an answer, including all earlier turns."""
    found = _whole_conversations(name, text) if text.lstrip().startswith("[") else _conversation_lines(name, text)
    if encode is None:
        raise BenchError(f"{name} has texts, which need a tokenizer")
    rows, num_failed, after, new_tokens = list[Row](), 0, list[int | None](), list[Sequence[int]]()
    for number, conversation in enumerate(found, 1):
        new, before, follows_human = list[int](), None, False
        for turn in conversation.conversations:
            if turn.speaker not in HUMAN | ANSWERS | OTHERS:
                known = ", ".join(sorted(HUMAN | ANSWERS | OTHERS))
                raise BenchError(f"{name}, conversation {number}: from is one of {known}, not {turn.speaker!r}")
            tokens = encode(turn.value)
            if turn.speaker in ANSWERS and follows_human and new and tokens:
                rows.append(Row(len(new), len(tokens), 0.0))
                after.append(before)
                new_tokens.append(new)
                before, new = len(rows) - 1, []
            else:
                num_failed += follows_human and turn.speaker not in OTHERS
                new += tokens
            follows_human = turn.speaker in HUMAN or (follows_human and turn.speaker in OTHERS)
        num_failed += follows_human
    return _ParsedFile(rows, num_failed, after, new_tokens)


def _check(where: str, row: Row, before: Sequence[Row]) -> None:
    if math.isnan(row.timestamp):
        raise BenchError(f"{where}: it has no timestamp, and no delay after a row of its session")
    if row.delay is not None and not 0 <= row.delay < math.inf:
        raise BenchError(f"{where}: a delay must be 0 or more, not {row.delay:g}")
    if row.input_length < 1 or row.output_length < 1:
        raise BenchError(f"{where}: a request needs at least 1 input token and 1 output token")
    if not (before[-1].timestamp if before else 0.0) <= row.timestamp < math.inf:
        raise BenchError(f"{where}: {row.timestamp:g} is earlier than the line before")


SHAREGPT = "ShareGPT's JSON is a list of objects, or one per line, whose `conversations` have `from` and `value`"
COLUMNS = {  # header names: time, input tokens, output tokens
    "azure": ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    "burstgpt": ("Timestamp", "Request tokens", "Response tokens"),
}
# timestamp units per second, tokens per hash (0: no hashes), reader of a file's text
FORMATS: dict[str, tuple[int, int, Callable[[str, str, Encode | None], _ParsedFile]]] = {
    "mooncake": (1000, 512, lambda name, text, encode: _json_rows(name, text, is_bailian=False)),
    "bailian": (1, 16, lambda name, text, encode: _json_rows(name, text, is_bailian=True)),
    "sharegpt": (1, 0, _conversations),
    "azure": (1, 0, lambda name, text, encode: _csv_rows("azure", name, text)),
    "burstgpt": (1, 0, lambda name, text, encode: _csv_rows("burstgpt", name, text)),
}


def _hash_tokens(path: Path, rows: list[Row], default: int) -> int:
    """Return the tokens per hash: the format's default if the rows allow it, else the size that they determine."""
    low, high, low_line, high_line = 1, math.inf, 0, 0
    for number, row in enumerate(rows, 1):
        count = len(row.hash_ids or ())
        if (least := -(-row.input_length // count)) > low:
            low, low_line = least, number
        if count > 1 and (most := (row.input_length - 1) // (count - 1)) < high:
            high, high_line = most, number
    if low <= default <= high:
        return default
    powers = [power for power in (1 << exponent for exponent in range(24)) if low <= power <= high]
    if len(powers) == 1 and high < math.inf:
        return powers[0]
    if low == high:
        return low
    if high == math.inf:
        raise BenchError(f"{path.name}, line {low_line}: hash_ids of {default} tokens do not cover the prompt")
    if low > high:
        raise BenchError(
            f"{path.name}: line {low_line} has at least {low} tokens per hash and line {high_line} at most "
            f"{int(high)}; every hash of a file must have the same number"
        )
    raise BenchError(
        f"{path.name}: its rows have {low} to {int(high)} tokens per hash; this format has {default}, "
        "or rows that determine the number"
    )
