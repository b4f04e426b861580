"""Responses and chunks of OpenAI's completions, from the state of a call, in which they mark output as sent."""

from __future__ import annotations

import secrets
from codecs import utf_8_decode
from typing import Any

import msgspec

from app import __version__
from app.openai.call import Call, Choice, SubRequest
from app.openai.response_format import ResponseFormat, TokenBytes, event
from app.openai.tool_calls import Calls
from engine.trace.records import Candidate, Output

FINGERPRINT = f"kvtheater-{__version__}"
DONE = b"data: [DONE]\n\n"
PLACEHOLDER = secrets.token_hex(16)  # stands for the text in an envelope; too random to occur in one


class Completions(ResponseFormat):
    """Format of `/v1/completions` and `/v1/chat/completions`."""

    def body(self) -> dict[str, Any]:
        return response_body(self.call, self.token_bytes)

    def chunks(self) -> list[bytes]:
        return chunks(self.call, self.token_bytes)

    def last_chunks(self) -> list[bytes]:
        return last_chunks(self.call)


def response_body(call: Call, token_bytes: TokenBytes) -> dict[str, Any]:
    """Return the response to a finished call."""
    choices = [
        choice_body(call, sub_request, choice, place, token_bytes)
        for sub_request in call.sub_requests
        for place, choice in enumerate(sub_request.response_choices, sub_request.first_index)
    ]
    found = {**_head(call, is_chunk=False), "choices": choices, "usage": usage(call)}
    if call.request.kind == "chat" and call.request.prompt_logprobs is not None:  # as in vLLM's response
        found["prompt_logprobs"] = _prompt_logprobs(call, call.sub_requests[0], token_bytes)
    return found


def chunks(call: Call, token_bytes: TokenBytes) -> list[bytes]:
    """Return the events since the last call, one for each choice with new output."""
    found: list[bytes] = []
    changed, call.changed = call.changed, {}
    for choice, sub_request in changed.items():
        if choice.envelope is not None and choice.finish_reason is None:
            text = "".join([output.text for output in choice.outputs])
            choice.outputs = []
            if text:
                found.append(choice.envelope[0] + msgspec.json.encode(text) + choice.envelope[1])
        elif (chunk_choice := delta(call, sub_request, choice, token_bytes)) is not None:
            found.append(_chunk(call, chunk_choice))
            request = call.request
            is_plain = not (request.only_echo or request.continuous_usage or request.parser_settings)
            if request.logprobs is None and is_plain:
                choice.envelope = _envelope(call, sub_request, choice, token_bytes)
    return found


def _chunk(call: Call, chunk_choice: dict[str, Any]) -> bytes:
    chunk = {**_head(call, is_chunk=True), "choices": [chunk_choice]}
    if call.request.include_usage:
        chunk["usage"] = usage(call) if call.request.continuous_usage else None
    return event(chunk)


def _envelope(call: Call, sub_request: SubRequest, choice: Choice, token_bytes: TokenBytes) -> tuple[bytes, bytes]:
    """Return the bytes before and after the text in the events of a choice, which are equal in all but the first and
    the last event.
    """
    sample = Choice(call, choice.index)
    sample.has_started = True
    sample.outputs = [Output(seq_id=0, token_id=0, token_bytes=b"", text=PLACEHOLDER, logprob=0.0, top=[])]
    chunk_choice = delta(call, sub_request, sample, token_bytes)
    assert chunk_choice is not None
    before, after = _chunk(call, chunk_choice).split(msgspec.json.encode(PLACEHOLDER))
    return before, after


def last_chunks(call: Call) -> list[bytes]:
    """Return the events that end a successful stream."""
    if not call.request.include_usage:
        return [DONE]
    return [event({**_head(call, is_chunk=True), "choices": [], "usage": usage(call)}), DONE]


def usage(call: Call) -> dict[str, Any]:
    """Return the token counts of a call. `cached_tokens`: prompt tokens that hit the prefix cache."""
    prompt, output = call.num_prompt_tokens, call.num_output_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": call.num_cached_tokens},
    }


def _head(call: Call, is_chunk: bool) -> dict[str, Any]:
    kind = "text_completion"
    if call.request.kind == "chat":
        kind = "chat.completion.chunk" if is_chunk else "chat.completion"
    return {
        "id": call.id,
        "object": kind,
        "created": call.created,
        "model": call.model,
        "system_fingerprint": FINGERPRINT,
    }


def choice_body(
    call: Call, sub_request: SubRequest, choice: Choice, index: int, token_bytes: TokenBytes
) -> dict[str, Any]:
    """Return a choice of a response that is not streamed."""
    text = "".join(output.text for output in choice.outputs)
    entry: dict[str, Any] = {"index": index, "finish_reason": choice.finish_reason}
    if call.request.kind == "chat":
        reasoning, content, calls = choice.parser.read(choice.outputs, True) if choice.parser else ("", text, [])
        entry["message"] = {"role": "assistant", "content": content, "refusal": None, "annotations": []}
        if reasoning:
            entry["message"]["reasoning_content"] = reasoning
        if calls:
            entry["message"] |= {"content": content or None, "tool_calls": calls}
            entry["finish_reason"] = _tool_calls_reason(choice.finish_reason)
        entry["logprobs"] = _chat_logprobs(call, choice.outputs)
    else:
        echoed = _echo(call, sub_request, token_bytes)
        outputs = [] if call.request.only_echo else choice.outputs
        entry["text"] = echoed + ("" if call.request.only_echo else text)
        entry["logprobs"] = _completion_logprobs(call, sub_request, outputs, token_bytes, with_prompt=call.request.echo)
        if call.request.only_echo:
            entry["finish_reason"] = "length"
        if call.request.prompt_logprobs is not None:
            entry["prompt_logprobs"] = _prompt_logprobs(call, sub_request, token_bytes)
    return entry


