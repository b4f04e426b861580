"""Anthropic's `/v1/messages`: its body, and its conversion to a conversation of chat completions."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from app.models.engine_face import ServedModel
from app.openai import request
from app.openai.bodies import Body, CalledFunction, ChatBody, ChatMessage, ContentPart, Tool, ToolCall
from app.openai.errors import ApiError
from app.openai.request import ApiRequest
from engine.trace.limits import MAX_WHOLE, Int

NAMES = {"prompt": "messages", "max_tokens": "max_tokens", "stop": "stop_sequences"}


class _Block(Struct, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    cache_control: Any = None  # marks a cacheable prefix; this server caches every prefix


class TextBlock(_Block, kw_only=True, tag="text"):
    text: str
    citations: Literal[None] | Annotated[list[Any], Meta(max_length=0)] = None


class ThinkingBlock(_Block, kw_only=True, tag="thinking"):
    thinking: str
    signature: str = ""  # ignored: another server's, or this server's, which is empty


class ToolUseBlock(_Block, kw_only=True, tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]
    caller: Any = None


class ToolResultBlock(_Block, kw_only=True, tag="tool_result"):
    tool_use_id: str
    content: str | list[TextBlock] = ""
    is_error: bool | None = None  # ignored: templates have no such field, and the content describes the error


class SystemMessage(Struct, kw_only=True, forbid_unknown_fields=True, tag_field="role", tag="system"):
    content: str | list[TextBlock]


class UserMessage(Struct, kw_only=True, forbid_unknown_fields=True, tag_field="role", tag="user"):
    content: str | list[TextBlock | ToolResultBlock]


class AssistantMessage(Struct, kw_only=True, forbid_unknown_fields=True, tag_field="role", tag="assistant"):
    content: str | list[TextBlock | ThinkingBlock | ToolUseBlock]


class CustomTool(Struct, kw_only=True, forbid_unknown_fields=True):
    name: str
    input_schema: dict[str, Any]
    description: str | None = None
    type: Literal["custom"] | None = None
    strict: bool | None = None  # not enforced
    cache_control: Any = None
    eager_input_streaming: bool | None = None
    defer_loading: Literal[False] | None = None


class ToolChoice(Struct, kw_only=True, forbid_unknown_fields=True):
    type: Literal["auto", "none", "any", "tool"]
    name: str | None = None
    disable_parallel_tool_use: bool = False


class Thinking(Struct, kw_only=True, forbid_unknown_fields=True):
    type: Literal["enabled", "adaptive", "disabled"]
    budget_tokens: Int | None = None  # ignored: templates have no such setting
    display: Any = None


class OutputConfig(Struct, kw_only=True, forbid_unknown_fields=True):
    effort: str | None = None
    format: Literal[None] = None


class CountTokensBody(Body, kw_only=True):
    """`POST /v1/messages/count_tokens`"""

    harmless: ClassVar[frozenset[str]] = frozenset(
        ("metadata", "cache_control", "service_tier", "inference_geo", "speed", "user_profile_id", "workspace_id",
         "diagnostics", "betas")
    )  # fmt: skip
    neutral: ClassVar[dict[str, tuple[Any, ...]]] = {
        "container": (),
        "mcp_servers": ([],),
        "context_management": ({}, {"edits": []}, {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}),
    }

    messages: Annotated[list[SystemMessage | UserMessage | AssistantMessage], Meta(min_length=1)]
    system: str | list[TextBlock] | None = None
    tools: list[CustomTool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None


class MessagesBody(CountTokensBody, kw_only=True):
    """`POST /v1/messages`"""

    session: str | None = field(name="theater", default=None)
    max_tokens: Annotated[int, Meta(ge=1, le=MAX_WHOLE)]
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: Int | None = None


def api_request(body: MessagesBody, model: ServedModel, max_model_len: int | None = None) -> ApiRequest:
    """Return the request of a body. Raises ApiError, naming the field.

    `max_tokens` may exceed the context, as in Anthropic's API.
    """
    chat_body = _chat(
        body,
        stop=body.stop_sequences,
        stream=body.stream,
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=body.top_k,
        parallel_tool_calls=not (body.tool_choice and body.tool_choice.disable_parallel_tool_use),
    )
    return replace(request.chat(chat_body, model, max_model_len, NAMES), default_tokens=body.max_tokens)


def count(body: CountTokensBody, model: ServedModel, max_model_len: int | None = None) -> int:
    """Return the number of tokens of the prompt. Raises ApiError, naming the field."""
    return len(request.chat(_chat(body), model, max_model_len, NAMES).prompts[0].token_ids)


def _chat(body: CountTokensBody, **more: Any) -> ChatBody:
    """Return the same conversation as a body of chat completions."""
    messages = [ChatMessage(role="system", content=_parts(body.system))] if body.system else []
    for message in body.messages:
        if isinstance(message, AssistantMessage):
            messages.append(_assistant(message))
        elif isinstance(message, UserMessage):
            messages += _user(message)
        else:
            messages.append(ChatMessage(role="system", content=_parts(message.content)))
    if isinstance(body.messages[-1], AssistantMessage):
        raise ApiError(
            "messages: this server cannot continue an assistant message; the last message must be the user's",
            "messages",
        )
    settings: dict[str, Any] = {}
    if body.thinking is not None:
        settings["enable_thinking"] = body.thinking.type != "disabled"
    choice = body.tool_choice
    return ChatBody(
        model=body.model,
        messages=messages,
        tools=[_tool(tool) for tool in body.tools or []],
        tool_choice=None if choice is None else {"any": "required", "tool": "named"}.get(choice.type, choice.type),
        reasoning_effort=body.output_config.effort if body.output_config else None,
        chat_template_kwargs=settings,
        **more,
    )


def _parts(content: str | list[TextBlock]) -> str | list[ContentPart]:
    return content if isinstance(content, str) else [ContentPart(type="text", text=block.text) for block in content]


def _user(message: UserMessage) -> list[ChatMessage]:
    """Return a message for each tool result and each run of texts, in their order."""
    if isinstance(message.content, str):
        return [ChatMessage(role="user", content=message.content)]
    found: list[ChatMessage] = []
    texts: list[ContentPart] | None = None
    for block in message.content:
        if isinstance(block, ToolResultBlock):
            found.append(ChatMessage(role="tool", content=_parts(block.content), tool_call_id=block.tool_use_id))
            texts = None
        elif texts is None:
            texts = [ContentPart(type="text", text=block.text)]
            found.append(ChatMessage(role="user", content=texts))
        else:
            texts.append(ContentPart(type="text", text=block.text))
    return found


def _assistant(message: AssistantMessage) -> ChatMessage:
    if isinstance(message.content, str):
        return ChatMessage(role="assistant", content=message.content)
    blocks = message.content
    calls = [
        ToolCall(id=block.id, function=CalledFunction(name=block.name, arguments=block.input))
        for block in blocks
        if isinstance(block, ToolUseBlock)
    ]
    return ChatMessage(
        role="assistant",
        content=[ContentPart(type="text", text=block.text) for block in blocks if isinstance(block, TextBlock)],
        reasoning_content="".join(block.thinking for block in blocks if isinstance(block, ThinkingBlock)) or None,
        tool_calls=calls or None,
    )


def _tool(tool: CustomTool) -> Tool:
    described = {} if tool.description is None else {"description": tool.description}
    return Tool(function={"name": tool.name, **described, "parameters": tool.input_schema})
