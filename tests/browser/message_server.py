"""Server in a child process that receives commands of the test."""

import subprocess
import sys

from tests.conftest import ROOT
from tests.preloaded import PreloadedPopen


class CommandedServer:
    """Process of `program`, which prints its port and then reads commands, one per line."""

    def __init__(self, program: str) -> None:
        self.process = PreloadedPopen(
            [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
