"""Tool calls and reasoning in complete texts and in streams."""

import json
import random
import time
from typing import Any

import pytest

from app.openai.bodies import ChatMessage, Tool
from app.openai.call import Call, Choice
from app.openai.errors import ApiError
from app.openai.generated import ParserSettings, parser_settings
from app.openai.request import ApiRequest, Prompt, conversation
from app.openai.response import chunks, response_body
from app.openai.tool_calls import HERMES, LLAMA, MISTRAL, Format, format_of
from engine.config import SamplingParams
from engine.trace.records import Output
from tests.server.fake import FakeModel

CALL = '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>'
XML = "<tool_call>\n<function=read>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>"
MISTRALS = '[TOOL_CALLS] [{"name": "read", "arguments": {"path": "a.txt"}, "id": "a1b2c3d4e"}]'
NEWER = '[TOOL_CALLS]read[CALL_ID]a1b2c3d4e[ARGS]{"path": "a.txt"}'
LLAMAS = '{"name": "read", "parameters": {"path": "a.txt"}}'
READ = {"name": "read", "arguments": '{"path":"a.txt"}'}


@pytest.mark.parametrize(
    ("format", "text", "content", "functions"),
    [
        (HERMES, "Just text, 1 < 2.", "Just text, 1 < 2.", []),
        (HERMES, CALL, "", [READ]),
        (HERMES, f"I look.\n{CALL}\n{XML}", "I look.", [READ, READ]),
        (HERMES, CALL.removesuffix("</tool_call>"), "", [READ]),  # without an end tag
        (HERMES, "<tool_call>{</tool_call>", "<tool_call>{</tool_call>", []),
        (HERMES, f"<tool_call>{'[' * 9999}", f"<tool_call>{'[' * 9999}", []),
        (HERMES, f"{CALL}<tool_call>3</tool_call>", f"{CALL}<tool_call>3</tool_call>", []),
        (HERMES, CALL.replace('{"path": "a.txt"}', "3"), CALL.replace('{"path": "a.txt"}', "3"), []),
        (HERMES, CALL.replace('{"path": "a.txt"}', '"{}"'), "", [{"name": "read", "arguments": "{}"}]),
        (MISTRAL, f"I look. {MISTRALS}", "I look.", [READ]),
        (MISTRAL, MISTRALS.replace("}]", '}, {"name": "read", "arguments": {"path": "a.txt"}}]'), "", [READ, READ]),
        (MISTRAL, f"{NEWER}{NEWER}", "", [READ, READ]),
        (MISTRAL, '[TOOL_CALLS]read{"path": "a.txt"}', "", [READ]),
        (MISTRAL, "[TOOL_CALLS]read", "[TOOL_CALLS]read", []),
        (MISTRAL, "[TOOL_CALLS] [3]", "[TOOL_CALLS] [3]", []),
        (LLAMA, LLAMAS, "", [READ]),
        (LLAMA, f"<|python_tag|>{LLAMAS}; {LLAMAS}", "", [READ, READ]),
        (LLAMA, f"I say {LLAMAS}", f"I say {LLAMAS}", []),
        (LLAMA, f"{LLAMAS} and more", f"{LLAMAS} and more", []),
        (LLAMA, '{"a": 1}', '{"a": 1}', []),
        (LLAMA, '{"a":' * 9999, '{"a":' * 9999, []),
        (LLAMA, "", "", []),
    ],
)
def test_a_text_is_split_into_content_and_tool_calls(
    format: Format, text: str, content: str, functions: list[dict[str, str]]
) -> None:
    found_content, calls = format.split(text, is_start=True)
    assert (found_content, [call["function"] for call in calls]) == (content, functions)
    if format is not MISTRAL:
        assert len({call["id"] for call in calls}) == len(calls)
    assert all(len(call["id"]) == 9 for call in calls) or format is not MISTRAL


