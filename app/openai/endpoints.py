"""HTTP endpoints for clients of OpenAI's, vLLM's and Anthropic's APIs."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import flask
import msgspec
from flask import Request, Response
from werkzeug.exceptions import HTTPException

from app import __version__
from app.ground import routing
from app.ground.callers import bearer
from app.ground.errors import INTERNAL_ERROR
from app.ground.malloc_trim import TRIM
from app.ground.routing import Route, json_answer
from app.ground.settings import Policy
from app.metrics.observer import SPANS
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.openai import messages_request, responses_request
from app.openai import request as parse
from app.openai.bodies import ChatBody, ChatMessage, CompletionBody, DetokenizeBody, TokenizeBody, read
from app.openai.call import Call
from app.openai.call_response import CallResponse
from app.openai.engine import AsyncEngine
from app.openai.errors import ApiError, api_error, from_http_error
from app.openai.keys import ApiKeys
from app.openai.memory_budget import MemoryBudget, bytes_of
from app.openai.messages_request import CountTokensBody, MessagesBody
from app.openai.messages_response import Messages
from app.openai.paths import MAX_BYTES, SESSION
from app.openai.request import ApiRequest
from app.openai.response import Completions
from app.openai.response_format import ResponseFormat, TokenBytes
from app.openai.responses_request import ResponsesBody
from app.openai.responses_response import Responses
from app.openai.sessions import ApiSessions
from app.openai.stored_responses import StoredResponses
from app.transport.access_log import add_fields
from app.transport.workers import ARRIVED

BYTES_OF_BYTE = 8  # approximate memory per byte of a body while it is decoded
FormatOf = Callable[[Call, TokenBytes], ResponseFormat]
MAX_TOKENS = 1 << 20  # token ids in one request to detokenize


class OpenAIContext(NamedTuple):
    """Objects that the endpoints share."""

    sessions: ApiSessions
    models: Models
    keys: ApiKeys
    memory: MemoryBudget
    stored: StoredResponses
    started: int  # seconds since 1970


def completions(context: OpenAIContext, request: Request) -> Response:
    """Complete one or several prompts."""
    policy = context.keys.policy(bearer(request.environ))
    body = read(_data(request), CompletionBody)
    return _answer(context, request, policy, body, partial(parse.completion, body), Completions)


def chat_completions(context: OpenAIContext, request: Request) -> Response:
    """Complete a conversation, rendered with the model's own chat template or the plain one."""
    policy = context.keys.policy(bearer(request.environ))
    body = read(_data(request), ChatBody)
    return _answer(context, request, policy, body, partial(parse.chat, body), Completions)


def messages(context: OpenAIContext, request: Request) -> Response:
    """Continue a conversation in Anthropic's format."""
    policy = context.keys.policy(bearer(request.environ))
    body = read(_data(request), MessagesBody)
    return _answer(
        context, request, policy, body, partial(messages_request.api_request, body), Messages, Messages.id_prefix
    )


def count_tokens(context: OpenAIContext, request: Request) -> Response:
    """Count the prompt tokens of a conversation in Anthropic's format."""
    context.keys.policy(bearer(request.environ))
    body = read(_data(request), CountTokensBody)
    found = context.sessions.model(body.model)
    engine = context.sessions.resolved(found.facts)
    return json_answer({"input_tokens": messages_request.count(body, found, engine.max_model_len if engine else None)})


def responses(context: OpenAIContext, request: Request) -> Response:
    """Continue a conversation in the format of OpenAI's Responses."""
    policy = context.keys.policy(bearer(request.environ))
    body = read(_data(request), ResponsesBody)
    previous = body.previous_response_id
    conversation = context.stored.get(policy.name, previous) if previous is not None else []
    conversation += responses_request.messages(body)
    echoed = msgspec.json.encode(responses_request.echoed_fields(body))
    stored = b"" if body.store is False else msgspec.json.encode(conversation)

    def store(response_id: str, message: ChatMessage) -> None:
        if stored:
            context.stored.put(policy.name, response_id, stored[:-1] + b"," + msgspec.json.encode(message) + b"]")

    format_of = partial(Responses, echoed_fields=echoed, store=store)
    parse_body = partial(responses_request.api_request, body, conversation)
    extra_bytes = len(echoed) + len(stored)
    return _answer(context, request, policy, body, parse_body, format_of, Responses.id_prefix, extra_bytes)


