"""Causes of breaks in invented sessions, whose causes are known."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.unit.prompts.sessions import SESSIONS, Session, anthropic, chat, verdicts


def earlier_turns(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the requests of the earlier turns, which end with each user message before an answer."""
    messages = body["messages"]
    ends = [i for i, (a, b) in enumerate(pairwise(messages), 1) if (a["role"], b["role"]) == ("user", "assistant")]
    return [{**body, "messages": messages[:end]} for end in ends]


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
@pytest.mark.parametrize("is_whole", [False, True], ids=["", "from the first turn on"])
def test_each_divergence_has_its_cause_and_path(session: Session, is_whole: bool, tmp_path: Path) -> None:
    before = earlier_turns(session.bodies[0]) if is_whole else []
    *others, last = verdicts([*before, *session.bodies], tmp_path)
    assert not any(verdict.parted for verdict in others)
    found = (last.parted.cause, last.parted.path) if last.parted else ("", "")
    assert found == (session.cause, session.path)
    assert sum(span.num_tokens for span in last.spans) == last.num_tokens
    if session.cause not in ("other_model", "last_turn_marker", "history_summarised"):  # these may repeat nothing
        assert (last.num_again > 0) == bool(session.cause)


def proxied(body: dict[str, Any], geo: str) -> dict[str, Any]:
    """Return a line of the proxy's file for a request that a region answered."""
    return {"path": "/v1/messages", "time": 0, "request": body, "usage": {"input_tokens": 9, "inference_geo": geo}}


def logged(body: dict[str, Any], model_id: str) -> dict[str, Any]:
    """Return an entry of LiteLLM's log for a request that a deployment answered."""
    return {"call_type": "acompletion", "model_id": model_id, **body}


def tapped(body: dict[str, Any], region: str) -> dict[str, Any]:
    """Return an entry of claude-tap with a region in the response headers."""
    return {"request": {"body": body}, "response": {"headers": {"X-MS-Region": region}, "body": {}}}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (proxied(anthropic(2), "us"), proxied(anthropic(3), "eu")),
        (logged(chat(2), "us"), logged(chat(3), "eu")),
        (tapped(chat(2), "us"), tapped(chat(3), "eu")),
    ],
    ids=["region in the usage", "deployment", "region in a header"],
)
def test_an_answer_by_another_instance_is_the_cause(
    first: dict[str, Any], second: dict[str, Any], tmp_path: Path
) -> None:
    _, last = verdicts([first, second], tmp_path)
    assert last.parted is not None and last.hits["vllm"].num_tokens == 0 and last.num_again
    assert (last.parted.cause, last.parted.detail, last.parted.path) == ("other_instance", "us", "instance")


def test_an_instance_hits_only_the_turns_that_it_answered(tmp_path: Path) -> None:
    first, second, third = verdicts([logged(chat(n), "ab"[n % 2]) for n in (3, 4, 5)], tmp_path)
    assert second.parted and third.parted and third.closest == second.request
    assert third.parted.cause == "other_instance" and third.parted.token == first.num_tokens
    assert len({verdict.session for verdict in (first, second, third)}) == 1


def test_an_unknown_instance_counts_as_the_previous_one(tmp_path: Path) -> None:
    known = [proxied(anthropic(2), "us"), proxied(anthropic(3), "not_available"), proxied(anthropic(4), "global")]
    assert not any(verdict.parted for verdict in verdicts(known, tmp_path))
    _, last = verdicts([proxied(anthropic(2), "global"), proxied(anthropic(3), "us")], tmp_path)
    assert last.parted is not None and last.parted.cause == "not_known"


def test_verdicts_do_not_contain_salts(tmp_path: Path) -> None:
    _, last = verdicts([chat(2) | {"cache_salt": "pepper"}, chat(3) | {"cache_salt": "saffron"}], tmp_path)
    assert "pepper" not in repr(last) and "saffron" not in repr(last)
