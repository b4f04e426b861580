"""Download the wheels that a borrowed machine lacks: `python -m tests.gpu.carry FOLDER`.

The wheels are for Python 3.12 on Linux x86-64, in the versions of constraints.txt.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAX_BYTES = 24 << 20  # leaves room for packed tokens in the 64 MiB that can be carried
# dependencies of the program and the server, without those in a container image for torch, and without plotly for size
PACKAGES = (
    "msgspec", "zlib-ng", "flask", "werkzeug", "jinja2", "markupsafe", "click", "itsdangerous", "blinker",
    "flask-socketio", "python-socketio", "python-engineio", "simple-websocket", "bidict", "wsproto", "h11", "gevent",
    "greenlet", "zope-event", "zope-interface", "segno", "simpy", "sqlalchemy", "typing-extensions", "msgpack",
    "prometheus-client", "rich", "markdown-it-py", "mdurl", "pygments", "psutil", "nvidia-ml-py", "sortedcontainers",
)  # fmt: skip


def main(folder: Path) -> int:
    """Download; returns the exit status."""
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in (28, 27, 24, 17)] + ["manylinux2014_x86_64"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--python-version", "3.12", "--implementation", "cp", "--dest", str(folder)]
    command += [word for platform in platforms for word in ("--platform", platform)]
    command += ["--constraint", str(ROOT / "constraints.txt"), *PACKAGES]
    if status := subprocess.run(command, check=False).returncode:
        return status
    size = sum(wheel.stat().st_size for wheel in folder.glob("*.whl"))
    print(f"{len(list(folder.glob('*.whl')))} wheels, {size / 2**20:.1f} MiB, in {folder}")
    if size > MAX_BYTES:
        print(f"they take more than the {MAX_BYTES >> 20} MiB that are left for them beside packed tokens")
    return int(size > MAX_BYTES)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