def embeddings(context: OpenAIContext, request: Request) -> Response:
    """Reject the request: no model computes embeddings."""
    raise ApiError("this server has no embedding model", status=404, code="not_implemented")


def models(context: OpenAIContext, request: Request) -> Response:
    """List every model of the server."""
    return json_answer({"object": "list", "data": [_model_facts(context, served) for served in context.models.all()]})


def model(context: OpenAIContext, request: Request, name: str) -> Response:
    """Return the model `name`; 404 if the server has no such model."""
    for served in context.models.all():
        if served.name == name:
            return json_answer(_model_facts(context, served))
    raise ApiError(f"this server has no model {name[:200]!r}", "model", status=404, code="model_not_found")


def tokenize(context: OpenAIContext, request: Request) -> Response:
    """Encode a text or a conversation to token ids."""
    context.keys.policy(bearer(request.environ))
    body = read(_data(request), TokenizeBody)
    found = context.sessions.model(body.model)
    if (body.prompt is None) == (body.messages is None):
        raise ApiError("send either prompt or messages", "prompt")
    if body.messages is not None:
        token_ids = parse.conversation(
            body.messages, found, template_settings=body.chat_template_kwargs, tools=body.tools or []
        )
    else:
        token_ids = found.encode(found.normalize(body.prompt or ""))
    answer: dict[str, Any] = {
        "count": len(token_ids),
        "max_model_len": engine.max_model_len if (engine := context.sessions.resolved(found.facts)) else None,
        "tokens": token_ids,
        "token_strs": None,
    }
    if body.return_token_strs:
        answer["token_strs"] = [found.token_bytes(i).decode("utf-8", "replace") for i in token_ids]
    return json_answer(answer)


def detokenize(context: OpenAIContext, request: Request) -> Response:
    """Decode token ids to text."""
    context.keys.policy(bearer(request.environ))
    body = read(_data(request), DetokenizeBody)
    found = context.sessions.model(body.model)
    if len(body.tokens) > MAX_TOKENS:
        raise ApiError(f"tokens may have at most {MAX_TOKENS} ids, not {len(body.tokens)}", "tokens")
    if not all(token < found.facts.vocab_size for token in body.tokens):
        raise ApiError(f"the ids of tokens must be in 0..{found.facts.vocab_size - 1}", "tokens")
    return json_answer({"prompt": b"".join(map(found.token_bytes, body.tokens)).decode("utf-8", "replace")})


def health(context: OpenAIContext, request: Request) -> Response:
    """Return 200 if the first model is loaded."""
    context.models.first.model  # noqa: B018  # raises the error for the response
    return Response(status=200)


def version(context: OpenAIContext, request: Request) -> Response:
    """Return the version of this program."""
    return json_answer({"version": __version__})


ROUTES = [
    Route("POST", "/v1/completions", completions),
    Route("POST", "/v1/chat/completions", chat_completions),
    Route("POST", "/v1/messages", messages),
    Route("POST", "/v1/messages/count_tokens", count_tokens),
    Route("POST", "/v1/responses", responses),
    Route("POST", "/v1/embeddings", embeddings),
    Route("GET", "/v1/models", models),
    Route("GET", "/v1/models/", models),
    Route("GET", "/v1/models/<path:name>", model),
    Route("POST", "/tokenize", tokenize),
    Route("POST", "/detokenize", detokenize),
    Route("GET", "/health", health),
    Route("GET", "/ping", health),  # for SageMaker
    Route("GET", "/version", version),
]


def blueprint(sessions: ApiSessions, models: Models, keys: ApiKeys) -> flask.Blueprint:
    """Return the blueprint with the API's routes."""
    return routing.blueprint(
        "openai", "", OpenAIContext(sessions, models, keys, MemoryBudget(), StoredResponses(), int(time.time())), ROUTES
    )


