"""Responses and chunks of OpenAI's completions, from the state of a call. The only side effect marks output as sent."""

from __future__ import annotations

import secrets
from codecs import utf_8_decode
from typing import Any

import msgspec

from app import __version__
from app.openai.call import Call, Choice, SubRequest
from app.openai.shape import Shape, TokenBytes, event
from app.openai.tool_calls import Calls
from engine.trace.records import Candidate, Output

FINGERPRINT = f"kvtheater-{__version__}"
DONE = b"data: [DONE]\n\n"
PLACE = secrets.token_hex(16)  # placeholder of a text; occurs in no name and no text


class Completions(Shape):
    """Answers of `/v1/completions` and `/v1/chat/completions`."""

    def whole(self) -> dict[str, Any]:
        return answer(self.call, self.token_bytes)

    def chunks(self) -> list[bytes]:
        return chunks(self.call, self.token_bytes)

    def last_chunks(self) -> list[bytes]:
        return last_chunks(self.call)


def answer(call: Call, token_bytes: TokenBytes) -> dict[str, Any]:
    """Return the whole response of a finished call."""
    choices = [
        whole(call, sub_request, choice, place, token_bytes)
        for sub_request in call.sub_requests
        for place, choice in enumerate(sub_request.response_choices, sub_request.first_index)
    ]
    found = {**_head(call, is_chunk=False), "choices": choices, "usage": usage(call)}
    if call.request.kind == "chat" and call.request.prompt_logprobs is not None:  # as in vLLM's response
        found["prompt_logprobs"] = _prompt_logprobs(call, call.sub_requests[0], token_bytes)
    return found


def chunks(call: Call, token_bytes: TokenBytes) -> list[bytes]:
    """Return the events since the last call, one for each choice with something to send."""
    found: list[bytes] = []
    changed, call.changed = call.changed, {}
    for choice, sub_request in changed.items():
        if choice.around is not None and choice.finish_reason is None:
            text = "".join([output.text for output in choice.outputs])
            choice.outputs = []
            if text:
                found.append(choice.around[0] + msgspec.json.encode(text) + choice.around[1])
        elif (chunk_choice := delta(call, sub_request, choice, token_bytes)) is not None:
            found.append(_chunk(call, chunk_choice))
            request = call.request
            if request.logprobs is None and not (request.only_echo or request.continuous_usage or request.reading):
                choice.around = _around(call, sub_request, choice, token_bytes)
    return found


def _chunk(call: Call, chunk_choice: dict[str, Any]) -> bytes:
    chunk = {**_head(call, is_chunk=True), "choices": [chunk_choice]}
    if call.request.include_usage:
        chunk["usage"] = usage(call) if call.request.continuous_usage else None
    return event(chunk)


def _around(call: Call, sub_request: SubRequest, choice: Choice, token_bytes: TokenBytes) -> tuple[bytes, bytes]:
    """Return the bytes before and after the text in each event of a choice between its first and its last one."""
    between = Choice(call, choice.index)
    between.has_started = True
    between.outputs = [Output(seq_id=0, token_id=0, token_bytes=b"", text=PLACE, logprob=0.0, top=[])]
    chunk_choice = delta(call, sub_request, between, token_bytes)
    assert chunk_choice is not None
    before, after = _chunk(call, chunk_choice).split(msgspec.json.encode(PLACE))
    return before, after


def last_chunks(call: Call) -> list[bytes]:
    """Return the events that end a successful stream."""
    if not call.request.include_usage:
        return [DONE]
    return [event({**_head(call, is_chunk=True), "choices": [], "usage": usage(call)}), DONE]


def usage(call: Call) -> dict[str, Any]:
    """Return the token counts of a call; `cached_tokens` are prompt tokens that hit the prefix cache."""
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


def whole(call: Call, sub_request: SubRequest, choice: Choice, index: int, token_bytes: TokenBytes) -> dict[str, Any]:
    """Return a choice of a response that is not streamed."""
    text = "".join(output.text for output in choice.outputs)
    entry: dict[str, Any] = {"index": index, "finish_reason": choice.finish_reason}
    if call.request.kind == "chat":
        reasoning, content, calls = choice.reader.read(choice.outputs, True) if choice.reader else ("", text, [])
        entry["message"] = {"role": "assistant", "content": content, "refusal": None, "annotations": []}
        if reasoning:
            entry["message"]["reasoning_content"] = reasoning
        if calls:
            entry["message"] |= {"content": content or None, "tool_calls": calls}
            entry["finish_reason"] = _reason(choice.finish_reason)
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
    """Return what is new in a choice of a stream; None if no character is complete and nothing else is new."""
    is_first, ended = not choice.has_started, choice.finish_reason
    outputs, choice.outputs = choice.outputs, []  # their text is held back, or sent now
    if choice.reader:
        reasoning, text, calls = choice.reader.read(outputs, ended is not None)
    else:
        reasoning, text, calls = "", "".join(output.text for output in outputs), Calls()
    echoed = _echo(call, sub_request, token_bytes) if is_first and call.request.kind == "completion" else ""
    is_silent = not (text or reasoning) and (call.request.logprobs is None or not choice.reader)
    if choice.is_final_sent or (is_silent and not (ended or echoed)):
        choice.outputs = [] if choice.reader else outputs
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
            entry["finish_reason"] = _reason(ended)
        entry["logprobs"] = _chat_logprobs(call, outputs)
        return entry
    if call.request.only_echo:
        text, outputs = "", []
        entry["finish_reason"] = ended and "length"
    entry["text"] = echoed + text
    with_prompt = is_first and call.request.echo
    entry["logprobs"] = _completion_logprobs(call, sub_request, outputs, token_bytes, with_prompt, choice)
    return entry


def _reason(reason: str | None) -> str | None:
    """Return the finish reason of a choice with tool calls: "tool_calls", unless a limit or an abort ended it."""
    return "tool_calls" if reason == "stop" else reason


def _echo(call: Call, sub_request: SubRequest, token_bytes: TokenBytes) -> str:
    if not call.request.echo:
        return ""
    if sub_request.prompt.text is not None:
        return sub_request.prompt.text
    return b"".join(map(token_bytes, sub_request.prompt.token_ids)).decode("utf-8", "replace")


def label(token: bytes) -> str:
    """Return a token as text; a piece of a character as its bytes, as in OpenAI's completions: `bytes:\\xe6\\x98`."""
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
    """Return four parallel lists, one entry per token; an echoed prompt's first token has no probability."""
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
    """Return, as vLLM does, a map from token id to its figures for each prompt token; None for the first."""
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
                    "rank": places.get(c.token_id),  # null: less probable than all recorded ones
                    "decoded_token": label(c.token_bytes),
                }
                for c in shown
            }
        )
    return found
