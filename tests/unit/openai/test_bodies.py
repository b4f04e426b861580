"""Request bodies: accepted, ignored and refused fields."""

import json
from typing import Any

import pytest

from app.openai import request
from app.openai.bodies import HARMLESS, NEUTRAL, ChatBody, CompletionBody, read
from app.openai.errors import ApiError
from engine.config import ConfigError
from engine.requests.request_spec import RequestError
from tests.server.fake import FakeModel

MODEL = FakeModel()
LONG = "context_length_exceeded"


def completion(**fields: Any) -> request.ApiRequest:
    return request.completion(read(json.dumps({"prompt": "hello"} | fields).encode(), CompletionBody), MODEL)


def chat(**fields: Any) -> request.ApiRequest:
    body = {"messages": [{"role": "user", "content": "hello"}]} | fields
    return request.chat(read(json.dumps(body).encode(), ChatBody), MODEL)


def fields_of(**fields: Any) -> dict[str, Any]:
    """Return a conversation of one message."""
    return {"messages": [{"role": "user", "content": "x"} | fields]}


def test_a_prompt_may_have_four_forms() -> None:
    forms: list[Any] = ["ab", [97, 98], ["ab", "c"], [[97, 98], [99]]]
    ids = [[prompt.token_ids for prompt in completion(prompt=form).prompts] for form in forms]
    assert ids == [[[97, 98]], [[97, 98]], [[97, 98], [99]], [[97, 98], [99]]]


def test_defaults_are_those_of_openai() -> None:
    assert completion().sampling.temperature == chat().sampling.temperature == 1.0
    assert completion().sampling.max_tokens is None and completion().default_tokens == 16
    assert chat().sampling.max_tokens is None and chat().default_tokens is None
    assert completion(max_tokens=9).default_tokens is None
    assert chat(max_completion_tokens=7).sampling.max_tokens == chat(max_tokens=7).sampling.max_tokens == 7


def test_omitted_sampling_parameters_have_the_models_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODEL, "default_sampling", {"temperature": 0.6, "top_p": 0.9, "top_k": 20})
    for parsed in (completion(), chat()):
        sampling = parsed.sampling
        assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.6, 0.9, 20)
    sampling = chat(temperature=0.0, top_k=-1).sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.0, 0.9, 0)


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_ignored_fields_accept_any_value(name: str) -> None:
    for value in (1, "x", [1], {"a": None}, True, None):
        completion(**{name: value})


@pytest.mark.parametrize("name", sorted(NEUTRAL))
def test_unimplemented_fields_accept_neutral_values_only(name: str) -> None:
    for value in (*NEUTRAL[name], None):
        chat(**{name: value})
    others: list[Any] = [{"something": "else"}, 7]
    others += [bool(value) for value in NEUTRAL[name] if type(value) is int]  # booleans are no numbers
    others += [int(value) for value in NEUTRAL[name] if type(value) is bool]
    for value in others:
        with pytest.raises(ApiError) as refused:
            chat(**{name: value})
        assert refused.value.param == name and refused.value.status == 400


