"""OpenAI's `/v1/responses`: its body, and its conversion to a conversation of chat completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct, field

from app.models.engine_face import ServedModel
from app.openai import request
from app.openai.bodies import HARMLESS, Body, CalledFunction, ChatBody, ChatMessage, ContentPart, Tool, ToolCall
from app.openai.errors import ApiError
from app.openai.request import ApiRequest
from engine.trace.limits import Int

NAMES = {"prompt": "input", "max_tokens": "max_output_tokens"}


class Content(Struct, kw_only=True, forbid_unknown_fields=True):
    type: Literal["input_text", "output_text", "summary_text", "reasoning_text"]
    text: str
    annotations: Any = None  # this and `logprobs` are part of an earlier response that the client sends back
    logprobs: Any = None


class Item(Struct, kw_only=True, forbid_unknown_fields=True):
    """Message, tool call, tool output, or reasoning. Each type uses some of the fields."""

    type: Literal["message", "function_call", "function_call_output", "reasoning"] = "message"
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: str | list[Content] | None = None
    name: str | None = None
    arguments: str = ""
    call_id: str | None = None
    output: str | list[Content] | None = None
    summary: list[Content] | None = None
    id: str | None = None
    status: str | None = None
    phase: str | None = None
    encrypted_content: str | None = None  # from another server; ignored


class FunctionTool(Struct, kw_only=True, forbid_unknown_fields=True):
    type: Literal["function"]
    name: str
    parameters: dict[str, Any] | None = None
    description: str | None = None
    strict: bool | None = None  # not enforced


class TextFormat(Struct, kw_only=True, forbid_unknown_fields=True):
    type: Literal["text"]


class TextConfig(Struct, kw_only=True, forbid_unknown_fields=True):
    format: TextFormat | None = None
    verbosity: str | None = None


class Reasoning(Struct, kw_only=True, forbid_unknown_fields=True):
    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None


class ResponsesBody(Body, kw_only=True):
    """`POST /v1/responses`"""

    harmless: ClassVar[frozenset[str]] = HARMLESS - {"store", "metadata"} | {"prompt_cache_options", "stream_options"}
    neutral: ClassVar[dict[str, tuple[Any, ...]]] = {
        "background": (False,),
        "context_management": ([],),
        "conversation": (),
        "include": ([], ["reasoning.encrypted_content"]),  # responses have none
        "max_tool_calls": (),
        "prompt": (),
        "top_logprobs": (0,),
        "truncation": ("disabled",),
    }

    session: str | None = field(name="theater", default=None)
    input: str | Annotated[list[Item], Meta(min_length=1)]
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    stream: bool | None = None
    tools: list[FunctionTool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: Int | None = None
    temperature: float | None = None
    top_p: float | None = None
    reasoning: Reasoning | None = None
    text: TextConfig | None = None
    metadata: Annotated[dict[str, str], Meta(max_length=16)] | None = None


def messages(body: ResponsesBody) -> list[ChatMessage]:
    """Return the input of a body as messages of chat completions. Raises ApiError, naming the item."""
    if isinstance(body.input, str):
        return [ChatMessage(role="user", content=body.input)]
    found: list[ChatMessage] = []
    for at, item in enumerate(body.input):
        where = f"input[{at}]"
        match item.type:
            case "message":
                if item.role is None or item.content is None:
                    raise _missing(where, "role" if item.role is None else "content")
                if item.role == "assistant":
                    message = _assistant_message(found)
                    message.content = [*(message.content or []), *_parts(item.content)]  # type: ignore[list-item]
                else:
                    found.append(ChatMessage(role=item.role, content=_parts(item.content)))
            case "reasoning":
                content = item.content or item.summary or []
                text = content if isinstance(content, str) else "".join(part.text for part in content)
                found.append(ChatMessage(role="assistant", reasoning_content=text))
            case "function_call":
                if item.call_id is None or item.name is None:
                    raise _missing(where, "call_id" if item.call_id is None else "name")
                arguments = request.parse_arguments(item.arguments, f"{where}.arguments")
                function = CalledFunction(name=item.name, arguments=arguments)
                message = _assistant_message(found)
                message.tool_calls = [*(message.tool_calls or []), ToolCall(id=item.call_id, function=function)]
            case "function_call_output":
                if item.call_id is None or item.output is None:
                    raise _missing(where, "call_id" if item.call_id is None else "output")
                found.append(ChatMessage(role="tool", content=_parts(item.output), tool_call_id=item.call_id))
    for message in found:
        if message.content is None:
            message.content = ""
    return found


def api_request(
    body: ResponsesBody, conversation: Sequence[ChatMessage], model: ServedModel, max_model_len: int | None = None
) -> ApiRequest:
    """Return the request of a body. `conversation` lacks its instructions. Raises ApiError, naming the field."""
    first = [] if body.instructions is None else [ChatMessage(role="system", content=body.instructions)]
    chat_body = ChatBody(
        model=body.model,
        messages=[*first, *conversation],
        tools=[_tool(tool) for tool in body.tools or []],
        tool_choice=body.tool_choice,
        parallel_tool_calls=body.parallel_tool_calls,
        max_tokens=body.max_output_tokens,
        stream=body.stream,
        temperature=body.temperature,
        top_p=body.top_p,
        reasoning_effort=body.reasoning.effort if body.reasoning else None,
    )
    return request.chat(chat_body, model, max_model_len, NAMES)


def echoed_fields(body: ResponsesBody) -> dict[str, Any]:
    """Return the request fields that the response repeats."""
    return {
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "metadata": body.metadata or {},
        "previous_response_id": body.previous_response_id,
        "reasoning": {"effort": body.reasoning.effort if body.reasoning else None, "summary": None},
        "store": body.store is not False,
        "tool_choice": body.tool_choice or "auto",
        "tools": body.tools or [],
    }


def _assistant_message(found: list[ChatMessage]) -> ChatMessage:
    """Return the last message if it is the assistant's; otherwise append one and return it."""
    if not found or found[-1].role != "assistant":
        found.append(ChatMessage(role="assistant"))
    return found[-1]


def _parts(content: str | list[Content]) -> list[ContentPart]:
    if isinstance(content, str):
        return [ContentPart(type="text", text=content)]
    return [ContentPart(type="text", text=one.text) for one in content]


def _missing(where: str, field: str) -> ApiError:
    return ApiError(f"{where}.{field} is missing", "input")


def _tool(tool: FunctionTool) -> Tool:
    described = {} if tool.description is None else {"description": tool.description}
    return Tool(function={"name": tool.name, **described, "parameters": tool.parameters or {}})
