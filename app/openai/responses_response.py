"""Responses of `/v1/responses`, converted from those of chat completions."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from app.openai import response
from app.openai.bodies import CalledFunction, ChatMessage, ToolCall
from app.openai.call import Call
from app.openai.errors import ApiError
from app.openai.response_format import ResponseFormat, TokenBytes, event


class Responses(ResponseFormat):
    """Response as items: reasoning, a message, and tool calls."""

    path: ClassVar[str] = "/v1/responses"
    id_prefix: ClassVar[str] = "resp_"

    def __init__(
        self, call: Call, token_bytes: TokenBytes, echoed_fields: bytes, store: Callable[[str, ChatMessage], object]
    ) -> None:
        """`echoed_fields`: encoded request fields that the response repeats. `store`: called at the end with the
        response's id and the assistant's message.
        """
        super().__init__(call, token_bytes)
        self._echoed_fields, self._store = echoed_fields, store
        self._output: list[dict[str, Any]] = []  # finished items
        self._open: dict[str, Any] | None = None  # reasoning or message that is being generated
        self._kind = ""  # kind of its content
        self._text: list[str] = []  # its text so far
        self._has_started = False
        self._num_events = 0
        self._reason: str | None = None  # finish reason of the choice

    def body(self) -> dict[str, Any]:
        choice = response.response_body(self.call, self.token_bytes)["choices"][0]
        message, reason = choice["message"], choice["finish_reason"]
        calls = [_call(call, call["function"]["arguments"]) for call in message.get("tool_calls") or []]
        texts = {"reasoning_text": message.get("reasoning_content"), "output_text": message["content"]}
        kinds = [kind for kind, text in texts.items() if text]
        for kind in kinds:
            is_last = kind == kinds[-1] and not calls
            self._output.append(_item(kind, texts[kind], _status(reason if is_last else None)))
        self._output += calls
        return self._finish(reason)

    def chunks(self) -> list[bytes]:
        found: list[bytes] = []
        if not self._has_started:
            self._has_started = True
            started = self._response("in_progress")
            found += [self._event(f"response.{kind}", response=started) for kind in ("created", "in_progress")]
        changed, self.call.changed = self.call.changed, {}
        for choice, sub_request in changed.items():
            change = response.delta(self.call, sub_request, choice, self.token_bytes)
            if change is not None:
                found += self._events(change["delta"])
                if change["finish_reason"] is not None:
                    self._reason = change["finish_reason"]
                    found += self._close()
        return found

    def last_chunks(self) -> list[bytes]:
        finished = self._finish(self._reason)
        return [self._event(f"response.{finished['status']}", response=finished)]

    def error_chunks(self, error: ApiError) -> list[bytes]:
        failed = self._response("failed") | {"error": {"code": error.code or "server_error", "message": error.message}}
        fields = {"code": error.code, "message": error.message, "param": error.param}
        return [self._event("error", **fields), self._event("response.failed", response=failed)]

    def _events(self, delta: dict[str, Any]) -> list[bytes]:
        found: list[bytes] = []
        for kind, text in (("reasoning_text", delta.get("reasoning_content")), ("output_text", delta.get("content"))):
            if text:
                if self._open is None or self._kind != kind:
                    found += [*self._close(), *self._start(kind)]
                self._text.append(text)
                found.append(self._part_event(f"response.{kind}.delta", delta=text, **_extra_fields(kind)))
        for call in delta.get("tool_calls") or []:
            found += self._close()
            arguments, item = call["function"]["arguments"], _call(call, "", "in_progress")
            where = {"output_index": len(self._output), "item_id": item["id"]}
            found += [
                self._event("response.output_item.added", output_index=len(self._output), item=item),
                self._event("response.function_call_arguments.delta", **where, delta=arguments),
                self._event("response.function_call_arguments.done", **where, arguments=arguments),
            ]
            found.append(self._add_finished({**item, "arguments": arguments, "status": "completed"}))
        return found

    def _start(self, kind: str) -> list[bytes]:
        self._open, self._kind = _item(kind, "", "in_progress"), kind
        item = {**self._open, "content": []}
        return [
            self._event("response.output_item.added", output_index=len(self._output), item=item),
            self._part_event("response.content_part.added", part=self._open["content"][0]),
        ]

    def _close(self) -> list[bytes]:
        """Return the events that end the reasoning or the message, if one is being generated."""
        if self._open is None:
            return []
        text = "".join(self._text)
        item = _item(self._kind, text, _status(self._reason)) | {"id": self._open["id"]}
        found = [
            self._part_event(f"response.{self._kind}.done", text=text, **_extra_fields(self._kind)),
            self._part_event("response.content_part.done", part=item["content"][0]),
        ]
        self._open, self._text = None, []
        return [*found, self._add_finished(item)]

    def _add_finished(self, item: dict[str, Any]) -> bytes:
        self._output.append(item)
        return self._event("response.output_item.done", output_index=len(self._output) - 1, item=item)

    def _part_event(self, kind: str, **fields: Any) -> bytes:
        assert self._open is not None
        where = {"item_id": self._open["id"], "output_index": len(self._output), "content_index": 0}
        return self._event(kind, **where, **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._num_events += 1
        return event({"type": kind, "sequence_number": self._num_events - 1, **fields}, kind)

    def _finish(self, reason: str | None) -> dict[str, Any]:
        """Return the finished response, and store its conversation."""
        calls = [item for item in self._output if item["type"] == "function_call"]
        texts = {item["type"]: item["content"][0]["text"] for item in self._output if item["type"] != "function_call"}
        message = ChatMessage(role="assistant", content=texts.get("message", ""))
        message.reasoning_content = texts.get("reasoning")
        message.tool_calls = [
            ToolCall(id=item["call_id"], function=CalledFunction(name=item["name"], arguments=item["arguments"]))
            for item in calls
        ] or None
        self._store(self.call.id, message)
        found = self._response("completed") | {"usage": self._usage()}
        if reason == "length":
            found |= {"status": _status(reason), "incomplete_details": {"reason": "max_output_tokens"}}
        return found

    def _usage(self) -> dict[str, Any]:
        call = self.call
        parser = call.sub_requests[0].choices[0].parser
        cached, written = call.num_cached_tokens, call.num_newly_cached_tokens
        return {
            "input_tokens": call.num_prompt_tokens,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
            "output_tokens": call.num_output_tokens,
            "output_tokens_details": {"reasoning_tokens": parser.num_reasoning_tokens if parser else 0},
            "total_tokens": call.num_prompt_tokens + call.num_output_tokens,
        }

    def _response(self, status: str) -> dict[str, Any]:
        call = self.call
        echoed: dict[str, msgspec.Raw] = msgspec.json.decode(self._echoed_fields, type=dict[str, msgspec.Raw])
        return {
            **echoed,
            "id": call.id,
            "object": "response",
            "created_at": call.created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "model": call.model,
            "output": [*self._output],
            "parallel_tool_calls": call.request.parallel_tool_calls,
            "temperature": call.request.sampling.temperature,
            "text": {"format": {"type": "text"}},
            "top_p": call.request.sampling.top_p,
            "truncation": "disabled",
            "usage": None,
        }


def _item(kind: str, text: str, status: str = "completed") -> dict[str, Any]:
    """Return a message or a reasoning item, by the kind of its content."""
    content = [{"type": kind, "text": text, **_extra_fields(kind)}]
    own: dict[str, Any] = {"type": "reasoning", "summary": []}
    prefix = "rs_"
    if kind == "output_text":
        content[0]["annotations"] = []
        own, prefix = {"type": "message", "role": "assistant"}, "msg_"
    return {"id": prefix + secrets.token_hex(12), **own, "status": status, "content": content}


def _status(reason: str | None) -> str:
    """Return the status of the item with which its choice ended for `reason`; None: the choice continues after it."""
    return "incomplete" if reason == "length" else "completed"


def _extra_fields(kind: str) -> dict[str, Any]:
    """Return the additional fields of the text of a message."""
    return {"logprobs": []} if kind == "output_text" else {}


def _call(call: dict[str, Any], arguments: str, status: str = "completed") -> dict[str, Any]:
    return {
        "id": f"fc_{secrets.token_hex(12)}",
        "type": "function_call",
        "status": status,
        "call_id": call["id"],
        "name": call["function"]["name"],
        "arguments": arguments,
    }
