"""Server in the test process with the API on the bundled model, so that tests can inspect its engine."""

import functools
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from openai import OpenAI

from app.ground.settings import ApiSettings, ServerSettings
from app.models.live_model import load
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.openai.sessions import ServedSession
from app.server.application import create_app
from app.server.listener import Listener, bind
from engine.config import EngineConfig
from engine.trace.check import check
from engine.trace.log import TraceReader
from engine.trace.operations import Op
from engine.trace.records import StepRecord

CONFIG = EngineConfig(block_size=4, num_blocks=256, max_num_seqs=8, enforce_eager=True)


@functools.cache
def bundled() -> Any:
    return load("bundled", "auto", "cpu", ServerSettings(), lambda stage: None)


class Api:
    """Server, its address, and its components."""

    def __init__(self, api: ApiSettings, config: EngineConfig = CONFIG, model: Any = None, **settings: Any) -> None:
        model = model or bundled()
        self.app = create_app(Models(ModelEntry(model)), ServerSettings(config=config, api=api, **settings))
        self.listener = Listener(self.app, bind("127.0.0.1", 0))
        self.port = self.listener.port
        self.url = f"http://127.0.0.1:{self.port}"

    def client(self, key: str = "test", **options: Any) -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=60, **options)

    @property
    def served(self) -> ServedSession:
        """Return the API's session and its engine."""
        found: ServedSession = self.app.extensions["kvtheater.api"].session_of_model(None)
        return found

    def records(self) -> list[StepRecord]:
        with self.served.session.run.reading() as log:
            return [log.record(i) for i in range(len(log))]

    def held(self) -> int:
        """Return the number of blocks that sequences hold."""
        with self.served.session.run.reading() as log:
            return log.record(len(log) - 1).memory.blocks_held if len(log) else 0

    def post(self, path: str = "/v1/completions", **body: Any) -> requests.Response:
        streams = bool(body.get("stream"))
        return requests.post(self.url + path, json={"model": "bundled"} | body, timeout=60, stream=streams)

    def ops(self, folder: Path, session_id: str | None = None) -> list[Op]:
        """Check a session's log and return its operations. None: the API's session."""
        path, session_id = folder / "now.kvtrace", session_id or self.served.session.session_id
        path.write_bytes(requests.get(f"{self.url}/api/theaters/{session_id}/trace", timeout=60).content)
        assert list(check(path)) == []
        with TraceReader(path) as log:
            return [op for i in range(len(log)) for op in log.record(i).ops]

    def send(self, data: bytes, path: str = "/v1/completions", **headers: str) -> requests.Response:
        return requests.post(self.url + path, data=data, headers=headers, timeout=60)

    def open(self, **body: Any) -> socket.socket:
        """Send a request without reading the response."""
        data = json.dumps({"model": "bundled"} | body).encode()
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        head = f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n\r\n"
        connection.sendall(head.encode() + data)
        return connection

    def close(self) -> None:
        self.listener.close()


@contextmanager
def served_api(api: ApiSettings | None = None, **settings: Any) -> Iterator[Api]:
    found = Api(api or ApiSettings(), **settings)
    try:
        yield found
    finally:
        found.close()
