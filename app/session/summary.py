"""Summary of a trace file: the fields of a recording's library entry that are read from the file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from engine.trace.codec import TraceFormatError
from engine.trace.log import TraceReader
from engine.trace.operations import Submit
from engine.trace.state import TraceStateError

PREVIEW_CHARS = 120
PREVIEW_RECORDS = 16  # records searched for the first prompt
SUMMARY_CHARS = 500  # limit of each text, since files may come from anywhere and all entries are sent at once
SETTING_CHARS = 64
MAX_SETTINGS = 64
LARGEST_INT = 2**53  # exact in JavaScript
VERIFIED_BYTES = 1 << 28  # larger files are listed without verification
MAX_BLOCKS = 1 << 16  # largest pool for which the last state is built to count requests

Short = Annotated[str, Meta(max_length=SUMMARY_CHARS)]
Setting = str | bool | int | float | None


class Summary(Struct, frozen=True, kw_only=True):
    """Summary read from the file; never edited. A stored summary that violates these bounds is read again."""

    generator: Short
    created: Short  # when the run began, ISO 8601
    model: Short
    config: Annotated[dict[str, Setting], Meta(max_length=MAX_SETTINGS)]  # engine settings that a list can show
    num_records: int
    num_steps: int
    num_captures: int
    num_bytes: int
    duration: float  # seconds from the beginning to the last record
    preview: Short  # the first prompt, possibly truncated
    num_requests: int | None = None  # None: not counted, see `_num_requests`
    damage: Short | None  # error in the file and its position; None: valid


def summarize(path: Path) -> Summary:
    """Return the summary of a file. All checksums are verified, except in files larger than `VERIFIED_BYTES`.

    Raises:
        TraceFormatError: the file is not a trace, or its first records are damaged.
        OSError: the file cannot be read.
    """
    with TraceReader(path, verify=path.stat().st_size <= VERIFIED_BYTES) as reader:
        return summary_of(reader)


def summary_of(reader: TraceReader) -> Summary:
    """Return the summary of an open trace, which may be growing."""
    header, count, num_bytes = reader.header, len(reader), reader.num_bytes
    damage = reader.damage
    last = None
    try:
        last = reader.record(count - 1) if count else None
    except TraceFormatError as error:  # the checksum is valid, so an invalid record was written
        damage = damage or str(error)
    duration = last.timing.at if last else 0.0
    return Summary(
        generator=_short(header.generator),
        created=_short(header.created),
        model=_short(header.model.name),
        config=_plain_settings(header.engine),
        num_records=count,
        num_steps=last.step if last else 0,
        num_captures=reader.num_captures,
        num_bytes=num_bytes,
        duration=duration,
        preview=_first_prompt(reader),
        num_requests=_num_requests(reader),
        damage=damage and _short(damage),
    )


def _num_requests(reader: TraceReader) -> int | None:
    """Return the number of requests in the log's last state, or None if it cannot be built or is too large."""
    if reader.header.observed is not None:  # a monitored server reports no requests
        return None
    try:
        if int(reader.header.engine.get("num_blocks") or 0) > MAX_BLOCKS or reader.num_bytes > VERIFIED_BYTES:
            return None
        state = reader.state_at(len(reader) - 1)
    except (TraceFormatError, TraceStateError, ValueError):
        return None
    if state.num_forgotten:  # finished sequences were dropped from the state
        return None
    return len({sequence.request_id for sequence in state.sequences.values()})


def _short(text: str) -> str:
    return text if len(text) <= SUMMARY_CHARS else text[: SUMMARY_CHARS - 1] + "…"


def _plain_settings(engine: dict[str, Setting]) -> dict[str, Setting]:
    """Return the header settings that a list can show: numbers and short strings, at most `MAX_SETTINGS`."""
    plain: dict[str, Setting] = {}
    for name, value in engine.items():
        is_short = not isinstance(value, str) or len(value) <= SETTING_CHARS
        is_exact = not isinstance(value, int) or abs(value) <= LARGEST_INT
        is_finite = not isinstance(value, float) or math.isfinite(value)
        if is_short and is_exact and is_finite and len(name) <= SETTING_CHARS:
            plain[name] = value
    return dict(list(plain.items())[:MAX_SETTINGS])


def _first_prompt(reader: TraceReader) -> str:
    for index in range(min(len(reader), PREVIEW_RECORDS)):
        try:
            ops = reader.record(index).ops
        except TraceFormatError:
            return ""
        for op in ops:
            if isinstance(op, Submit):
                text = b"".join(op.prompt_token_bytes[: 4 * PREVIEW_CHARS]).decode("utf-8", "replace").strip()
                return text if len(text) <= PREVIEW_CHARS else text[: PREVIEW_CHARS - 1] + "…"
    return ""
