"""`kvtheater proxy` in a separate process."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import ROOT


class Running:
    """Process of the proxy."""

    def __init__(self, upstream: str, output: Path, *options: str) -> None:
        command = [
            sys.executable,
            "-m",
            "app",
            "proxy",
            "--upstream",
            upstream,
            "--port",
            "0",
            "-o",
            str(output),
            *options,
        ]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        self.url = re.findall(r"http://127\.0\.0\.1:\d+$", first.strip())[-1]
        self.output = output

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.output.read_text().splitlines()]

    def stop(self) -> str:
        """Stop the proxy and return its output."""
        self.process.send_signal(signal.SIGINT)
        output, _ = self.process.communicate(timeout=20)
        assert self.process.returncode == 0, output
        return str(output)
