"""Diagnosis of this machine for bug reports: processor, GPUs, compilers, folders, compiled forward pass.

The functions are independent, so a failure (such as a torch that cannot be imported) affects only one part.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import Any

import psutil

from engine.model.own_folder import UnsafeFolder, cache_home, own
from engine.model.shipped import BUNDLED
from engine.system import cgroup
from engine.system.compilers import c_compiler, cxx_compiler
from engine.system.host import instructions, processor_name

LIBRARIES = ("torch", "transformers", "numpy", "tokenizers", "safetensors", "flask-socketio", "gevent", "wsproto")
# processor features that select code paths
CPU_FEATURES = re.compile(r"avx|amx|fma|f16c|sse4_2|asimd|sve|bf16|i8mm|neon")
# environment variables that change the program's behaviour; their values may contain paths, but no secrets
VARIABLES = re.compile(
    r"CC|CXX|CUDA_VISIBLE_DEVICES|ATEN_CPU_CAPABILITY|HF_HOME|HF_HUB_(CACHE|OFFLINE)|(OMP|MKL|GOMP)_\w+|"
    r"KVTHEATER_MARCH|TORCHINDUCTOR_CACHE_DIR|TRITON_CACHE_DIR|TMPDIR|XDG_(CACHE|DATA)_HOME"
)


def versions(program: str) -> dict[str, dict[str, str]]:
    """Return the versions of the program, the system, Python and the libraries ("missing": not installed), with the
    supported range of each.
    """
    system = platform.platform()
    with contextlib.suppress(OSError):  # macOS, or Linux without /etc/os-release
        system = f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {system}"
    found = {"kvtheater": program, "system": system, "python": platform.python_version()}
    allowed = _supported()
    found |= {name: _version(name) for name in LIBRARIES}
    return {name: {"version": text, "supported": allowed.get(name, "any")} for name, text in found.items()}


def _supported() -> dict[str, str]:
    """Return the version bounds in the package's metadata."""
    try:
        required, fields = requires("kvtheater") or [], metadata("kvtheater")
    except PackageNotFoundError:  # the program runs from a source folder
        return {}
    pythons = [line.rpartition(" ")[2] for line in fields.get_all("Classifier") or () if re.search(r":: 3\.\d+$", line)]
    bounds = dict(re.findall(r"^([\w-]+)([^;\n]+)$", "\n".join(required), re.MULTILINE))  # without extras
    return bounds | {"python": f"{pythons[0]} to {pythons[-1]}"}


def processor() -> dict[str, Any]:
    """Return the processor's name, its cores, and its instruction sets that select code paths."""
    return {
        "name": processor_name(),
        "architecture": platform.machine(),
        "cores": os.cpu_count() or 1,
        "usable_cores": cgroup.cores(),
        "instructions": [name for name in instructions().split() if CPU_FEATURES.match(name)],
    }


def memory() -> dict[str, int]:
    """Return the machine's memory and the memory available to this process, in bytes."""
    found = cgroup.memory()
    machine = psutil.virtual_memory().total
    return {"machine_bytes": machine, "allowed_bytes": found.total, "available_bytes": found.available}


def torch_facts() -> dict[str, Any]:
    """Return torch's build, the processor features that it uses, and its GPUs."""
    import torch

    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return {
        "build": f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU",
        "uses": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "gpus": [{"name": g.name, "memory_bytes": g.total_memory, "capability": f"{g.major}.{g.minor}"} for g in gpus],
    }


def compilers() -> dict[str, str]:
    """Return the first line of `--version` of the C and the C++ compiler; "" if missing."""
    return {"C": _first_line(c_compiler()), "C++": _first_line(cxx_compiler())}


def folder(path: Path) -> dict[str, Any]:
    """Return the size of a folder's files, free bytes of its disk, and whether it is writable."""
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    return {
        "path": str(path),
        "bytes": sum(one.lstat().st_size for one in path.rglob("*") if one.is_file() and not one.is_symlink()),
        "free_bytes": shutil.disk_usage(existing).free,
        "is_writable": os.access(existing, os.W_OK | os.X_OK),
    }


def folders() -> dict[str, dict[str, Any]]:
    """Return the folders of compiled code, of the Hugging Face hub's models, and of temporary files."""
    from huggingface_hub.constants import HF_HUB_CACHE

    places = {"compiled code": cache_home() / "kvtheater", "hub models": Path(HF_HUB_CACHE)}
    found = {name: folder(place) for name, place in places.items()}
    temporary = Path(tempfile.gettempdir())
    # shared with other programs, so its size is meaningless
    return found | {"temporary": {**folder(temporary / "kvtheater"), "path": str(temporary), "bytes": None}}


def compiled_pass() -> dict[str, Any]:
    """Return whether the compiled forward pass of the bundled model is cached, and the reason if it is not.

    Loads the model, and builds its C functions if needed, which takes seconds.
    """
    from engine.model.compiled import is_cached
    from engine.model.loader import load_model
    from engine.model.means import missing_requirement
    from engine.model.native import build_native

    model = load_model(BUNDLED)
    if is_cached(model):
        return {"is_there": True, "why": ""}
    why = "not compiled yet: kvtheater serve does it in the background"
    if model.device.type != "cpu":
        why = "on a GPU it is compiled at each start"
    elif missing := missing_requirement():
        why = missing
    else:
        try:
            own(cache_home() / "kvtheater")
            build_native()
        except (UnsafeFolder, OSError, RuntimeError) as error:
            why = str(error)
            if isinstance(error, OSError) and error.strerror:
                why = f"{error.filename}: {error.strerror}"
    return {"is_there": False, "why": why}


def variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment variables that change how the program runs."""
    return {name: value for name, value in sorted(environment.items()) if VARIABLES.fullmatch(name)}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def _first_line(compiler: str | None) -> str:
    if compiler is None:
        return ""
    output = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    return f"{compiler}: {output.partition(chr(10))[0]}"
