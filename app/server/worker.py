"""Application of a web worker: serves sockets, files and words, and forwards all else to the server's process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import Flask, Response, request

from app.ground import routing
from app.ground.callers import ADDRESS, CREDENTIALS, Credentials, Pass, Person, guest
from app.ground.errors import refuse
from app.ground.limits import Limits
from app.ground.paths import static_dir
from app.ground.settings import MIB
from app.openai.paths import PREFIX as FOR_PROGRAMS
from app.page import assets, words
from app.page import modules as page_modules
from app.page import plotly as plotly_asset
from app.page import sheets as page_sheets
from app.relay.link import Link
from app.relay.proxy import METHODS, Proxy
from app.server.first_use import prepare_types
from app.server.security import Guard, refused_body
from app.transport.packets import Relayed
from app.transport.server import Transport

MAX_MESSAGE_BYTES = MIB
OWN = ("/socket.io", "/static/", "/words/", "/vendor/")  # paths that a worker answers itself


def create_worker(
    queue: str, on_refused: Callable[[str], None], server: str | None = None, limits: Limits | None = None
) -> Flask:
    """Return the application. The caller must start and stop `kvtheater.transport` and `kvtheater.link` of its
    `extensions`.

    Args:
        queue: the message queue's URL.
        on_refused: called with the reason if the server rejects this worker.
        server: the server's HTTP address; None: the address that it reports.
        limits: limits of clients.

    Raises:
        BusError: the message queue cannot be used.
    """
    prepare_types()
    app = Flask("kvtheater", static_folder=str(static_dir()))
    transport = Transport(app, limits or Limits(), MAX_MESSAGE_BYTES, refused_body, packets=Relayed)
    clients = transport.clients
    link = Link(queue, transport.hub, clients, on_refused)
    app.extensions["kvtheater.transport"] = transport
    app.extensions["kvtheater.link"] = link

    def on_connect(sid: str, environ: Mapping[str, Any]) -> None:
        link.connect(sid, environ[CREDENTIALS], environ[ADDRESS])

    def identify(credentials: Credentials) -> Person:
        identity = link.identify(credentials)
        return Person(identity.is_owner, identity.seat and Pass(*identity.seat))

    clients.on_connections(on_connect, link.disconnect)
    clients.limit_guests(guest)
    clients.forward_events(link.forward_event, _busy)
    proxy = Proxy(lambda: server or link.server)

    def forward(path: str = "") -> Response:
        """Return the response of the server's process."""
        if request.path.startswith(FOR_PROGRAMS):
            return proxy.stream(request)
        return proxy.answer(request)

    app.register_blueprint(words.blueprint())
    app.add_url_rule("/vendor/plotly.min.js", "plotly", plotly_asset.answer)
    for rule in ("/", "/<path:path>"):
        app.add_url_rule(rule, "forward", forward, methods=METHODS)
    app.register_error_handler(Exception, routing.answer_error)
    files = assets.StaticFiles(app.wsgi_app, static_dir(), page_modules.PAGE.find, page_sheets.SHEETS.find)
    # the server's process has its own guard
    app.wsgi_app = Guard(files, None, identify, is_elsewhere=lambda path: not path.startswith(OWN))  # type: ignore[method-assign]
    return app


def _busy(reason: str) -> dict[str, Any]:
    return {"ok": False, **refuse("busy", "server.busy", why=reason).as_map()}
