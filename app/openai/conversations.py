"""Conversion of a request body of any of the APIs to the conversation for a chat template, without a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from app.models.engine_face import ServedModel
from app.openai import messages_request, request, responses_request
from app.openai.bodies import ChatBody
from app.openai.errors import ApiError
from engine.prompts.rendering import Conversation

OF_TEMPLATE = (
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


class _Given(Exception):
    """Raised where the template would be rendered, to end the conversion."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self.conversation = conversation


class _Template:
    """Stand-in for a model with a chat template."""

    has_chat_template = True

    def chat(
        self, messages: list[dict[str, Any]], settings: Mapping[str, Any], tools: Sequence[dict[str, Any]] = ()
    ) -> list[int]:
        raise _Given(Conversation(messages, {**settings, "tools": list(tools) or None}))


def conversation_of(body: Mapping[str, Any]) -> Conversation:
    """Return the conversation of a body, as the server reads it.

    Raises:
        ValueError: the server would not take its messages or tools; one sentence.
    """
    model = cast(ServedModel, _Template())
    read = {name: body[name] for name in OF_TEMPLATE if body.get(name) is not None}
    try:
        if "input" in read:
            answered = msgspec.convert(read, responses_request.ResponsesBody)
            responses_request.api_request(answered, responses_request.messages(answered), model)
        elif "system" in read or not _is_chat(read):
            messages_request.count(msgspec.convert(read, messages_request.CountTokensBody), model)
        else:
            chat = msgspec.convert(read, ChatBody)
            tools = chat.tools if chat.tools and body.get("tool_choice") != "none" else []
            request.conversation(chat.messages, model, None, chat.chat_template_kwargs, tools)
    except _Given as given:
        return given.conversation
    except (ApiError, msgspec.ValidationError) as error:
        raise ValueError(" ".join(str(error).split())[:200]) from error
    raise ValueError("it has no conversation")


def _is_chat(body: Mapping[str, Any]) -> bool:
    """Return whether a body without `system` is of chat completions, by its tools and the parts of its contents."""
    if any("input_schema" in tool for tool in body.get("tools") or ()):
        return False
    contents = [message.get("content") for message in body["messages"]]
    parts = [part for content in contents if isinstance(content, list) for part in content if isinstance(part, dict)]
    return not any(part.get("type") in ("tool_use", "tool_result", "thinking") for part in parts)
