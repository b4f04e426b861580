"""Bodies of Anthropic's Messages: their conversion to a conversation, and refusals."""

import json
from typing import Any

import pytest

from app.openai.bodies import read
from app.openai.errors import ApiError
from app.openai.messages_request import CountTokensBody, MessagesBody, api_request, count
from app.openai.request import ApiRequest
from app.openai.tool_calls import HERMES
from tests.server.fake import FakeModel

CACHED = {"cache_control": {"type": "ephemeral"}}
TOOL = {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}, **CACHED}
USE = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}}
CALLED = {"id": "toolu_1", "type": "function", "function": {"name": "read", "arguments": {"path": "a"}}}


KEEPS = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}


class Template(FakeModel):
    """Chat template that stores its arguments."""

    has_chat_template, chat_template = True, "{{ tools }}<tool_call>"

    def chat(self, messages, template_settings, tools=()):
        self.arguments = messages, template_settings, tools
        return [1, 2, 3]


MODEL = Template()


def ask(**fields: Any) -> ApiRequest:
    body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 9} | fields
    return api_request(read(json.dumps(body).encode(), MessagesBody), MODEL)


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": content, **more}


def test_content_blocks_are_converted_to_messages_in_order() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": ""}
    empty = {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": False, **CACHED}
    message = {**empty, "content": [text("d")]}
    ask(
        system=[text("be"), text("good", **CACHED)],
        messages=[
            {"role": "user", "content": [text("a", citations=None), text("b")]},
            {"role": "assistant", "content": [thought, text("c"), USE]},
            {"role": "user", "content": [message, empty, text("e"), text("f")]},
            {"role": "system", "content": "be quick"},
            {"role": "assistant", "content": "g"},
            {"role": "user", "content": "h"},
        ],
        tools=[TOOL],
        thinking={"type": "enabled", "budget_tokens": 1024},
        output_config={"effort": "low"},
    )
    messages, settings, tools = MODEL.arguments
    assert messages == [
        {"role": "system", "content": "be\ngood"},
        {"role": "user", "content": "a\nb"},
        {"role": "assistant", "content": "c", "tool_calls": [CALLED], "reasoning_content": "hm"},
        {"role": "tool", "content": "d", "tool_call_id": "toolu_1"},
        {"role": "tool", "content": "", "tool_call_id": "toolu_1"},
        {"role": "user", "content": "e\nf"},
        {"role": "system", "content": "be quick"},
        {"role": "assistant", "content": "g"},
        {"role": "user", "content": "h"},
    ]
    assert settings == {"enable_thinking": True, "reasoning_effort": "low"}
    function = {"name": "read", "description": "Reads.", "parameters": {"type": "object"}}
    assert tools == [{"type": "function", "function": function}]


def test_sampling_parameters_and_tool_choice_are_converted() -> None:
    found = ask(
        stop_sequences=["x"],
        temperature=0.5,
        top_p=0.9,
        top_k=3,
        stream=True,
        tools=[TOOL],
        metadata={"a": 1},
        context_management=KEEPS,
    )
    sampling = found.sampling
    assert (found.default_tokens, sampling.stop, sampling.temperature) == (9, ["x"], 0.5)
    assert (sampling.top_p, sampling.top_k, found.stream) == (0.9, 3, True)
    assert found.parser_settings and found.parser_settings.format is HERMES and found.parser_settings.parallel
    single = ask(tools=[TOOL], tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    assert single.parser_settings and not single.parser_settings.parallel
    assert ask(tools=[TOOL], tool_choice={"type": "none"}).parser_settings is None and MODEL.arguments[2] == []
    body = {"messages": [{"role": "user", "content": "x"}], "tools": [TOOL]}
    assert count(read(json.dumps(body).encode(), CountTokensBody), MODEL) == 3


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"max_tokens": None}, "max_tokens", "got `null`"),
        ({"max_tokens": 0}, "max_tokens", ">= 1"),
        ({"stop_sequences": ["x"] * 17}, "stop_sequences", "stop_sequences must be at most 16 strings"),
        ({"tools": [TOOL], "tool_choice": {"type": "any"}}, "tool_choice", "must be auto or none"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "read"}}, "tool_choice", "must be auto or none"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools", "'bash_20250124'"),
        ({"tools": [TOOL | {"defer_loading": True}]}, "tools", "tools[0].defer_loading"),
        ({"context_management": {"edits": [{"type": "compact_20260112"}]}}, "context_management", "not implemented"),
        ({"messages": []}, "messages", "length >= 1"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages", "content[0].type"),
        ({"messages": [{"role": "user", "content": [USE]}]}, "messages", "'tool_use'"),
        ({"messages": [{"role": "user", "content": [text("x", what=1)]}]}, "messages", "unknown field `what`"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages", "cannot continue"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config", "format"),
        ({"mcp_servers": [{"url": "x"}]}, "mcp_servers", "not implemented"),
        ({"what": 1}, "what", "unknown field"),
    ],
)
def test_invalid_messages_are_refused_with_the_field(fields: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        ask(**fields)
    assert (refused.value.param, refused.value.status) == (param, 400) and words in refused.value.message
    shown = refused.value.as_map("/v1/messages")
    assert shown == {"type": "error", "error": {"type": "invalid_request_error", "message": refused.value.message}}
