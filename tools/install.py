"""Install KV Theater into this interpreter's environment: `python tools/install.py [--oldest | --newest] [EXTRA ...]`.

`--oldest` installs the oldest torch and transformers that pyproject.toml allows, and everything else as usual;
`--newest` the newest version of every package, as `pip install kvtheater` does.

On Linux the default build of torch brings NVIDIA's CUDA libraries. uv knows PyTorch's other builds, so it installs
torch first, in the build that fits this machine (`--torch-backend auto`: CPU only where there is no GPU). pip keeps
that build and installs the rest. Where pip has packages of its own (`find-links`), it chooses torch too.
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
# packages whose pins fit other versions of those
THEIR_OWN = ("triton", "setuptools", "tokenizers", "huggingface-hub", "hf-xet")
OF_THEIR_TIME = "numpy<2.4\n"  # the interpreter of Triton 3.6, which tests run kernels in, knows no later one
# Sums of the wheels that pip downloads for constraints.txt on x86-64, without an extra; Python 3.11.
DOWNLOADED = "0.3 GB with torch for the CPU, 2.8 GB with torch for CUDA"


def pip(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pip", *arguments]


def has_own_packages() -> bool:
    """Return whether pip is configured to look for packages in a folder."""
    listed = subprocess.run(pip("config", "list"), capture_output=True, text=True, check=False).stdout
    return "find-links" in listed


def oldest() -> str:
    """Return constraints.txt with the lower bounds that pyproject.toml gives torch and transformers as their pins."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    bounds = dict(re.findall(r"^([\w-]+)>=([\d.]+)", "\n".join(declared), re.MULTILINE))
    pinned = re.sub(
        rf"^({'|'.join((*OLDEST, *THEIR_OWN, 'numpy'))})==.*\n", "", CONSTRAINTS.read_text(encoding="utf-8"), flags=re.M
    )
    return pinned + "".join(f"{name}=={bounds[name]}\n" for name in OLDEST) + OF_THEIR_TIME


def install_torch(constraints: Path) -> None:
    """Install the build of torch that fits this machine's GPU, or the CPU build.

    Prints a sentence when it fails; pip then installs the default build.
    """
    pinned = re.search(r"^torch==[\w.]+", constraints.read_text(encoding="utf-8"), re.MULTILINE)
    subprocess.run(pip("install", "--quiet", "--constraint", str(constraints), "uv"), check=True)
    uv = [sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable, "--torch-backend", "auto"]
    if subprocess.run([*uv, pinned.group() if pinned else "torch"], check=False).returncode:
        print("PyTorch's own index did not answer: pip installs the default build, which brings CUDA", flush=True)


def main(arguments: list[str]) -> int:
    extras = [name for name in arguments if not name.startswith("--")]
    print(f"installing KV Theater: downloads {DOWNLOADED}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kvtheater-") as folder:
        constraints = Path(folder) / "constraints.txt"
        usual = "" if "--newest" in arguments else CONSTRAINTS.read_text(encoding="utf-8")
        constraints.write_text(oldest() if "--oldest" in arguments else usual, encoding="utf-8")
        if sys.platform == "linux" and not has_own_packages():
            install_torch(constraints)
        what = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
        # make compiles what is imported; pip would compile all twelve thousand modules, one after another
        flags = ["--no-compile"] if "test" in extras else []
        command = pip("install", *flags, "--constraint", str(constraints), "--editable", what)
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
