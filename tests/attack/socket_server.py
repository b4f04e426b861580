"""Server over a fake model in a process of its own, so that its memory and threads can be measured."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

HANDSHAKE = (
    b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
TEXT, BINARY, PING, PONG, FIN = 1, 2, 9, 10, 128
PROGRAM = """
import json, sys
from pathlib import Path
from app.models.registry import Models
from app.models.model_entry import ModelEntry
from app.server.application import create_app
from app.server.listener import Listener, bind
from app.ground.settings import ServerSettings
from app.ground.limits import Limits
from engine.config import EngineConfig
from tests.server.fake import FakeEngine, FakeModel

limits, model = Limits(**json.loads(sys.argv[1])), FakeModel()
model.step_seconds, FakeEngine.capture_width = float(sys.argv[2]), int(sys.argv[5])
folder = Path(sys.argv[3])
config = EngineConfig(block_size=4, num_blocks=256)
settings = ServerSettings(config=config, limits=limits, data_dir=folder, token=sys.argv[4] or None)
listener = Listener(create_app(Models(ModelEntry(model)), settings), bind("127.0.0.1", 0))
print(listener.port, flush=True)
sys.stdin.read()
listener.close()
"""


def frame(opcode: int, payload: bytes = b"", final: bool = True) -> bytes:
    """A frame as a client sends it, masked with zeros."""
    length = len(payload)
    size = bytes([128 | length]) if length < 126 else bytes([128 | 126]) + length.to_bytes(2, "big")
    return bytes([opcode | (FIN if final else 0)]) + size + bytes(4) + payload


class AttackedServer:
    """Process of the server."""

    def __init__(
        self, folder: Path, step_seconds: float = 0.0, token: str = "", capture_width: int = 4, **limits: Any
    ) -> None:
        """folder: for recordings. capture_width: values of a head in captures. limits: fields of the transport's
        `Limits` that differ from what is usual.
        """
        arguments = [json.dumps(limits), str(step_seconds), str(folder), token, str(capture_width)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    def _status(self, field: str) -> int:
        with open(f"/proc/{self._process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(field + ":"))

    @property
    def memory(self) -> int:
        """Return the peak of resident memory in MiB."""
        return self._status("VmHWM") // 1024

    @property
    def resident(self) -> int:
        """Return the current resident memory in MiB."""
        return self._status("VmRSS") // 1024

    @property
    def threads(self) -> int:
        return self._status("Threads")

    def close(self) -> str:
        """Stop the server and return its terminal output."""
        try:
            _, err = self._process.communicate("", timeout=20)
        finally:
            self._process.kill()
            self._process.wait()
        return err


def event(name: str, fields: dict[str, Any], number: int | None = None) -> bytes:
    """Return a Socket.IO event as bytes on the wire."""
    return msgspec.msgpack.encode({"type": 2, "nsp": "/", "id": number, "data": [name, fields]})
