"""Install KV Theater into this interpreter's environment: `python tools/install.py [--oldest | --newest] [EXTRA ...]`.

`--oldest` installs the oldest torch and transformers that pyproject.toml allows, with the usual versions of other
packages. `--newest` installs the newest version of every package, as `pip install kvtheater` does.

On Linux the default build of torch requires NVIDIA's CUDA libraries. uv can select another build, so it installs torch
first (`--torch-backend auto`: the CPU build on machines without a GPU). pip keeps that build and installs the rest. If
pip is configured with a local folder of packages (`find-links`), pip installs torch as well.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
OLDEST = ("torch", "transformers")
# packages that are not pinned with the oldest versions, because torch or transformers require other versions
DEPENDENT = ("triton", "setuptools", "tokenizers", "huggingface-hub", "hf-xet")
OLDEST_NUMPY = "numpy<2.4\n"  # the interpreter of Triton 3.6, in which tests run kernels, does not support later ones
# total size of the wheels for constraints.txt on x86-64 and Python 3.11, without extras
DOWNLOADED = "0.3 GB with torch for the CPU, 2.8 GB with torch for CUDA"


def pip(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pip", *arguments]


def has_own_packages() -> bool:
    """Return whether pip is configured with a local folder of packages."""
    listed = subprocess.run(pip("config", "list"), capture_output=True, text=True, check=False).stdout
    return "find-links" in listed


def oldest() -> str:
    """Return constraints.txt with torch and transformers pinned to their lower bounds in pyproject.toml."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    bounds = dict(re.findall(r"^([\w-]+)>=([\d.]+)", "\n".join(declared), re.MULTILINE))
    pinned = re.sub(
        rf"^({'|'.join((*OLDEST, *DEPENDENT, 'numpy'))})==.*\n", "", CONSTRAINTS.read_text(encoding="utf-8"), flags=re.M
    )
    return pinned + "".join(f"{name}=={bounds[name]}\n" for name in OLDEST) + OLDEST_NUMPY


def install_torch(constraints: Path) -> None:
    """Install the build of torch for this machine's GPU, or the CPU build.

    Prints a message if that fails; then pip installs the default build.
    """
    pinned = re.search(r"^torch==[\w.]+", constraints.read_text(encoding="utf-8"), re.MULTILINE)
    subprocess.run(pip("install", "--quiet", "--constraint", str(constraints), "uv"), check=True)
    uv = [sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable, "--torch-backend", "auto"]
    if subprocess.run([*uv, pinned.group() if pinned else "torch"], check=False).returncode:
        print("PyTorch's index did not answer: pip installs the default build, which includes CUDA", flush=True)


def main(arguments: list[str]) -> int:
    extras = [name for name in arguments if not name.startswith("--")]
    print(f"installing KV Theater: downloads {DOWNLOADED}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kvtheater-") as folder:
        constraints = Path(folder) / "constraints.txt"
        usual = "" if "--newest" in arguments else CONSTRAINTS.read_text(encoding="utf-8")
        constraints.write_text(oldest() if "--oldest" in arguments else usual, encoding="utf-8")
        if sys.platform == "linux" and not has_own_packages():
            install_torch(constraints)
        target = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
        # make compiles the imported modules; pip would compile all twelve thousand sequentially
        flags = ["--no-compile"] if "test" in extras else []
        command = pip("install", *flags, "--constraint", str(constraints), "--editable", target)
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
