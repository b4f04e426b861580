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
from app.ground.malloc_trim import TRIM
from app.ground.routing import Route, json_answer
from app.ground.settings import Policy
from app.metrics.observer import SPANS
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.openai import messages_request, responses_request
from app.openai import request as asking
from app.openai.answering import Answering
from app.openai.bodies import ChatBody, ChatMessage, CompletionBody, DetokenizeBody, TokenizeBody, read
from app.openai.call import Call
from app.openai.engine import AsyncEngine
from app.openai.errors import ApiError, api_error, of_http
from app.openai.held import Held, bytes_of
from app.openai.keys import ApiKeys
from app.openai.messages_request import CountTokensBody, MessagesBody
from app.openai.messages_response import Messages
from app.openai.paths import MAX_BYTES, SESSION
from app.openai.request import ApiRequest
from app.openai.response import Completions
from app.openai.responses_request import ResponsesBody
from app.openai.responses_response import Responses
from app.openai.sessions import ApiSessions
from app.openai.shape import Shape, TokenBytes
from app.openai.stored_responses import StoredResponses
from app.transport.access_log import add_fields
from app.transport.workers import ARRIVED

BYTES_OF_BYTE = 8  # approximate memory per byte of a body while it is decoded
ShapeOf = Callable[[Call, TokenBytes], Shape]
MAX_TOKENS = 1 << 20  # in one request to detokenize


class OpenAIContext(NamedTuple):
    """Objects that the endpoints share."""

    sessions: ApiSessions
    models: Models
    keys: ApiKeys
    held: Held
    stored: StoredResponses
    began: int  # seconds since 1970


def completions(context: OpenAIContext, request: Request) -> Response:
    """Complete one or several prompts."""
    policy = context.keys.policy(bearer(request.environ))
    body = read(_data(request), CompletionBody)
    return _answer(context, request, policy, body, partial(asking.completion, body), Completions)


def chat_completions(context: OpenAIContext, request: Request) -> Response:
    """Complete a conversation, formatted by the model's own chat template or the plain one."""
    policy = context.keys.policy(bearer(request.environ))
    body = read(_data(request), ChatBody)
    return _answer(context, request, policy, body, partial(asking.chat, body), Completions)


def messages(context: OpenAIContext, request: Request) -> Response:
    """Continue a conversation in Anthropic's shape."""
    policy = context.keys.policy(bearer(request.environ))
    body = read(_data(request), MessagesBody)
    return _answer(
        context, request, policy, body, partial(messages_request.api_request, body), Messages, Messages.id_prefix
    )


def count_tokens(context: OpenAIContext, request: Request) -> Response:
    """Count the prompt tokens of a conversation in Anthropic's shape."""
    context.keys.policy(bearer(request.environ))
    body = read(_data(request), CountTokensBody)
    found = context.sessions.model(body.model)
    engine = context.sessions.resolved(found.facts)
    return json_answer({"input_tokens": messages_request.count(body, found, engine.max_model_len if engine else None)})


def responses(context: OpenAIContext, request: Request) -> Response:
    """Continue a conversation in the shape of OpenAI's Responses."""
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

    shape = partial(Responses, echoed_fields=echoed, store=store)
    make = partial(responses_request.api_request, body, conversation)
    held = len(echoed) + len(stored)
    return _answer(context, request, policy, body, make, shape, Responses.id_prefix, held)


def embeddings(context: OpenAIContext, request: Request) -> Response:
    """Reject the request: no model makes embeddings."""
    raise ApiError("this server makes no embeddings: its models continue texts", status=404, code="not_implemented")


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
        raise ApiError("send a prompt or messages, one of the two", "prompt")
    if body.messages is not None:
        token_ids = asking.conversation(
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
        raise ApiError(f"{len(body.tokens)} tokens at once; {MAX_TOKENS} are taken", "tokens")
    if not all(token < found.facts.vocab_size for token in body.tokens):
        raise ApiError(f"tokens has ids outside 0..{found.facts.vocab_size - 1}", "tokens")
    return json_answer({"prompt": b"".join(map(found.token_bytes, body.tokens)).decode("utf-8", "replace")})


def health(context: OpenAIContext, request: Request) -> Response:
    """Return 200 as soon as the first model is loaded."""
    context.models.first.model  # noqa: B018  # its error is the response
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
    Route("GET", "/ping", health),  # SageMaker's name for it
    Route("GET", "/version", version),
]


def blueprint(sessions: ApiSessions, models: Models, keys: ApiKeys) -> flask.Blueprint:
    """Return the blueprint with the API's routes."""
    return routing.blueprint(
        "openai", "", OpenAIContext(sessions, models, keys, Held(), StoredResponses(), int(time.time())), ROUTES
    )


def answer_error(error: Exception) -> Response:
    """Answer an error at an address of the API in that API's shape."""
    request = flask.request
    refusal = of_http(error, request) if isinstance(error, HTTPException) else api_error(error)
    if refusal is None:
        flask.current_app.logger.error("%s %s", request.method, request.path, exc_info=error)
        refusal = ApiError("the server made a mistake; its terminal says more", status=500)
    _, headers, data = refusal.response(request.path)
    return routing.allowing(error, Response(data, status=refusal.status, headers=headers))


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
    make: Callable[[Any, int | None], ApiRequest],
    shape: ShapeOf,
    id_prefix: str = "",
    held_bytes: int = 0,
) -> Response:
    """Begin a call and return its response. `held_bytes`: held by `shape` until the end, beside the prompts."""
    if body.model is None:
        raise ApiError(f"model is missing; this server has {', '.join(m.name for m in context.models.all())}", "model")
    session_id = request.headers.get(SESSION) or body.session
    served = context.sessions.named(session_id, body.model) if session_id else None
    found = context.sessions.model(served.session.model_name if served else body.model)
    usual = context.sessions.resolved(found.facts) if served is None else None
    api_request = make(found, usual.max_model_len if usual else None)
    _check_policy(api_request, policy)
    over = context.held.take(policy.name, bytes_of(api_request) + held_bytes)
    try:
        session, engine = served or context.sessions.of_model(body.model)
        call = Call(api_request, policy.name, found.facts.name, session.session_id, request.environ[ARRIVED], id_prefix)
        return _begun(request, policy, shape(call, found.token_bytes), engine, over)
    except BaseException:
        over()
        raise


def _begun(
    request: Request,
    policy: Policy,
    shape: Shape,
    engine: AsyncEngine,
    over: Callable[[], None],
) -> Response:
    call = shape.call
    note = partial(add_fields, request.environ)
    note(client=policy.name, request_id=call.id, model=call.model, theater=call.session_id)
    spans = flask.current_app.extensions[SPANS]
    for sub_request in call.sub_requests if spans else ():
        spans.expect(sub_request.request_id, request.headers)
    engine.ask(call, policy)
    body = Answering(shape, engine, request.host_url, policy.deadline, note, over)
    return Response(body, direct_passthrough=True)


def _check_policy(api_request: ApiRequest, policy: Policy) -> None:
    """Check max_tokens against the client's limit; without max_tokens, the engine's thread chooses a number."""
    most, wanted = policy.max_tokens, api_request.sampling.max_tokens
    if most is not None and wanted is not None and wanted > most:
        name = api_request.names.get("max_tokens", "max_tokens")
        raise ApiError(f"{name} is {wanted}; this client may ask for {most}", name)


def _model_facts(context: OpenAIContext, served: ModelEntry) -> dict[str, Any]:
    engine = context.sessions.resolved(served.facts) if served.facts else None
    found: dict[str, Any] = {
        "id": served.name,
        "object": "model",
        "created": context.began,
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
