"""The cause of each break in made-up sessions of which it is known."""

from __future__ import annotations

import pytest

from engine.prompts.readers import PromptRequest
from engine.prompts.report import Player, Settings
from engine.prompts.segments import segments_of
from tests.unit.prompts.sessions import SESSIONS, Session


def encode(text: str) -> list[int]:
    return list(text.encode())


def verdicts(session: Session, settings: Settings | None = None):
    player = Player(encode, settings or Settings())
    return [
        player.play(PromptRequest(line, body["model"], segments_of(body), session=body.get("prompt_cache_key", "")))
        for line, body in enumerate(session.bodies, 1)
    ]


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_each_break_has_its_cause_and_place(session: Session) -> None:
    *others, last = verdicts(session)
    assert not any(verdict.parted for verdict in others)
    found = (last.parted.cause, last.parted.path) if last.parted else ("", "")
    assert found == (session.cause, session.path)
    assert sum(span.num_tokens for span in last.spans) == last.num_tokens
    if session.cause not in ("other_model", "last_turn_marker", "history_summarised"):  # these may repeat nothing
        assert (last.num_again > 0) == bool(session.cause)
