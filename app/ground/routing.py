"""Registration of endpoints, which are functions `endpoint(context, request, **parts of the path) -> Response`.

`context` is a NamedTuple of each module with the objects that its endpoints use, so that a test can call an endpoint
without a server.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flask
from flask import Request, Response
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from app.ground.errors import HTTP_STATUS, INTERNAL_ERROR, RETRY_AFTER, AppError, Code, refusal_of
from app.ground.plain import to_json

Endpoint = Callable[..., Response]  # (context, request, **parts of the path)


class Route(NamedTuple):
    """Path of the server and its endpoint. `rule`: Flask's rule, with parts in angle brackets."""

    method: str
    rule: str
    endpoint: Endpoint


def blueprint(name: str, prefix: str, context: Any, routes: Sequence[Route]) -> flask.Blueprint:
    """Return a blueprint of routes under `prefix`, whose endpoints are called with `context` and the request."""
    found = flask.Blueprint(name, __name__, url_prefix=prefix or None)
    for number, (method, rule, endpoint) in enumerate(routes):
        view = functools.partial(_call, endpoint, context)
        found.add_url_rule(rule, f"{method}-{endpoint.__name__}-{number}", view, methods=[method])
    return found


def _call(endpoint: Endpoint, context: Any, **parts: Any) -> Response:
    return endpoint(context, flask.request, **parts)


def json_answer(value: Any) -> Response:
    """Return an uncacheable response with the value as JSON (`plain.to_json`)."""
    response = Response(to_json(value), mimetype="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response


def refusal_and_status(error: Exception) -> tuple[AppError, int]:
    """Return the refusal for an error, and its HTTP status. Logs bugs of the program."""
    if isinstance(error, HTTPException):
        status = error.code or 500
        code: Code = "not_found" if status == 404 else "bad_request" if status < 500 else "internal"
        return AppError(code, http_sentence(error, flask.request)), status
    if found := refusal_of(error):
        return found, HTTP_STATUS[found.code]
    flask.current_app.logger.error("%s %s", flask.request.method, flask.request.path, exc_info=error)
    return AppError("internal", INTERNAL_ERROR), 500


def http_sentence(error: HTTPException, request: Request) -> str:
    """Return the message of a Flask or Werkzeug error. For a wrong method, it names the allowed ones."""
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        methods = " or ".join(sorted({*error.valid_methods} - {"HEAD", "OPTIONS"}))
        return f"{request.method} {request.path[:80]} is not allowed; use {methods}"
    return error.description or error.name


def with_allow_header(error: Exception, response: Response) -> Response:
    """Return the response to an error, with an `Allow` header if the path does not allow the request's method."""
    if isinstance(error, MethodNotAllowed):
        response.allow.update(error.valid_methods or ())
    return response


def answer_error(error: Exception) -> Response:
    """Return the response to an error as JSON."""
    refusal, status = refusal_and_status(error)
    response = json_answer(refusal.as_map())
    response.status_code = status
    if refusal.code == "loading":
        response.headers["Retry-After"] = str(RETRY_AFTER)
    return with_allow_header(error, response)
