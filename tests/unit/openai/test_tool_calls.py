"""Tool calls in a text: told as such, whole and in a stream, however it is cut."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import msgspec
import pytest

from app.openai.call import Call, Choice
from app.openai.request import Asked, Prompt
from app.openai.response import answer, chunks
from app.openai.tool_calls import held_from, split
from engine.config import SamplingParams
from engine.trace.records import Output

CALL = '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>'
XML = "<tool_call>\n<function=read>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>"
READ = {"name": "read", "arguments": '{"path":"a.txt"}'}


@pytest.mark.parametrize(
    ("text", "content", "functions"),
    [
        ("Just text, 1 < 2.", "Just text, 1 < 2.", []),
        (CALL, "", [READ]),
        (f"I look.\n{CALL}\n{XML}", "I look.", [READ, READ]),
        (CALL.removesuffix("</tool_call>"), "", [READ]),  # some end at once
        ("<tool_call>{</tool_call>", "<tool_call>{</tool_call>", []),
        (f"<tool_call>{'[' * 9999}", f"<tool_call>{'[' * 9999}", []),
        (f"{CALL}<tool_call>3</tool_call>", f"{CALL}<tool_call>3</tool_call>", []),
        (CALL.replace('{"path": "a.txt"}', "3"), CALL.replace('{"path": "a.txt"}', "3"), []),
        ('<tool_call>{"name": "f", "arguments": "{}"}</tool_call>', "", [{"name": "f", "arguments": "{}"}]),
    ],
)
def test_a_text_is_split(text: str, content: str, functions: list[dict[str, str]]) -> None:
    said, calls = split(text)
    assert (said, [call["function"] for call in calls]) == (content, functions)
    assert len({call["id"] for call in calls}) == len(calls)


def test_only_what_may_become_a_call_is_held() -> None:
    assert held_from("a < b") == len("a < b")
    assert held_from("a <tool") == held_from("a <tool_call>{") == held_from("a <") == held_from("a \n") == 1


def output(text: str) -> Output:
    return Output(seq_id=0, token_id=0, token_bytes=text.encode(), text=text, logprob=-1.0, top=[])


def asked_for(logprobs: int | None, may_call_tools: bool = True) -> tuple[Call, Choice]:
    asked = Asked(
        kind="chat",
        prompts=[Prompt(token_ids=[1])],
        sampling=SamplingParams(),
        logprobs=logprobs,
        may_call_tools=may_call_tools,
    )
    call = Call(asked, "a", "m", "t", time.monotonic())
    return call, call.parts[0].add_choice(0)


@pytest.mark.parametrize("logprobs", [None, 0])
@pytest.mark.parametrize(
    "text", ["Just < text.", f"I look. \n{CALL}", "1 <\n\n", XML, "<tool_call>{", "a <tool", f"é{CALL} and more"]
)
def test_a_stream_tells_what_the_whole_answer_does(text: str, logprobs: int | None) -> None:
    call, choice = asked_for(logprobs)
    choice.outputs, choice.finish_reason = [output(text)], "stop"
    (whole,) = answer(call, lambda _: b"")["choices"]
    for seed in range(20):
        draw, at, told = random.Random(seed), 0, list[dict[str, Any]]()
        call, choice = asked_for(logprobs)
        while at < len(text) or choice.finish_reason is None:
            end = min(len(text), at + draw.randrange(4))
            choice.outputs.append(output(text[at:end]))
            at, choice.finish_reason = end, "stop" if end == len(text) else None
            call.changed[choice] = call.parts[0]
            for event in chunks(call, lambda _: b""):
                told += json.loads(event.removeprefix(b"data: "))["choices"]
        content = "".join(one["delta"].get("content", "") for one in told)
        assert content == (whole["message"]["content"] or "")
        assert told[-1]["finish_reason"] == whole["finish_reason"]
        calls = [one["function"] for one in told[-1]["delta"].get("tool_calls", [])]
        assert calls == [one["function"] for one in whole["message"].get("tool_calls", [])]
        scored = b"".join(bytes(b["bytes"]) for one in told for b in (one["logprobs"] or {"content": []})["content"])
        assert scored == (b"" if logprobs is None else text.encode())


def test_without_tools_the_same_words_are_text() -> None:
    call, choice = asked_for(None, may_call_tools=False)
    choice.outputs, choice.finish_reason = [output(CALL)], "stop"
    (whole,) = answer(call, lambda _: b"")["choices"]
    assert whole["message"]["content"] == CALL and whole["finish_reason"] == "stop"


def test_only_the_first_call_is_told_where_one_is_asked_for() -> None:
    call, choice = asked_for(None)
    call.asked = msgspec.structs.replace(call.asked, parallel_tool_calls=False)
    choice.outputs, choice.finish_reason = [output(CALL + CALL)], "stop"
    (whole,) = answer(call, lambda _: b"")["choices"]
    assert len(whole["message"]["tool_calls"]) == 1 and whole["message"]["content"] is None