def test_only_text_that_may_begin_a_tool_call_is_held_back() -> None:
    for text in ("a <tool", "a <tool_call>{", "a <", "a \n"):
        assert HERMES.possible_start(text, True) == 1
    assert HERMES.possible_start("a < b", True) == len("a < b")
    assert LLAMA.possible_start(" <|py", True) == LLAMA.possible_start('{"a', True) == 0
    assert LLAMA.possible_start('{"a', False) == LLAMA.possible_start("abc", True) == 3


@pytest.mark.parametrize(
    ("template", "format"),
    [
        ("a {{ x }}", None),
        ("<tool_call>", HERMES),
        ("{{ '[TOOL_CALLS]' }}", MISTRAL),
        ("<|python_tag|>", LLAMA),
        ('{"name": function name, "parameters": dictionary of argument name and its value}', LLAMA),
    ],
)
def test_the_tool_call_format_is_detected_from_the_template(
    template: str, format: Format | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert format_of(template) is format
    model = FakeModel()
    monkeypatch.setattr(model, "chat_template", template, raising=False)
    monkeypatch.setattr(model, "special_tokens", {"[TOOL_CALLS]": 5, "<s>": 1}, raising=False)
    settings = parser_settings(model, [1], True, True)
    assert (settings and settings.format) is format
    assert parser_settings(model, [1], False, True) is None
    if format is MISTRAL:
        assert settings and settings.marks == {5: "[TOOL_CALLS]"}


def test_tools_that_the_template_would_drop_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = Tool(type="function", function={"name": "f"})
    messages = [ChatMessage(role="user", content="ab")]
    model = FakeModel()
    monkeypatch.setattr(model, "has_chat_template", True)
    for template, is_read in {
        "{# tools #}tools: {{ messages }}": False,
        "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}{{ tools }}": True,
        "{% if not tools is defined %}{% set tools = none %}{% endif %}": True,
    }.items():
        monkeypatch.setattr(model, "chat_template", template)
        assert conversation(messages, model)
        if is_read:
            assert conversation(messages, model, tools=[tool])
        else:
            with pytest.raises(ApiError, match="the chat template of fake does not use tools: send none") as refused:
                conversation(messages, model, tools=[tool])
            assert (refused.value.param, refused.value.status) == ("tools", 400)


def test_template_and_prompt_determine_whether_reasoning_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    model = FakeModel()
    assert parser_settings(model, list(b"<think>\n"), True, True) is None
    monkeypatch.setattr(model, "chat_template", "{{ '</think>' }}", raising=False)
    for prompt, thinks in ((b"user\n", False), (b"<think>\n", True), (b"<think>\n\n</think>\n\n", False)):
        assert parser_settings(model, list(prompt), False, True) == ParserSettings(thinks=thinks)


def output(text: str, token_id: int = 0) -> Output:
    return Output(seq_id=0, token_id=token_id, token_bytes=text.encode(), text=text, logprob=-1.0, top=[])


def call_with(settings: ParserSettings | None, logprobs: int | None = None) -> tuple[Call, Choice]:
    request = ApiRequest(
        kind="chat",
        prompts=[Prompt(token_ids=[1])],
        sampling=SamplingParams(),
        logprobs=logprobs,
        parser_settings=settings,
    )
    call = Call(request, "a", "m", "t", time.monotonic())
    return call, call.sub_requests[0].add_choice(0)


def complete_choice(settings: ParserSettings | None, *outputs: Output, logprobs: int | None = None) -> dict[str, Any]:
    call, choice = call_with(settings, logprobs)
    choice.outputs, choice.finish_reason = [*outputs], "stop"
    (found,) = response_body(call, lambda _: b"")["choices"]
    return dict(found)


THINKS = "<think>\nLet me see.\n</think>\n\n"
TEXTS = [
    *((ParserSettings(HERMES), text) for text in ("Just < text.", f"I look. \n{CALL}", XML, "<tool_call>{", "a <tool")),
    *((ParserSettings(HERMES), text) for text in (f"é{CALL} and more", "1 <\n\n")),
    *((ParserSettings(MISTRAL), text) for text in ("a [TOOL", f"a [x] {MISTRALS}", NEWER, "[TOOL_CALLS]read")),
    *(
        (ParserSettings(LLAMA), text)
        for text in (LLAMAS, f"a {LLAMAS}", " {", f"<|python_tag|>{LLAMAS};{LLAMAS}", "<|pyt")
    ),
    *(
        (ParserSettings(thinks=False), text)
        for text in (f"{THINKS}So.", " <thi", "<think>and", "a <think>b</think>c", "\n\na")
    ),
    *((ParserSettings(thinks=True), text) for text in ("\nHm. </thin</think>\n So.", "on and on", "</think>So.", "")),
    *((ParserSettings(HERMES, thinks=False), text) for text in (f"{THINKS}I look.\n{CALL}", f"{THINKS}{CALL}")),
    (ParserSettings(LLAMA, thinks=False), f"{THINKS}{LLAMAS}"),
]


@pytest.mark.parametrize("logprobs", [None, 0])
@pytest.mark.parametrize(("settings", "text"), TEXTS)
def test_streamed_deltas_equal_the_complete_response(settings: ParserSettings, text: str, logprobs: int | None) -> None:
    expected = complete_choice(settings, output(text), logprobs=logprobs)
    message = expected["message"]
    for seed in range(20):
        draw, at, deltas = random.Random(seed), 0, list[dict[str, Any]]()
        call, choice = call_with(settings, logprobs)
        while at < len(text) or choice.finish_reason is None:
            end = min(len(text), at + draw.randrange(4))
            choice.outputs.append(output(text[at:end]))
            at, choice.finish_reason = end, "stop" if end == len(text) else None
            call.changed[choice] = call.sub_requests[0]
            for event in chunks(call, lambda _: b""):
                deltas += json.loads(event.removeprefix(b"data: "))["choices"]
        for name in ("content", "reasoning_content"):
            assert "".join(one["delta"].get(name, "") for one in deltas) == (message.get(name) or "")
        assert deltas[-1]["finish_reason"] == expected["finish_reason"]
        calls = [one["function"] for one in deltas[-1]["delta"].get("tool_calls", [])]
        assert calls == [one["function"] for one in message.get("tool_calls", [])]
        scored = b"".join(bytes(b["bytes"]) for one in deltas for b in (one["logprobs"] or {"content": []})["content"])
        assert scored == (b"" if logprobs is None else text.encode())


def test_reasoning_is_separated_from_content() -> None:
    for settings, text in (
        (ParserSettings(thinks=False), f"{THINKS}So."),
        (ParserSettings(thinks=True), "Let me see.</think>So."),
    ):
        message = complete_choice(settings, output(text))["message"]
        assert (message["reasoning_content"], message["content"]) == ("Let me see.", "So.")
    message = complete_choice(ParserSettings(thinks=False), output("a <think>b</think>c"))["message"]
    assert message["content"] == "a <think>b</think>c" and "reasoning_content" not in message
    call, choice = call_with(ParserSettings(thinks=False))
    choice.outputs, choice.finish_reason = [output(text) for text in ("<think>", "a", "b", "</think>", "c")], "stop"
    response_body(call, lambda _: b"")
    assert choice.parser and choice.parser.num_reasoning_tokens == 3


def test_special_tokens_that_mark_tool_calls_are_recognized() -> None:
    settings = ParserSettings(MISTRAL, marks={7: "[TOOL_CALLS]", 8: "[ARGS]"})
    parts = [
        output("I look."),
        output("", 7),
        output("read"),
        output("", 8),
        output('{"path": "a.txt"}'),
        output("", 9),
    ]
    message = complete_choice(settings, *parts)["message"]
    assert message["content"] == "I look." and message["tool_calls"][0]["function"] == READ


def test_without_tools_a_tool_call_is_plain_text() -> None:
    found = complete_choice(None, output(CALL))
    assert found["message"]["content"] == CALL and found["finish_reason"] == "stop"


def test_only_the_first_call_is_returned_without_parallel_tool_calls() -> None:
    message = complete_choice(ParserSettings(HERMES, parallel=False), output(CALL + CALL))["message"]
    assert len(message["tool_calls"]) == 1 and message["content"] is None
