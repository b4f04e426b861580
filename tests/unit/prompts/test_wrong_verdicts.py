"""Sessions that are easily misjudged: two causes at once, a cause that hides another, and no break.

The verdict is "not known" if no rule decides.
"""

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.unit.prompts.sessions import Session, anthropic, changed, chat, text, tool, verdicts

DATED = "You help. Now it is {}. " + text(2)
LONG = chat(6)
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aaaa"}}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aaaa"}}
OTHER_PDF = changed(PDF, "source", "data", to="bbbb")


def edit(body: dict[str, Any], at: int, *messages: dict[str, Any], drop: int = 0) -> dict[str, Any]:
    """Return a copy in which messages are inserted at an index and replace `drop` others."""
    found = [*body["messages"][:at], *messages, *body["messages"][at + drop :]]
    return copy.deepcopy(body | {"messages": found})


def turn(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def tools(body: dict[str, Any], *names: str, **described: str) -> dict[str, Any]:
    return body | {"tools": [tool(name, described.get(name, "")) for name in names]}


def with_results(body: dict[str, Any], *order: int) -> dict[str, Any]:
    """Return a body that ends with two calls and their results."""
    calls = [{"type": "tool_use", "id": f"x{n}", "name": "read", "input": {"path": f"x{n}"}} for n in (0, 1)]
    results = [{"type": "tool_result", "tool_use_id": f"x{n}", "content": text(60 + n)} for n in order]
    return edit(body, len(body["messages"]), turn("assistant", calls), turn("user", results))


def block(body: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    return changed(body, "messages", 0, "content", to=[one, {"type": "text", "text": text(11)}])


REVIEW = "Review pull request {}. Look at its style, its tests and its documentation, and be kind. " + text(5)
A_REVIEW = [turn("user", REVIEW.format("#12")), turn("assistant", text(6)), turn("user", "And now?")]
SUMMARY = turn("user", "Summary of the conversation so far: " + text(90, 20))
REMINDER = turn("user", "<reminder>The user opened another file.</reminder>")
OTHER_AGENT = chat(1, text(44)) | {"messages": [turn("system", text(44)), turn("user", text(45))]}

# sessions with the right cause; "" means that there is no break
SESSIONS: list[tuple[Session, tuple[str, ...]]] = [
    # two causes at once, of which the first position counts
    (Session("a tool is added at the end, an earlier one re-described", [
        tools(chat(2), "read", "write"), tools(chat(3), "read", "write", "search", read="Reads."),
    ], "tool_changed", "tools[0].function.description"), ()),
    (Session("tools in another order, a later one is new", [
        tools(chat(2), "read", "write"), tools(chat(3), "write", "read", "search"),
    ], "tools_reordered", "tools[0].function.name"), ()),
    (Session("tools in another order, one of them re-described", [
        tools(chat(2), "read", "write"), tools(chat(3), "write", "read", read="Reads."),
    ], "tools_reordered", "tools[0].function.name"), ()),
    (Session("a tool is added and the clock goes on", [
        tools(chat(2, DATED.format("2026-11-27 13:05")), "read"),
        tools(chat(3, DATED.format("2026-11-27 13:06")), "read", "write"),
    ], "tools_added", "tools[1]"), ()),
    (Session("a clock and a new sentence", [
        chat(2, DATED.format("2026-11-27 13:05")), chat(3, DATED.format("2026-11-27 13:06") + " Be brief."),
    ], "system_changed", "messages[0].content"), ()),
    (Session("an edited message hides a summary behind it", [
        LONG, edit(changed(chat(7), "messages", 2, "content", to="Other. " + text(33)), 5, SUMMARY, drop=6),
    ], "message_edited", "messages[2].content"), ()),
    (Session("one of two equal tools is gone", [
        tools(chat(2), "read", "read", "write"), tools(chat(3), "read", "write"),
    ], "tools_removed", "tools[1].function.name"), ()),
    # a cause that looks like another
    (Session("a release number is no date", [
        chat(2, DATED.format("release 2.1.33")), chat(3, DATED.format("release 2.1.34")),
    ], "volatile_text", "messages[0].content"), ("number",)),
    (Session("a line and column is no time", [
        chat(2, DATED.format("at main.py:12:34")), chat(3, DATED.format("at main.py:12:35")),
    ], "volatile_text", "messages[0].content"), ("number",)),
    (Session("a number in an earlier answer does not change by itself", [
        edit(LONG, 4, turn("assistant", "It has 3 parts. " + text(32)), drop=1),
        edit(chat(7), 4, turn("assistant", "It has 4 parts. " + text(32)), drop=1),
    ], "message_edited", "messages[4].content"), ()),
    (Session("a path in an earlier question does not change by itself", [
        edit(LONG, 3, turn("user", "Read /src/one.py. " + text(12)), drop=1),
        edit(chat(7), 3, turn("user", "Read /src/two.py. " + text(12)), drop=1),
    ], "message_edited", "messages[3].content"), ()),
    (Session("a shorter answer that says something else", [
        LONG, changed(chat(7), "messages", 4, "content", to="Nothing like it was said here, ever, by anyone."),
    ], "message_edited", "messages[4].content"), ()),
    (Session("a result that is emptied", [
        anthropic(5), changed(anthropic(6), "messages", 2, "content", 0, "content", to=""),
    ], "message_trimmed", "messages[2].content[0]"), ()),
    (Session("the last message is emptied", [chat(2), changed(chat(3), "messages", 3, "content", to=" ")],
     "not_known", "messages[3].content"), ()),
    (Session("another document", [block(anthropic(2), PDF), block(anthropic(3), OTHER_PDF)],
     "message_edited", "messages[0].content[0]"), ()),
    (Session("a document in place of an image", [block(anthropic(2), IMAGE), block(anthropic(3), PDF)],
     "message_edited", "messages[0].content[0]"), ()),
    (Session("results in another order", [
        with_results(anthropic(2), 0, 1), edit(with_results(anthropic(2), 1, 0), 99, turn("assistant", text(66))),
    ], "not_known", "messages[6].content[0]"), ()),
    (Session("a reminder is put before the last question", [chat(1), edit(chat(2), 1, REMINDER)],
     "messages_inserted", "messages[1].content"), ()),
    (Session("a reminder is put into the history", [LONG, edit(chat(7), 5, REMINDER)],
     "messages_inserted", "messages[5].content"), ()),
    (Session("a system prompt in another role", [chat(2), changed(chat(3), "messages", 0, "role", to="developer")],
     "not_known", "messages[0].content"), ()),
    (Session("another conversation under the same key, which is no summary", [
        LONG | {"prompt_cache_key": "k"},
        {"model": "made-up", "prompt_cache_key": "k", "messages": [
            LONG["messages"][0], turn("user", text(71)), turn("assistant", text(72)), turn("user", text(73)),
        ]},
    ], "not_known", "messages[1].content"), ()),
    # no break
    (Session("the same task for another number, after a long conversation", [
        {"model": "m", "messages": A_REVIEW}, {"model": "m", "messages": [turn("user", REVIEW.format("#13"))]},
    ], ""), ()),
    (Session("a new conversation under the same key", [
        LONG | {"prompt_cache_key": "k"}, edit(chat(1), 1, turn("user", text(71)), drop=1) | {"prompt_cache_key": "k"},
    ], ""), ()),
    (Session("another agent", [LONG, OTHER_AGENT], ""), ()),
    (Session("another agent with other tools", [tools(LONG, "read", "write"), tools(OTHER_AGENT, "search")], ""), ()),
    (Session("another agent with one of the tools", [
        tools(LONG, "read", "write"), tools(OTHER_AGENT, "read"),
    ], ""), ()),
    (Session("another agent on another model that begins with the same words", [
        LONG, edit(OTHER_AGENT, 0, turn("system", text(1)[:40] + text(44)), drop=1) | {"model": "small"},
    ], ""), ()),
    (Session("a question is asked again in other words", [
        LONG, edit(chat(3), 5, turn("user", "Question 3, in other words: " + text(13)), drop=1),
    ], ""), ()),
    (Session("the same request again", [LONG, LONG], ""), ()),
    (Session("texts in blocks instead of strings", [
        chat(2), changed(chat(3), "messages", 1, "content", to=[{"type": "text", "text": f"Question 1: {text(11)}"}]),
    ], ""), ()),
    (Session("a breakpoint that moves", [
        anthropic(2), changed(anthropic(3), "system", 0, "cache_control", to={"type": "ephemeral"}),
    ], ""), ()),
]  # fmt: skip


@pytest.mark.parametrize(("session", "detail"), SESSIONS, ids=[session.name for session, _ in SESSIONS])
def test_verdicts_of_ambiguous_sessions_are_right(session: Session, detail: tuple[str, ...], tmp_path: Path) -> None:
    last = verdicts(session.bodies, tmp_path)[-1]
    found = (last.parted.cause, last.parted.path) if last.parted else ("", "")
    assert found == (session.cause, session.path)
    if detail and last.parted:
        assert last.parted.detail == detail[0]
