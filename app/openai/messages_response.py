"""Responses of `/v1/messages` in Anthropic's format, converted from those of chat completions."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from app.openai import response
from app.openai.call import Choice
from app.openai.errors import ApiError
from app.openai.paths import MESSAGES
from app.openai.response_format import ResponseFormat, event

STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


class Messages(ResponseFormat):
    """Response as a message with blocks of thinking, text and tool calls."""

    path: ClassVar[str] = MESSAGES
    id_prefix: ClassVar[str] = "msg_"
    keep_alive: ClassVar[bytes] = event({"type": "ping"}, "ping")

    _has_started = False
    _index = -1  # index of the open or the last block
    _open = ""  # kind of the open block; "": none is open

    def body(self) -> dict[str, Any]:
        completed = response.response_body(self.call, self.token_bytes)["choices"][0]
        message, choice = completed["message"], self._choice
        content: list[dict[str, Any]] = []
        if "reasoning_content" in message:
            content.append({"type": "thinking", "thinking": message["reasoning_content"], "signature": ""})
        if message["content"]:
            content.append({"type": "text", "text": message["content"]})
        content += [
            {"type": "tool_use", "id": id, "name": name, "input": msgspec.json.decode(arguments)}
            for id, name, arguments in _calls(message)
        ]
        reason, sequence = self._stop_reason(choice, completed["finish_reason"])
        return self._message(content, reason, sequence, self.call.num_output_tokens)

    def chunks(self) -> list[bytes]:
        changed, self.call.changed = self.call.changed, {}
        found: list[bytes] = []
        for choice, sub_request in changed.items():
            update = response.delta(self.call, sub_request, choice, self.token_bytes)
            if update is not None:
                found += self._events(update["delta"])
                if update["finish_reason"] is not None and self.call.error is None:
                    found += self._close()
                    reason, sequence = self._stop_reason(choice, update["finish_reason"])
                    delta = {"stop_reason": reason, "stop_sequence": sequence}
                    found.append(_event("message_delta", delta=delta, usage=self._usage(self.call.num_output_tokens)))
        return found

    def last_chunks(self) -> list[bytes]:
        return [_event("message_stop")]

    def error_chunks(self, error: ApiError) -> list[bytes]:
        return [event(error.as_map(self.path), "error")]

    def _events(self, delta: dict[str, Any]) -> list[bytes]:
        found: list[bytes] = []
        if not self._has_started:
            self._has_started = True
            found.append(_event("message_start", message=self._message([], None, None, 0)))
        if thought := delta.get("reasoning_content"):
            if self._open != "thinking":
                found += self._start("thinking", thinking="", signature="")
            found.append(self._delta("thinking_delta", thinking=thought))
        if text := delta.get("content"):
            if self._open != "text":
                found += self._start("text", text="")
            found.append(self._delta("text_delta", text=text))
        for id, name, arguments in _calls(delta):
            found += self._start("tool_use", id=id, name=name, input={})
            found.append(self._delta("input_json_delta", partial_json=arguments))
        return found

    def _start(self, kind: str, **block: Any) -> list[bytes]:
        found = self._close()
        self._index += 1
        self._open = kind
        return [*found, _event("content_block_start", index=self._index, content_block={"type": kind, **block})]

    def _delta(self, kind: str, **delta: Any) -> bytes:
        return _event("content_block_delta", index=self._index, delta={"type": kind, **delta})

    def _close(self) -> list[bytes]:
        if not self._open:
            return []
        self._open = ""
        return [_event("content_block_stop", index=self._index)]

    @property
    def _choice(self) -> Choice:
        return self.call.sub_requests[0].choices[0]

    def _stop_reason(self, choice: Choice, reason: str) -> tuple[str, str | None]:
        """Return the stop reason, and the matched stop sequence if there is one."""
        if reason == "stop" and choice.stopped_by in self.call.request.sampling.stop:
            return "stop_sequence", choice.stopped_by
        if reason == "length" and self.call.sub_requests[0].sampling.max_tokens is None:
            return "model_context_window_exceeded", None
        return STOP_REASONS[reason], None

    def _message(
        self, content: list[Any], stop_reason: str | None, stop_sequence: str | None, num_output_tokens: int
    ) -> dict[str, Any]:
        return {
            "id": self.call.id,
            "type": "message",
            "role": "assistant",
            "model": self.call.model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": stop_sequence,
            "usage": self._usage(num_output_tokens),
        }

    def _usage(self, num_output_tokens: int) -> dict[str, Any]:
        """Return the token counts. Each prompt token counts once: as a hit, as newly cached, or as neither."""
        call = self.call
        read, created = call.num_cached_tokens, call.num_newly_cached_tokens
        return {
            "input_tokens": call.num_prompt_tokens - read - created,
            "cache_creation_input_tokens": created,
            "cache_read_input_tokens": read,
            "output_tokens": num_output_tokens,
        }


def _calls(message: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return id, name and arguments of each tool call of a message of chat completions."""
    calls = message.get("tool_calls") or []
    return [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls]


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)
