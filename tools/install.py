"""Install KV Theater into this interpreter's environment: `python tools/install.py [EXTRA ...]`.

On Linux the default build of torch brings NVIDIA's CUDA libraries. uv knows PyTorch's other builds, so it installs
torch first, in the build that fits this machine (`--torch-backend auto`: CPU only where there is no GPU). pip keeps
that build and installs the rest. Where pip has packages of its own (`find-links`), it chooses torch too.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
# Sums of the wheels that pip downloads for constraints.txt on x86-64, without an extra; Python 3.11.
DOWNLOADED = "0.3 GB with torch for the CPU, 2.8 GB with torch for CUDA"


def pip(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pip", *arguments]


def has_own_packages() -> bool:
    """Return whether pip is configured to look for packages in a folder."""
    listed = subprocess.run(pip("config", "list"), capture_output=True, text=True, check=False).stdout
    return "find-links" in listed


def pinned_torch() -> str:
    """Return the requirement of torch in constraints.txt, such as `torch==2.13.0`."""
    found = re.search(r"^torch==[\w.]+", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE)
    assert found, "constraints.txt has no line for torch: python -m tools.constraints"
    return found.group()


def install_torch() -> None:
    """Install the build of torch that fits this machine's GPU, or the CPU build.

    Prints a sentence when it fails; pip then installs the default build.
    """
    subprocess.run(pip("install", "--quiet", "--constraint", str(CONSTRAINTS), "uv"), check=True)
    uv = [sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable, "--torch-backend", "auto"]
    if subprocess.run([*uv, pinned_torch()], check=False).returncode:
        print("PyTorch's own index did not answer: pip installs the default build, which brings CUDA", flush=True)


def main(extras: list[str]) -> int:
    print(f"installing KV Theater: downloads {DOWNLOADED}", flush=True)
    if sys.platform == "linux" and not has_own_packages():
        install_torch()
    what = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    # make compiles what is imported; pip would compile all twelve thousand modules, one after another
    flags = ["--no-compile"] if "test" in extras else []
    command = pip("install", *flags, "--constraint", str(CONSTRAINTS), "--editable", what)
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
