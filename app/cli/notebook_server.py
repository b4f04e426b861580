"""`python -m app.cli.notebook_server ARGUMENT ...`: a `kvtheater` command that ends with the notebook that started it.

Standard input is a pipe from the notebook. The system closes it when the notebook ends, even after a crash.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from app.cli import main


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 1):  # sys.stdin would hold its lock when this process exits
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_input, daemon=True).start()
    sys.exit(main())
