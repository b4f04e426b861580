"""A server's model is compiled by a separate process that ends, so the server never loads the compiler."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from engine.model import compiled
from engine.model.compile_in_subprocess import compile_in_subprocess
from engine.model.compiled import compile_model, compile_to_cache
from engine.model.loaded import Opened
from engine.model.loader import from_module
from engine.model.own_process import OWN_PROCESS
from engine.model.shipped import shipped_model
from tests.tiny_models import tiny_model

COMMAND = [sys.executable, "-m", "engine.model.compiler_child"]
COMPILES = """
import json, sys
from engine.model import compiler_process
compiler_process.start_early(sys.argv[1], "auto", "cpu")
assert len(compiler_process._started) == 1
compiler_process.start_early("/nowhere/at/all", "auto", "cpu")
compiler_process.start_early("bundled", "auto", "cuda")
assert len(compiler_process._started) == 1  # there is nothing to compile, or not here
from engine.model.loader import load_model
from engine.model.compiled import compile_model
model = load_model(sys.argv[1])
found = {"compiled": compile_model(model) is not None, "compiler": "torch._dynamo" in sys.modules}
assert not compiler_process._started  # it was waited for
compiler_process.start_early(sys.argv[1], "auto", "cpu")
assert not compiler_process._started  # the cache has an entry for it
print(json.dumps(found))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a tiny Llama of one layer with a vocabulary."""
    tiny_model("llama", num_hidden_layers=1).save_pretrained(tmp_path / "model")
    words = shipped_model("bundled")
    assert words is not None
    for file in words.tokenizer_folder.glob("tokenizer*.json"):
        shutil.copy(file, tmp_path / "model")
    return tmp_path / "model"


def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, OWN_PROCESS: "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")
def test_code_compiled_in_another_process_is_used(folder: Path, tmp_path: Path) -> None:
    """Compilation begins before the model is open here, and the child process builds the library for one token."""
    command = [sys.executable, "-c", COMPILES, str(folder)]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, check=True, timeout=600)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found == {"compiled": True, "compiler": False}


@pytest.mark.slow
def test_the_compiling_process_ends_with_its_parent(folder: Path, tmp_path: Path) -> None:
    task = {"name": str(folder), "dtype": "auto", "num_threads": 1}
    with subprocess.Popen(COMMAND, env=environment(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.communicate(json.dumps(task).encode() + b"\n", timeout=60)  # and the input ends
    assert other.returncode == 1
    kept = [json.loads(file.read_text())["key"] for file in tmp_path.glob("cache/**/entry.json")]
    assert not any(key.startswith("{") for key in kept), "C functions at most"


@pytest.mark.slow
def test_stopping_a_compilation_removes_its_files(folder: Path, tmp_path: Path) -> None:
    """Stopping a server during compilation leaves neither a partial library in the temporary folder nor a process."""
    (tmp_path / "tmp").mkdir()
    task = {"name": str(folder), "dtype": "auto", "is_shared": True}
    there = {**environment(tmp_path), "TMPDIR": str(tmp_path / "tmp")}

    def becomes(is_there: bool) -> None:
        for _ in range(600):
            if any((tmp_path / "tmp").glob("kvtheater-compiled-*")) is is_there:
                return
            time.sleep(0.05)
        pytest.fail(f"{list((tmp_path / 'tmp').iterdir())}")

    with subprocess.Popen(COMMAND, env=there, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        other.stdin.write(json.dumps(task).encode() + b"\n")
        other.stdin.flush()
        becomes(True)
        mine = psutil.Process(other.pid)
        for _ in range(600):
            if children := mine.children():
                break
            time.sleep(0.05)
        other.stdin.close()
        assert children and not psutil.wait_procs(children, timeout=60)[1]
    becomes(False)


@pytest.mark.slow
def test_a_model_that_fails_to_load_is_reported(tmp_path: Path) -> None:
    task = {"name": "/nowhere/at/all", "dtype": "auto", "num_threads": 1}
    with subprocess.Popen(COMMAND, env=environment(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None and other.stdout is not None
        other.stdin.write(json.dumps(task).encode() + b"\n")
        other.stdin.flush()
        output = other.stdout.read().decode()
    assert other.returncode == 1 and "there is no folder /nowhere/at/all" in output


def test_other_programs_compile_in_their_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", never)
    monkeypatch.delenv(OWN_PROCESS, raising=False)
    model = SimpleNamespace(opened=Opened("bundled", "auto", None))
    assert not compile_in_subprocess(model)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")
def test_a_missing_library_for_one_token_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    waited: list[bool] = []
    model = from_module(tiny_model("llama", num_hidden_layers=1))
    compile_to_cache(model, lambda: waited.append(True))
    assert waited
    monkeypatch.setattr(compiled, "_build", lambda *_: pytest.fail("it is compiled again"))
    compile_to_cache(model)
    assert compile_model(model).kernel is not None
