"""What a trace file says about itself: the part of a recording's entry that is read from the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from engine.trace.codec import TraceFormatError
from engine.trace.events import Submit
from engine.trace.log import TraceReader

PREVIEW_CHARS = 120
PREVIEW_RECORDS = 16  # where the first prompt is looked for


class Summary(Struct, frozen=True, kw_only=True):
    """Read from the file; never edited."""

    generator: str
    created: str  # when the run began, ISO 8601
    model: str
    config: dict[str, Any]  # the header's engine settings
    num_records: int
    num_steps: int
    num_captures: int
    num_bytes: int
    duration: float  # seconds from the beginning to the last record
    preview: str  # the first prompt, or its beginning
    damage: str | None  # what is wrong with the file and where; None = it is sound


def summarize(path: Path) -> Summary:
    """Read the whole file once, every checksum included.

    Raises:
        TraceFormatError: not a trace, or its first records are none.
        OSError: it cannot be read.
    """
    with TraceReader(path) as reader:
        return summary_of(reader)


def summary_of(reader: TraceReader) -> Summary:
    """The same of a trace that is open, which may be growing."""
    header, count, num_bytes = reader.header, len(reader), reader.num_bytes
    damage = reader.damage
    last = None
    try:
        last = reader.record(count - 1) if count else None
    except TraceFormatError as error:  # its checksum holds: it was written so
        damage = damage or str(error)
    return Summary(
        generator=header.generator,
        created=header.created,
        model=header.model.name,
        config=dict(header.engine),
        num_records=count,
        num_steps=last.step if last else 0,
        num_captures=reader.num_captures,
        num_bytes=num_bytes,
        duration=last.timing.at if last else 0.0,
        preview=_first_prompt(reader),
        damage=damage,
    )


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
