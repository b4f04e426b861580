"""Server in a child process that can be killed and restarted on the same port."""

import os
import signal
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from app.server.listener import bind
from tests.conftest import ROOT
from tests.preloaded import PreloadedPopen

SERVE = """
import os, signal, sys, threading
from pathlib import Path
from app.models.registry import Models
from app.models.model_entry import ModelEntry
from app.server.application import create_app
from app.server.listener import Listener, bind
from app.ground.settings import ServerSettings
from engine.config import EngineConfig
from tests.server.fake import FakeModel
token, data = os.environ.get("MORTAL_TOKEN"), os.environ.get("MORTAL_DATA")
settings = ServerSettings(config=EngineConfig(block_size=4, num_blocks=64), token=token, data_dir=data and Path(data))
app = create_app(Models(ModelEntry(FakeModel())), settings)
listener = Listener(app, bind("127.0.0.1", int(sys.argv[1])))
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
stop.wait()
listener.close()
"""


class RestartableServer:
    """Server in a child process, on the same port after each restart."""

    def __init__(self, token: str = "", data: Path | None = None, served: bool = False) -> None:
        """Start the server. `served`: run the program with the bundled model, instead of a server with a fake model."""
        self.token, self.data, self._served = token, data, served
        bound = bind("127.0.0.1", 0)
        self.port = bound.getsockname()[1]
        bound.close()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        variables = {"MORTAL_TOKEN": self.token, "MORTAL_DATA": str(self.data or "")}
        env = {**os.environ, **{name: value for name, value in variables.items() if value}}
        serve = ["-m", "app", "serve", "--enforce-eager", "--data-dir", str(self.data), "--port"]
        program = serve if self._served else ["-c", SERVE]
        self.process = PreloadedPopen([sys.executable, *program, str(self.port)], cwd=ROOT, env=env)
        end = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/api/health", timeout=5).close()
                return
            except urllib.error.HTTPError:  # the token is missing
                return
            except OSError:
                assert time.monotonic() < end, "the server did not start"
                time.sleep(0.1)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(120)  # long, for a busy machine

    def stop(self) -> None:
        """Stop the server with a notice to its viewers."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)
