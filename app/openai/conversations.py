"""Conversion of a request body of any API to the conversation for a chat template, without a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from app.models.engine_face import ServedModel
from app.openai import messages_request, request, responses_request
from app.openai.bodies import ChatBody
from app.openai.errors import ApiError
from engine.prompts.rendering import Conversation

TEMPLATE_FIELDS = (
    "messages",
    "system",
    "tools",
    "chat_template_kwargs",
    "thinking",
    "output_config",
    "reasoning",
    "input",
    "instructions",
)


class _Converted(Exception):
    """Raised instead of rendering the template, to end the conversion."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self.conversation = conversation


class _Template:
    """Stand-in for a model with a chat template."""

    has_chat_template = True

    def chat(
        self, messages: list[dict[str, Any]], settings: Mapping[str, Any], tools: Sequence[dict[str, Any]] = ()
    ) -> list[int]:
        raise _Converted(Conversation(messages, {**settings, "tools": list(tools) or None}))


def conversation_of(body: Mapping[str, Any]) -> Conversation:
    """Return the conversation of a body, as the server parses it.

    Raises:
        ValueError: the server would reject the messages or the tools.
    """
    model = cast(ServedModel, _Template())
    fields = {name: body[name] for name in TEMPLATE_FIELDS if body.get(name) is not None}
    try:
        if "input" in fields:
            responses_body = msgspec.convert(fields, responses_request.ResponsesBody)
            responses_request.api_request(responses_body, responses_request.messages(responses_body), model)
        elif "system" in fields or not _is_chat(fields):
            messages_request.count(msgspec.convert(fields, messages_request.CountTokensBody), model)
        else:
            chat = msgspec.convert(fields, ChatBody)
            tools = chat.tools if chat.tools and body.get("tool_choice") != "none" else []
            request.conversation(chat.messages, model, None, chat.chat_template_kwargs, tools)
    except _Converted as converted:
        return converted.conversation
    except (ApiError, msgspec.ValidationError) as error:
        raise ValueError(" ".join(str(error).split())[:200]) from error
    raise ValueError("the body has no conversation")


def _is_chat(body: Mapping[str, Any]) -> bool:
    """Return whether a body without `system` is one of chat completions, by its tools and content parts."""
    if any("input_schema" in tool for tool in body.get("tools") or ()):
        return False
    contents = [message.get("content") for message in body["messages"]]
    parts = [part for content in contents if isinstance(content, list) for part in content if isinstance(part, dict)]
    return not any(part.get("type") in ("tool_use", "tool_result", "thinking") for part in parts)
