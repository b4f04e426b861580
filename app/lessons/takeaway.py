"""A lesson as one HTML file: its transcripts and runs in the page, for `file://` and without a network.

Here the answers are in the file; the page asks all the same before it shows, and says so.
"""

from __future__ import annotations

import msgspec

from app.lessons.transcript import Recorded, cards
from app.page.onefile import MAX_LOG_BYTES, TooLarge, page_with

LESSON = "embedded-lesson"  # the element of what static/js/state/embedded.js reads; runs: -<language>-<run> after it


def lesson_page(recorded: list[Recorded]) -> bytes:
    """The page with a lesson in one or more languages.

    Raises:
        TooLarge: its runs have more than MAX_LOG_BYTES together.
    """
    if (size := sum(len(run) for one in recorded for run in one.runs)) > MAX_LOG_BYTES:
        raise TooLarge(f"the lesson's runs have {size >> 20} MiB, and a page holds at most {MAX_LOG_BYTES >> 20}")
    transcripts = [one.transcript for one in recorded]
    (card,) = cards(transcripts)
    inside = {LESSON: msgspec.json.encode({"card": card, "transcripts": {one.language: one for one in transcripts}})}
    for one in recorded:
        inside |= {f"{LESSON}-{one.transcript.language}-{k}": run for k, run in enumerate(one.runs)}
    return page_with(next(iter(card.title.values())), inside)