def delta(call: Call, sub_request: SubRequest, choice: Choice, token_bytes: TokenBytes) -> dict[str, Any] | None:
    """Return the new output of a choice of a stream; None if there is nothing to send, such as a complete character."""
    is_first, ended = not choice.has_started, choice.finish_reason
    outputs, choice.outputs = choice.outputs, []
    if choice.parser:
        reasoning, text, calls = choice.parser.read(outputs, ended is not None)
    else:
        reasoning, text, calls = "", "".join(output.text for output in outputs), Calls()
    echoed = _echo(call, sub_request, token_bytes) if is_first and call.request.kind == "completion" else ""
    has_no_text = not (text or reasoning) and (call.request.logprobs is None or not choice.parser)
    if choice.is_final_sent or (has_no_text and not (ended or echoed)):
        choice.outputs = [] if choice.parser else outputs  # a parser has their text
        return None
    choice.has_started = True
    choice.is_final_sent = ended is not None
    entry: dict[str, Any] = {"index": choice.index, "finish_reason": ended}
    if call.request.kind == "chat":
        entry["delta"] = ({"role": "assistant"} if is_first else {}) | ({"content": text} if text or is_first else {})
        if reasoning:
            entry["delta"]["reasoning_content"] = reasoning
        if calls:
            entry["delta"]["tool_calls"] = [{"index": i, **one} for i, one in enumerate(calls)]
            entry["finish_reason"] = _tool_calls_reason(ended)
        entry["logprobs"] = _chat_logprobs(call, outputs)
        return entry
    if call.request.only_echo:
        text, outputs = "", []
        entry["finish_reason"] = ended and "length"
    entry["text"] = echoed + text
    with_prompt = is_first and call.request.echo
    entry["logprobs"] = _completion_logprobs(call, sub_request, outputs, token_bytes, with_prompt, choice)
    return entry


def _tool_calls_reason(reason: str | None) -> str | None:
    """Return the finish reason of a choice with tool calls: "tool_calls", unless a limit or an abort ended it."""
    return "tool_calls" if reason == "stop" else reason


def _echo(call: Call, sub_request: SubRequest, token_bytes: TokenBytes) -> str:
    if not call.request.echo:
        return ""
    if sub_request.prompt.text is not None:
        return sub_request.prompt.text
    return b"".join(map(token_bytes, sub_request.prompt.token_ids)).decode("utf-8", "replace")


def label(token: bytes) -> str:
    """Return a token as text. Part of a character becomes `bytes:\\xe6\\x98`, as in OpenAI's completions."""
    try:
        return token.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token)


def _chat_logprobs(call: Call, outputs: list[Output]) -> dict[str, Any] | None:
    count = call.request.logprobs
    if count is None:
        return None
    content = [
        {
            **_token_logprob(o.token_bytes, o.logprob),
            "top_logprobs": [_token_logprob(c.token_bytes, c.logprob) for c in o.top[:count]],
        }
        for o in outputs
    ]
    return {"content": content, "refusal": None}


def _token_logprob(token: bytes, logprob: float) -> dict[str, Any]:
    return {"token": label(token), "logprob": logprob, "bytes": list(token)}


def _completion_logprobs(
    call: Call,
    sub_request: SubRequest,
    outputs: list[Output],
    token_bytes: TokenBytes,
    with_prompt: bool,
    choice: Choice | None = None,
) -> dict[str, Any] | None:
    """Return four parallel lists with an entry per token. The first token of an echoed prompt has no probability."""
    count = call.request.logprobs
    if count is None:
        return None
    rows: list[tuple[bytes, float | None, list[Candidate] | None]] = []
    if with_prompt:
        scored = {one.position: one for one in sub_request.prompt_logprobs}
        for position, token_id in enumerate(sub_request.prompt.token_ids):
            one = scored.get(position)
            figures = (None, None) if one is None else (one.logprob, one.top[:count])
            rows.append((token_bytes(token_id), *figures))
    rows += [(output.token_bytes, output.logprob, output.top[:count]) for output in outputs]
    at, unfinished = (choice.num_characters, choice.unfinished) if choice else (0, b"")
    logprobs: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    for token, logprob, top in rows:
        text = label(token)
        logprobs["tokens"].append(text)
        logprobs["token_logprobs"].append(logprob)
        best = None if top is None else {label(c.token_bytes): c.logprob for c in top}
        logprobs["top_logprobs"].append(best if best is None or logprob is None else {text: logprob} | best)
        logprobs["text_offset"].append(at)
        unfinished += token
        characters, used = utf_8_decode(unfinished, "replace", False)  # a character counts once it is complete
        at, unfinished = at + len(characters), unfinished[used:]
    if choice:
        choice.num_characters, choice.unfinished = at, unfinished
    return logprobs


def _prompt_logprobs(call: Call, sub_request: SubRequest, token_bytes: TokenBytes) -> list[dict[str, Any] | None]:
    """Return for each prompt token a map of token id to figures, as vLLM does; None for the first token."""
    count = call.request.prompt_logprobs or 0
    found: list[dict[str, Any] | None] = [None]
    for one in sorted(sub_request.prompt_logprobs, key=lambda scored: scored.position):
        places = {candidate.token_id: place for place, candidate in enumerate(one.top, 1)}
        own = Candidate(one.token_id, token_bytes(one.token_id), one.logprob)
        shown = [own, *(c for c in one.top[:count] if c.token_id != one.token_id)]
        found.append(
            {
                str(c.token_id): {
                    "logprob": c.logprob,
                    "rank": places.get(c.token_id),  # null: less probable than all recorded candidates
                    "decoded_token": label(c.token_bytes),
                }
                for c in shown
            }
        )
    return found
