"""Server in a separate process with any environment, which can be killed."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import requests

from tests.conftest import ROOT

SERVE = """
import sys, threading
from pathlib import Path
from typing import Any
from app.models.registry import Models
from app.models.model_entry import ModelEntry
from app.server.application import create_app
from app.server.listener import Listener, bind
from app.ground.settings import ApiSettings, ServerSettings
from engine.config import EngineConfig
from tests.server.fake import FakeModel

config = EngineConfig(block_size=4, num_blocks=512)
settings = ServerSettings(data_dir=Path(sys.argv[1]), config=config, api=ApiSettings())
app = create_app(Models(ModelEntry(FakeModel())), settings)
listener = Listener(app, bind("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.port}", flush=True)
threading.Event().wait()
"""


class Process:
    """Server with the fake model in a separate process."""

    def __init__(
        self, data: Path, within: Sequence[str] = (), errors: Path = Path(os.devnull), **environment: str
    ) -> None:
        """Start the server. `within`: prefix of the command. `errors`: file for its standard error."""
        with errors.open("wb") as file:
            self.process = subprocess.Popen(
                [*within, sys.executable, "-c", SERVE, str(data)], cwd=ROOT, stdout=subprocess.PIPE, stderr=file,
                text=True, env={**os.environ, **environment},
            )  # fmt: skip
        assert self.process.stdout is not None
        found = re.search(r"http://\S+", self.process.stdout.readline())
        assert found
        self.url = found.group()

    def recordings(self) -> dict[str, Any]:
        answer: dict[str, Any] = requests.get(f"{self.url}/api/recordings").json()
        answer["recordings"] = [r for r in answer["recordings"] if r["source"] == "library"]
        return answer

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