def test_a_number_out_of_range_is_refused_in_one_sentence() -> None:
    with pytest.raises(ApiError) as refused:
        read(b'{"prompt": "x", "temperature": 1e400}', CompletionBody)
    assert refused.value.message == "the body is not JSON: Number out of range"


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"temperature": -1}, "temperature", "between 0 and 100"),
        ({"temperature": "hot"}, "temperature", "expected `float | null`, got `str`"),
        ({"max_tokens": 1.5}, "max_tokens", "expected `int | null`"),
        ({"max_tokens": True}, "max_tokens", "got `bool`"),
        ({"max_tokens": 0}, "max_tokens", "at least 1"),
        ({"max_tokens": 10**30}, "max_tokens", "expected"),
        ({"n": 0}, "n", "between 1 and 128"),
        ({"n": 2, "temperature": 0}, "n", "set a temperature"),
        ({"best_of": 2, "temperature": 0}, "best_of", "set a temperature"),
        ({"top_p": 0}, "top_p", "over 0"),
        ({"stop": ["x"] * 10_000}, "stop", "at most 16 strings"),
        ({"stop": [""]}, "stop", "none empty"),
        ({"logit_bias": {"x": 1}}, "logit_bias", "must be token ids"),
        ({"logit_bias": {"1": 101}}, "logit_bias", "between -100 and 100"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "needs stream: true"),
        ({"stream": True, "stream_options": {"what": 1}}, "stream_options", "unknown field `what`"),
        ({"prompt": []}, "prompt", "empty list"),
        ({"prompt": ["a", [1]]}, "prompt", "mixes"),
        ({"prompt": ["a"] * 65}, "prompt", "at most 64 prompts, not 65"),
        ({"prompt": 3}, "prompt", "expected `str | array`"),
        ({"prompt": [-1]}, "prompt", ">= 0"),
        ({"best_of": 1, "n": 2}, "best_of", "at least n"),
        ({"best_of": 3, "stream": True}, "best_of", "cannot be streamed"),
        ({"best_of": 0}, "best_of", "between 1 and 128"),
        ({"stream": True, "prompt_logprobs": 0}, "prompt_logprobs", "cannot be streamed"),
        ({"skip_special_tokens": False}, "skip_special_tokens", "not implemented"),
        ({"logprobs": 21}, "logprobs", "between 0 and 20"),
        ({"seed": 2**60}, "seed", "<= 9007199254740991"),
        ({"priority": 2**53}, "priority", "9007199254740991"),
        ({"top_k": -(2**60)}, "top_k", "9007199254740991"),
        ({"cache_salt": ""}, "cache_salt", "length >= 1"),
        ({"unheard_of": 1}, "unheard_of", "unknown field 'unheard_of'"),
    ],
)
def test_invalid_completions_are_refused_with_the_field(fields: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        completion(**fields)
    message = refused.value.message
    assert refused.value.param == param and words in message and "\n" not in message and refused.value.status == 400


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"messages": []}, "messages", "length >= 1"),
        ({"messages": [3]}, "messages", "got `int`"),
        ({"messages": 3}, "messages", "got `int`"),
        (fields_of(role="tools"), "messages", "'tools'; accepted: 'assistant', 'developer', 'system', 'tool', 'user'"),
        ({"tools": [{"type": "custom", "function": {}}]}, "tools", "'custom'; accepted: 'function'"),
        (fields_of(role="tool"), "messages", "tools need a chat template"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools", "tools need a chat template"),
        ({"tools": [{"type": "function"}]}, "tools", "missing required field `function`"),
        (
            fields_of(role="assistant", tool_calls=[{"function": {"name": "f", "arguments": "[" * 9_999}}]),
            "messages",
            "messages[0].tool_calls[0].function.arguments is not JSON",
        ),
        (
            fields_of(role="assistant", tool_calls=[{"function": {"name": "f", "arguments": "3"}}]),
            "messages",
            "messages[0].tool_calls[0].function.arguments must be a JSON object",
        ),
        ({"tool_choice": "required"}, "tool_choice", "must be auto or none"),
        ({"messages": [{"role": "user"}]}, "messages", "messages[0].content is missing"),
        (
            fields_of(content=[{"type": "image_url", "image_url": {}}]),
            "messages",
            "only parts of type text",
        ),
        (fields_of(content=[{"type": "text"}]), "messages", "messages[0].content[0].text is missing"),
        (fields_of(content=[{"type": "text", "text": None}]), "messages", "messages[0].content[0].text is missing"),
        (fields_of(content=[{"type": "text", "text": "x", "what": 1}]), "messages", "'what' in messages[0].content[0]"),
        (fields_of(role="assistant", tool_calls=[{"id": "x"}]), "messages", "missing required field `function`"),
        (
            fields_of(role="assistant", tool_calls=[{"function": {"name": "f", "arguments": "{"}}]),
            "messages",
            "messages[0].tool_calls[0].function.arguments is not JSON",
        ),
        (fields_of(role="assistant", function_call={"name": "x"}), "messages", "'function_call' in messages[0]"),
        (fields_of(role="assistant", audio={"id": "x"}), "messages", "'audio' in messages[0]"),
        ({"top_logprobs": 2}, "top_logprobs", "needs logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "between 0 and 20"),
        ({"logprobs": 3}, "logprobs", "bool"),
        ({"max_tokens": 3, "max_completion_tokens": 4}, "max_tokens", "differ; send one"),
        ({"max_completion_tokens": 0}, "max_completion_tokens", "max_completion_tokens must be at least 1, not 0"),
        ({"max_tokens": 0}, "max_tokens", "max_tokens must be at least 1, not 0"),
        ({"stream": True, "prompt_logprobs": 2}, "prompt_logprobs", "cannot be streamed"),
        ({"chat_template_kwargs": {"documents": [1]}}, "chat_template_kwargs", "chat_template_kwargs"),
        ({"chat_template_kwargs": {"a": "x" * 1001}}, "chat_template_kwargs", "length"),
    ],
)
def test_invalid_conversations_are_refused_with_the_field(fields: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        chat(**fields)
    assert refused.value.param == param and refused.value.status == 400 and words in refused.value.message


def test_the_message_of_a_response_is_accepted_in_a_request() -> None:
    response: dict[str, Any] = {
        "role": "assistant",
        "content": "hi",
        "refusal": None,
        "annotations": [],
        "tool_calls": None,
    }
    named = {"role": "user", "name": "eve", "content": [{"type": "text", "text": "x", "cache_control": {"type": "y"}}]}
    (prompt,) = chat(messages=[named, response]).prompts
    assert bytes(prompt.token_ids) == b"x\nhi"
    assert chat(top_logprobs=0).logprobs is None, "top_logprobs 0 requests none, as in vLLM"


@pytest.mark.parametrize(
    ("fields", "error", "param", "code"),
    [
        ({"max_tokens": 9}, RequestError("at most 3 new ones do (max_model_len 9)", "max_tokens"), "max_tokens", LONG),
        ({"max_completion_tokens": 9}, RequestError("x", "max_tokens"), "max_completion_tokens", None),
        ({}, RequestError("the prompt's 9 tokens need 3 blocks"), "messages", LONG),
        ({"n": 64}, RequestError("64 sequences run; max_num_seqs is 8", "n"), "n", None),
        ({"min_tokens": 5}, ConfigError("min_tokens must be between 0 and max_tokens (3)"), "min_tokens", None),
    ],
)
def test_engine_refusals_name_the_field(
    fields: dict[str, Any], error: ValueError, param: str, code: str | None
) -> None:
    refused = chat(**fields).refusal(error)
    assert (refused.param, refused.code, refused.message) == (param, code, str(error))
    assert completion(best_of=64, n=2).refusal(RequestError("x", "n")).param == "best_of"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b'{"prompt": "\xff"}',
        b'{"prompt": NaN}',
        b"[" * 100_000,
        b'{"prompt": Infinity}',
    ],
)
def test_bodies_must_be_json_objects(data: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        read(data, CompletionBody)
    assert refused.value.status == 400 and len(refused.value.message) < 300 and "\n" not in refused.value.message


def test_message_parts_are_joined_and_developer_means_system() -> None:
    parts = [{"type": "text", "text": "ab"}, {"type": "text", "text": "c"}]
    (prompt,) = chat(messages=[{"role": "developer", "content": parts}, {"role": "user", "content": "d"}]).prompts
    assert bytes(prompt.token_ids) == b"ab\nc\nd"


def test_scoring_a_prompt_requests_one_token_from_the_engine() -> None:
    found = completion(echo=True, max_tokens=0, logprobs=3)
    assert found.only_echo and found.sampling.max_tokens == 1 and found.sampling.prompt_logprobs == 3
    assert found.prompt_logprobs is None


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"function": {"name": "f", "description": "x" * 10_000}}]},
        {"tools": [{"function": {"name": "f", "parameters": {"x" * 10_000: {}}}}]},
        fields_of(role="assistant", tool_calls=[{"function": {"name": "f", "arguments": {"a": ["x" * 10_000]}}}]),
        fields_of(reasoning_content="x" * 10_000),
    ],
)
def test_tools_calls_and_reasoning_count_towards_the_length(fields: dict[str, Any]) -> None:
    body = read(json.dumps({"messages": [{"role": "user", "content": "x"}]} | fields).encode(), ChatBody)
    with pytest.raises(ApiError) as refused:
        request.chat(body, MODEL, 16)
    assert (refused.value.param, refused.value.code) == ("messages", LONG)
