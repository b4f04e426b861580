"""Summary of a trace file: the part of a recording's entry that is read from the file."""

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
PREVIEW_RECORDS = 16  # searched for the first prompt
SUMMARY_CHARS = 500  # of each text, since the complete list is sent, with files of any origin
SETTING_CHARS = 64
MAX_SETTINGS = 64
LARGEST_INT = 2**53  # exact in JavaScript
VERIFIED_BYTES = 1 << 28  # larger files are listed without verification
MAX_BLOCKS = 1 << 16  # largest pool whose last state is read for a list

Short = Annotated[str, Meta(max_length=SUMMARY_CHARS)]
Setting = str | bool | int | float | None


class Summary(Struct, frozen=True, kw_only=True):
    """Summary read from the file; never edited. Its bounds apply to stored summaries of older versions too, which are
    read again.
    """

    generator: Short
    created: Short  # when the run began, ISO 8601
    model: Short
    config: Annotated[dict[str, Setting], Meta(max_length=MAX_SETTINGS)]  # the header's engine settings, if plain
    num_records: int
    num_steps: int
    num_captures: int
    num_bytes: int
    duration: float  # seconds from the beginning to the last record
    preview: Short  # the first prompt, or its beginning
    num_requests: int | None = None  # None: not counted, see `_num_requests`
    damage: Short | None  # error in the file, and its place; None: valid


def summarize(path: Path) -> Summary:
    """Read the whole file once, including every checksum; of a very large file only its frame heads.

    Raises:
        TraceFormatError: not a trace, or its first records are damaged.
        OSError: it cannot be read.
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
    except TraceFormatError as error:  # the checksum is valid, so it was written like this
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
    """Return the number of requests in the log, by its last state; None if that cannot be read, or is large."""
    if reader.header.observed is not None:  # a monitored server reports no requests
        return None
    try:
        if int(reader.header.engine.get("num_blocks") or 0) > MAX_BLOCKS or reader.num_bytes > VERIFIED_BYTES:
            return None
        state = reader.state_at(len(reader) - 1)
    except (TraceFormatError, TraceStateError, ValueError):
        return None
    if state.num_forgotten:  # the state lacks their requests
        return None
    return len({sequence.request_id for sequence in state.sequences.values()})


def _short(text: str) -> str:
    return text if len(text) <= SUMMARY_CHARS else text[: SUMMARY_CHARS - 1] + "…"


def _plain_settings(engine: dict[str, Setting]) -> dict[str, Setting]:
    """Return the header settings that a list can show: numbers and short words, at most as many as an engine has."""
    plain: dict[str, Setting] = {}
    for name, value in engine.items():
        short = not isinstance(value, str) or len(value) <= SETTING_CHARS
        whole = not isinstance(value, int) or abs(value) <= LARGEST_INT
        finite = not isinstance(value, float) or math.isfinite(value)
        if short and whole and finite and len(name) <= SETTING_CHARS:
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
