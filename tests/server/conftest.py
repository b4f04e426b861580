"""Fixtures of a real server with a fake model on a free port of 127.0.0.1, and of real Socket.IO clients."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import socketio

from app.ground.settings import ServerSettings
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.server.application import create_app
from app.server.listener import Listener, bind
from app.session.messages import SubmittedPrompt
from engine.config import EngineConfig, SamplingParams
from tests.server.fake import FakeModel
from tests.server.redis_server import RedisServer
from tests.server.waiting import wait_for as wait_for
from tests.server.web_workers import Worker


class Client:
    """Viewer that stores all received messages. A cleared `hold` delays acknowledgements, as a slow viewer does."""

    def __init__(self, url: str, **connect: Any) -> None:
        session = requests.Session()  # as in a browser, polls send the headers of the first request
        session.headers.update(connect.get("headers", {}))
        self.io = socketio.Client(serializer="msgpack", reconnection=False, http_session=session)
        self.batches: list[dict[str, Any]] = []
        self.statuses: list[dict[str, Any]] = []
        self.resets: list[dict[str, Any]] = []
        self.large: list[dict[str, Any]] = []
        self.closed: list[dict[str, Any]] = []
        self.log: list[str] = []  # names of received messages, in order
        self.hold = threading.Event()
        self.hold.set()
        self._listen()
        self.io.connect(url, wait_timeout=10, transports=connect.pop("transports", ["websocket"]), **connect)

    def _listen(self) -> None:
        self.io.on("records", self._on_records)
        self.io.on("status", lambda m: self._store("status", self.statuses, m))
        self.io.on("reset", lambda m: self._store("reset", self.resets, m))
        self.io.on("large", lambda m: self._store("large", self.large, m))
        self.io.on("closed", lambda m: self._store("closed", self.closed, m))

    def _store(self, name: str, messages: list[dict[str, Any]], message: dict[str, Any]) -> None:
        self.log.append(name)
        messages.append(message)

    def _on_records(self, message: dict[str, Any]) -> None:
        self._store("records", self.batches, message)
        self.hold.wait(120)

    def ask(self, event: str, message: Any = None, **fields: Any) -> Any:
        """Send an event, and return the acknowledgement or refusal."""
        return self.io.call(event, fields if message is None else message, timeout=20)

    def do(self, event: str, **fields: Any) -> dict[str, Any]:
        """Send an event that must succeed, and return the acknowledgement."""
        answer: dict[str, Any] = self.ask(event, **fields)
        assert answer["ok"], answer
        return answer

    def refused(self, event: str, message: Any = None, **fields: Any) -> dict[str, Any]:
        """Send an event that must be refused in one sentence, and return the error."""
        answer = self.ask(event, message, **fields)
        assert answer["ok"] is False, answer
        error: dict[str, Any] = answer["error"]
        assert set(error) - {"said"} == {"code", "message"}
        assert error["message"] and "\n" not in error["message"] and "Traceback" not in error["message"]
        return error

    def records(self, epoch: int = 0) -> list[bytes]:
        """Return the records of an epoch, which must be in order without a gap."""
        batches = [b for b in self.batches if b["epoch"] == epoch]
        received: list[bytes] = []
        for batch in batches:
            assert batch["first"] == batches[0]["first"] + len(received)
            assert len(batch["captures"]) == len(batch["records"])
            received += batch["records"]
        return received


class Server:
    """Application on a listening socket."""

    def __init__(self, model: Any = None, **settings: Any) -> None:
        """Start the application. `model`: by default a fake model."""
        self.model = model or FakeModel()
        settings.setdefault("config", EngineConfig(block_size=4, num_blocks=256))
        self.app = create_app(Models(ModelEntry(self.model)), ServerSettings(**settings))
        self.theaters = self.app.extensions["kvtheater"]
        self.listener = Listener(self.app, bind("127.0.0.1", 0))
        self.transport = self.app.extensions["kvtheater.transport"]  # of the clients
        self.port = self.listener.port
        self.url = f"http://127.0.0.1:{self.port}"
        self.clients: list[Client] = []

    def client(self, **connect: Any) -> Client:
        self.clients.append(Client(self.url, **connect))
        return self.clients[-1]

    def close(self) -> None:
        for client in self.clients:
            client.hold.set()
            with contextlib.suppress(Exception):
                client.io.disconnect()
        self.listener.close()


class WorkerServer(Server):
    """Server that clients use through a web worker, including its HTTP routes."""

    def __init__(self, queue: str, **settings: Any) -> None:
        super().__init__(message_queue=queue, **settings)
        self.worker = Worker(queue, limits=settings.get("limits")).linked()
        self.url, self.port, self.transport = self.worker.url, self.worker.port, self.worker.transport

    def close(self) -> None:
        super().close()
        self.worker.close()


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    found = RedisServer(tmp_path)
    yield found
    found.stop()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of modules with `BY_WORKERS = True` both on the server directly and through a web worker."""
    if "make_server" in metafunc.fixturenames and getattr(metafunc.module, "BY_WORKERS", False):
        metafunc.parametrize("make_server", ["itself", "by_worker"], indirect=True)


@pytest.fixture
def make_server(request: pytest.FixtureRequest) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []
    by_worker = getattr(request, "param", "itself") == "by_worker"
    redis: RedisServer | None = request.getfixturevalue("redis_server") if by_worker else None

    def make(model: Any = None, **settings: Any) -> Server:
        if redis is None:
            servers.append(Server(model, **settings))
        else:
            servers.append(WorkerServer(redis.database(len(servers)), **settings))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def server(make_server: Callable[..., Server]) -> Server:
    return make_server()


@pytest.fixture
def room(make_server: Callable[..., Server]) -> Any:
    """Return a class on a server that requires a token."""
    from tests.server.classes import TOKEN, Room

    return Room(make_server(token=TOKEN))


@pytest.fixture
def client(server: Server) -> Client:
    return server.client()


@pytest.fixture
def viewer(live_server: str) -> Iterator[Client]:
    """Yield a client of the live server."""
    found = Client(live_server)
    yield found
    found.io.disconnect()


@pytest.fixture
def theater(client: Client) -> str:
    return str(client.do("create", name="a test")["theater"])


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a valid trace of one submission and five steps."""
    path = tmp_path / "run.kvtrace"
    engine = FakeModel().build(EngineConfig(block_size=4), path)
    engine.submit([SubmittedPrompt(text="abc")], SamplingParams(max_tokens=5))
    while engine.num_unfinished():
        engine.step()
    engine.close()
    return path
