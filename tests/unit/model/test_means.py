"""Missing requirements of compiling are reported by both processes before the model is traced."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.model import compiled, compiler_process, means
from engine.model.compiled import compile_model
from engine.model.loader import load_model
from engine.model.means import DISK_BYTES, MEMORY, CannotCompile, missing_requirement
from engine.model.own_process import OWN_PROCESS
from engine.system.cgroup import Memory


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Simulate a machine with a C++ compiler and free disk space, on which nothing was compiled before."""
    compiler = tmp_path / "g++"
    compiler.touch(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(OWN_PROCESS, "1")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=DISK_BYTES))
    return monkeypatch


def no_compiler(machine: pytest.MonkeyPatch) -> str:
    machine.setenv("CXX", "no-such-compiler")
    return "no C++ compiler was found: install g++"


def full_disk(machine: pytest.MonkeyPatch) -> str:
    machine.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=DISK_BYTES - 1))
    return "MiB free, compiling takes"


def low_memory(machine: pytest.MonkeyPatch) -> str:
    machine.setattr(means, "memory", lambda: Memory(available=MEMORY - 1, total=MEMORY))
    return "MiB of memory are free, compiling takes"


@pytest.mark.parametrize("limit", [no_compiler, full_disk, low_memory])
def test_missing_requirements_prevent_compiling_with_one_sentence(machine: pytest.MonkeyPatch, limit) -> None:
    started: list[object] = []
    machine.setattr(compiler_process, "CompilerProcess", started.append)
    machine.setattr(compiler_process, "cores", lambda: 2)
    machine.setattr(compiled, "compile_in_subprocess", started.append)
    machine.setattr(compiled, "_build", lambda *_: started.append(None))
    assert missing_requirement() == ""
    compiler_process.start_early("bundled", "auto", "cpu")
    assert len(started) == 1
    started.clear()
    text = limit(machine)
    assert text in missing_requirement()
    compiler_process.start_early("bundled", "auto", "cpu")
    with pytest.raises(CannotCompile, match=text.partition("+")[0]):
        compile_model(load_model("bundled", device="cpu"))
    assert started == []
