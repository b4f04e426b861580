"""The cause of each break in made-up sessions of which it is known."""

from itertools import pairwise
from typing import Any

import pytest

from engine.prompts.readers import PromptRequest
from engine.prompts.report import Player, Settings, Verdict
from engine.prompts.segments import segments_of
from tests.unit.prompts.sessions import SESSIONS, Session


def encode(text: str) -> list[int]:
    return list(text.encode())


def verdicts(bodies: list[dict[str, Any]]) -> list[Verdict]:
    player = Player(encode, Settings())
    return [
        player.play(PromptRequest(line, body["model"], segments_of(body), session=body.get("prompt_cache_key", "")))
        for line, body in enumerate(bodies, 1)
    ]


def turns_before(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The requests of the turns before this one: up to each message of the user's that an answer follows."""
    messages = body["messages"]
    ends = [i for i, (a, b) in enumerate(pairwise(messages), 1) if (a["role"], b["role"]) == ("user", "assistant")]
    return [{**body, "messages": messages[:end]} for end in ends]


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
@pytest.mark.parametrize("is_whole", [False, True], ids=["", "from the first turn on"])
def test_each_break_has_its_cause_and_place(session: Session, is_whole: bool) -> None:
    before = turns_before(session.bodies[0]) if is_whole else []
    *others, last = verdicts([*before, *session.bodies])
    assert not any(verdict.parted for verdict in others)
    found = (last.parted.cause, last.parted.path) if last.parted else ("", "")
    assert found == (session.cause, session.path)
    assert sum(span.num_tokens for span in last.spans) == last.num_tokens
    if session.cause not in ("other_model", "last_turn_marker", "history_summarised"):  # these may repeat nothing
        assert (last.num_again > 0) == bool(session.cause)
