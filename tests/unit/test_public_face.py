"""`import kvtheater`: what it promises, and files of a user that have our packages' names."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kvtheater
from engine.observe import vllm_recorder as watch
from engine.trace import compare
from tests.conftest import ROOT

TRACE = ROOT / "tests" / "golden" / "cache.kvtrace"
SCRIPT = """
from kvtheater import Engine, EngineConfig, SamplingParams, load_model, open_trace
from pathlib import Path
with Engine(load_model("bundled"), EngineConfig(block_size=4), log_path=Path("run.kvtrace")) as engine:
    engine.add_request("春江潮水连海平，", SamplingParams(max_tokens=4))
    while engine.has_unfinished():
        engine.step()
log = open_trace("run.kvtrace")
print(len(log), log.header.generator)
log.close()
"""


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    """The script as a user's file in that folder, which Python looks through before it looks for ours."""
    (folder / "mine.py").write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "mine.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def test_every_name_is_there_and_says_what_it_is() -> None:
    for name in kvtheater.__all__:
        found = getattr(kvtheater, name)
        assert name == "__version__" or found.__doc__, name
    assert kvtheater.__all__ == sorted(kvtheater.__all__)
    assert all((ROOT / package / "py.typed").is_file() for package in ("kvtheater", "engine"))


def test_the_documentation_uses_public_names_only() -> None:
    """Python in README and docs imports nothing of `engine` or `app`, and only names that `kvtheater` has."""
    papers = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    shown = [code for path in papers for code in re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), re.DOTALL)]
    assert len(shown) > 3
    for code in shown:
        for node in ast.walk(ast.parse(code)):
            names = [alias.name for alias in getattr(node, "names", ())]
            if isinstance(node, ast.Import | ast.ImportFrom):
                home = [node.module or ""] if isinstance(node, ast.ImportFrom) else names
                assert not {name.split(".")[0] for name in home} & {"engine", "app"}, code
            if isinstance(node, ast.ImportFrom) and node.module == "kvtheater":
                assert not set(names) - set(kvtheater.__all__), code


def test_names_that_differ_from_those_at_home() -> None:
    assert (kvtheater.same_run, kvtheater.watched) == (compare.same, watch.watched)


@pytest.mark.slow
def test_opened_traces_need_no_torch() -> None:
    code = f"import sys; from kvtheater import open_trace; open_trace({str(TRACE)!r}).close()"
    script = [sys.executable, "-c", f"{code}; print('torch' in sys.modules)"]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.slow
def test_a_script_of_a_user_with_a_file_called_app(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("raise SystemExit('imported the wrong one')")
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"5 kvtheater {kvtheater.__version__}\n"  # a submission and four steps


@pytest.mark.slow
@pytest.mark.parametrize("name", ["engine.py", "engine/__init__.py", "engine/readme.txt"])
def test_a_file_or_folder_that_hides_the_engine_is_named(name: str, tmp_path: Path) -> None:
    """A folder without __init__.py hides nothing: a package that Python finds later goes before it."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    done = run(tmp_path)
    if name == "engine/readme.txt":
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 1 and done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last == f"ImportError: the package engine of kvtheater is hidden by {path}: rename that"
