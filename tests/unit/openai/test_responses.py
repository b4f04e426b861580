"""Bodies of OpenAI's Responses: their conversion to a conversation, refusals, and stored responses."""

import json
from typing import Any

import msgspec
import pytest

from app.openai.bodies import ChatBody, ChatMessage, read
from app.openai.errors import ApiError
from app.openai.request import ApiRequest, chat
from app.openai.responses_request import ResponsesBody, api_request, messages
from app.openai.stored_responses import StoredResponses
from tests.server.fake import FakeModel

CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": '{"path": "a"}'}
CALLED = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": {"path": "a"}}}
SECOND = {**CALLED, "id": "c2"}
TOOL = {"type": "function", "name": "read", "description": "Reads.", "parameters": {"type": "object"}, "strict": True}


class Template(FakeModel):
    """Chat template that stores its arguments."""

    has_chat_template, chat_template = True, "{{ tools }}"

    def chat(self, messages, template_settings, tools=()):
        self.arguments = messages, template_settings, tools
        return [1, 2, 3]


MODEL = Template()


def ask(**fields: Any) -> ApiRequest:
    body = read(json.dumps({"input": "hello"} | fields).encode(), ResponsesBody)
    return api_request(body, messages(body), MODEL)


def parts(*texts: str, kind: str = "input_text") -> list[dict[str, Any]]:
    return [{"type": kind, "text": text} for text in texts]


def test_items_of_one_turn_are_converted_to_one_message() -> None:
    message = {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed"}
    ask(
        instructions="be good",
        input=[
            {"role": "developer", "content": "be quick"},
            {"type": "message", "role": "user", "content": parts("a", "b")},
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": parts("hm", kind="reasoning_text")},
            {**message, "content": parts("c", kind="output_text")},
            CALL,
            {**CALL, "call_id": "c2"},
            {"type": "function_call_output", "call_id": "c1", "output": "d"},
            {"type": "function_call_output", "call_id": "c2", "output": parts("e", "f")},
            CALL,
            {"type": "function_call_output", "call_id": "c1", "output": ""},
        ],
        tools=[TOOL],
        reasoning={"effort": "none", "summary": "auto"},
    )
    messages, settings, tools = MODEL.arguments
    assert messages == [
        {"role": "system", "content": "be good"},
        {"role": "system", "content": "be quick"},
        {"role": "user", "content": "a\nb"},
        {
            "role": "assistant",
            "content": "c",
            "tool_calls": [CALLED, {**CALLED, "id": "c2"}],
            "reasoning_content": "hm",
        },
        {"role": "tool", "content": "d", "tool_call_id": "c1"},
        {"role": "tool", "content": "e\nf", "tool_call_id": "c2"},
        {"role": "assistant", "content": "", "tool_calls": [CALLED]},
        {"role": "tool", "content": "", "tool_call_id": "c1"},
    ]
    assert settings == {"reasoning_effort": "none", "enable_thinking": False}
    function = {"name": "read", "description": "Reads.", "parameters": {"type": "object"}}
    assert tools == [{"type": "function", "function": function}]


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"max_output_tokens": 0}, "max_output_tokens", "max_output_tokens must be at least 1"),
        ({"input": []}, "input", "length >= 1"),
        ({"input": [{"role": "user"}]}, "input", "input[0].content is missing"),
        ({"input": [{"content": "x"}]}, "input", "input[0].role is missing"),
        ({"input": [{**CALL, "arguments": "["}]}, "input", "input[0].arguments is not JSON"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input", "input[0].call_id is missing"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input", "'input_image'"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input", "'item_reference'"),
        ({"tools": [{"type": "web_search"}]}, "tools", "'web_search'"),
        ({"tools": [TOOL], "tool_choice": "required"}, "tool_choice", "must be auto or none"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text", "format"),
        ({"truncation": "auto"}, "truncation", "not implemented"),
        ({"background": True}, "background", "not implemented"),
        ({"metadata": {str(i): "x" for i in range(17)}}, "metadata", "length <= 16"),
        ({"what": 1}, "what", "unknown field"),
    ],
)
def test_invalid_bodies_are_refused_with_the_field(fields: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        ask(**fields)
    assert (refused.value.param, refused.value.status) == (param, 400) and words in refused.value.message


def test_stored_conversations_are_bounded_and_separated_by_client() -> None:
    messages = [ChatMessage(role="user", content="x" * 1000)]
    data = msgspec.json.encode(messages)
    size = len(data)
    stored = StoredResponses(3 * size, 5 * size)
    for client in ("a", "b"):
        for number in range(4):
            stored.put(client, f"{client}{number}", data)
    stored.put("c", "large", data * 4)

    def has(client: str, response_id: str) -> bool:
        try:
            return stored.get(client, response_id) == messages
        except ApiError as error:
            assert (error.param, error.code) == ("previous_response_id", "previous_response_not_found")
            return False

    found = [name for name in ("a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3") if has(name[0], name)]
    assert found == ["a2", "a3", "b1", "b2", "b3"], "at most three per client and five in total"
    assert not has("c", "large") and not has("a", "b3")


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        ({"reasoning_effort": "high"}, {"reasoning_effort": "high"}),
        ({"reasoning_effort": "none"}, {"reasoning_effort": "none", "enable_thinking": False}),
        ({"reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "max"}}, {"reasoning_effort": "max"}),
    ],
)
def test_reasoning_effort_of_chat_completions_is_passed_to_the_template(
    fields: dict[str, Any], settings: dict[str, Any]
) -> None:
    body = {"messages": [{"role": "user", "content": "hello"}]} | fields
    chat(read(json.dumps(body).encode(), ChatBody), MODEL)
    assert MODEL.arguments[1] == settings
