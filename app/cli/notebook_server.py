"""`python -m app.cli.notebook_server ARGUMENT ...`: a command of `kvtheater` that ends with the notebook that began it.

The notebook holds the other end of the standard input: however it ends, the input does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from app.cli import main


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 1):  # not sys.stdin, whose lock would be held when this process ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_input, daemon=True).start()
    sys.exit(main())
