"""Application of a web worker: holds sockets for the engine's process, serves files and words, forwards the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import Flask, Response, request

from app.ground import routing
from app.ground.callers import ADDRESS, SHOWN, Pass, Person, Shown, guest
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
OWN = ("/socket.io", "/static/", "/words/", "/vendor/")  # what a worker answers itself


def create_worker(
    queue: str, refused: Callable[[str], None], server: str | None = None, limits: Limits | None = None
) -> Flask:
    """Return the application. `app.extensions` has its `kvtheater.transport` and its `kvtheater.link`, to start and to
    stop.

    Args:
        queue: the message queue's address.
        refused: called with why the engine's process will not have this worker.
        server: where that one answers HTTP, if not at the address that it names.
        limits: on clients.

    Raises:
        BusError: there is no such message queue.
    """
    prepare_types()
    app = Flask("kvtheater", static_folder=str(static_dir()))
    transport = Transport(app, limits or Limits(), MAX_MESSAGE_BYTES, refused_body, packets=Relayed)
    clients = transport.clients
    link = Link(queue, transport.hub, clients, refused)
    app.extensions["kvtheater.transport"] = transport
    app.extensions["kvtheater.link"] = link

    def come(sid: str, environ: Mapping[str, Any]) -> None:
        link.came(sid, environ[SHOWN], environ[ADDRESS])

    def identify(shown: Shown) -> Person:
        known = link.identify(shown)
        return Person(known.is_owner, known.seat and Pass(*known.seat))

    clients.on_connections(come, link.went)
    clients.limit_guests(guest)
    clients.forward_events(link.ask, _busy)
    proxy = Proxy(lambda: server or link.server)

    def forward(path: str = "") -> Response:
        """Return the answer of the engine's process."""
        if request.path.startswith(FOR_PROGRAMS):
            return proxy.stream(request)
        return proxy.answer(request)

    app.register_blueprint(words.blueprint())
    app.add_url_rule("/vendor/plotly.min.js", "plotly", plotly_asset.answer)
    for rule in ("/", "/<path:path>"):
        app.add_url_rule(rule, "asked", forward, methods=METHODS)
    app.register_error_handler(Exception, routing.answer_error)
    files = assets.StaticFiles(app.wsgi_app, static_dir(), page_modules.PAGE.find, page_sheets.SHEETS.find)
    # the engine's process has its own guard
    app.wsgi_app = Guard(files, None, identify, is_elsewhere=lambda path: not path.startswith(OWN))  # type: ignore[method-assign]
    return app


def _busy(why: str) -> dict[str, Any]:
    return {"ok": False, **refuse("busy", "server.busy", why=why).as_map()}