def answer_error(error: Exception) -> Response:
    """Return the response to an error, in the format of the API that the request's path belongs to."""
    request = flask.request
    refusal = from_http_error(error, request) if isinstance(error, HTTPException) else api_error(error)
    if refusal is None:
        flask.current_app.logger.error("%s %s", request.method, request.path, exc_info=error)
        refusal = ApiError(INTERNAL_ERROR, status=500)
    _, headers, data = refusal.response(request.path)
    return routing.with_allow_header(error, Response(data, status=refusal.status, headers=headers))


def _data(request: Request) -> bytes:
    request.max_content_length = MAX_BYTES
    found = request.get_data(cache=False)
    TRIM.freed(len(found) * BYTES_OF_BYTE)
    request.environ.setdefault(ARRIVED, time.monotonic())
    return found


def _answer(
    context: OpenAIContext,
    request: Request,
    policy: Policy,
    body: CompletionBody | ChatBody | MessagesBody | ResponsesBody,
    parse_body: Callable[[Any, int | None], ApiRequest],
    format_of: FormatOf,
    id_prefix: str = "",
    extra_bytes: int = 0,
) -> Response:
    """Submit a call and return its response. `extra_bytes`: memory of the response format until the end."""
    if body.model is None:
        raise ApiError(f"model is missing; this server has {', '.join(m.name for m in context.models.all())}", "model")
    session_id = request.headers.get(SESSION) or body.session
    served = context.sessions.session_by_id(session_id, body.model) if session_id else None
    found = context.sessions.model(served.session.model_name if served else body.model)
    config = context.sessions.resolved(found.facts) if served is None else None
    api_request = parse_body(found, config.max_model_len if config else None)
    _check_policy(api_request, policy)
    release = context.memory.allocate(policy.name, bytes_of(api_request) + extra_bytes)
    try:
        session, engine = served or context.sessions.session_of_model(body.model)
        call = Call(api_request, policy.name, found.facts.name, session.session_id, request.environ[ARRIVED], id_prefix)
        return _submit(request, policy, format_of(call, found.token_bytes), engine, release)
    except BaseException:
        release()
        raise


def _submit(
    request: Request,
    policy: Policy,
    format: ResponseFormat,
    engine: AsyncEngine,
    release: Callable[[], None],
) -> Response:
    call = format.call
    log_fields = partial(add_fields, request.environ)
    log_fields(client=policy.name, request_id=call.id, model=call.model, theater=call.session_id)
    spans = flask.current_app.extensions[SPANS]
    for sub_request in call.sub_requests if spans else ():
        spans.expect(sub_request.request_id, request.headers)
    engine.submit(call, policy)
    body = CallResponse(format, engine, request.host_url, policy.deadline, log_fields, release)
    return Response(body, direct_passthrough=True)


def _check_policy(api_request: ApiRequest, policy: Policy) -> None:
    """Check max_tokens against the client's limit. `_sampling_that_fits` chooses it if it is not set."""
    limit, requested = policy.max_tokens, api_request.sampling.max_tokens
    if limit is not None and requested is not None and requested > limit:
        name = api_request.names.get("max_tokens", "max_tokens")
        raise ApiError(f"{name} must be at most {limit} for this client, not {requested}", name)


def _model_facts(context: OpenAIContext, served: ModelEntry) -> dict[str, Any]:
    engine = context.sessions.resolved(served.facts) if served.facts else None
    found: dict[str, Any] = {
        "id": served.name,
        "object": "model",
        "created": context.started,
        "owned_by": "kvtheater",
        "root": served.name,
        "parent": None,
        "max_model_len": engine.max_model_len if engine else None,
        "engine": engine.as_map() if engine else None,
        "state": served.status()["state"],
    }
    if served.is_loaded:
        found["chat_template"] = "own" if served.model.has_chat_template else "plain"
        found["default_sampling_params"] = served.model.default_sampling
    return found
