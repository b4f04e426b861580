"""`import kvtheater` has documented public names, and works with user files that have our packages' names."""

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
    """Run the script as a file in `folder`, which comes first in `sys.path`."""
    (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "script.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def test_every_public_name_exists_and_has_a_docstring() -> None:
    for name in kvtheater.__all__:
        found = getattr(kvtheater, name)
        assert name == "__version__" or found.__doc__, name
    assert kvtheater.__all__ == sorted(kvtheater.__all__)
    assert all((ROOT / package / "py.typed").is_file() for package in ("kvtheater", "engine"))


def test_the_documentation_uses_public_names_only() -> None:
    """Python in README and docs imports nothing of `engine` or `app`, and only public names of `kvtheater`."""
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    pattern = re.compile(r"```python\n(.*?)```", re.DOTALL)
    examples = [code for path in documents for code in pattern.findall(path.read_text("utf-8"))]
    assert len(examples) > 3
    for code in examples:
        for node in ast.walk(ast.parse(code)):
            names = [alias.name for alias in getattr(node, "names", ())]
            if isinstance(node, ast.Import | ast.ImportFrom):
                modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else names
                assert not {name.split(".")[0] for name in modules} & {"engine", "app"}, code
            if isinstance(node, ast.ImportFrom) and node.module == "kvtheater":
                assert not set(names) - set(kvtheater.__all__), code


def test_two_public_names_differ_from_their_internal_names() -> None:
    assert (kvtheater.same_run, kvtheater.watched) == (compare.same, watch.watched)


@pytest.mark.slow
def test_opening_a_trace_does_not_import_torch() -> None:
    code = f"import sys; from kvtheater import open_trace; open_trace({str(TRACE)!r}).close()"
    script = [sys.executable, "-c", f"{code}; print('torch' in sys.modules)"]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.slow
def test_a_users_file_called_app_does_not_hide_the_package(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("raise SystemExit('imported the user file')")
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"5 kvtheater {kvtheater.__version__}\n"  # a submission and four steps


@pytest.mark.slow
@pytest.mark.parametrize("name", ["engine.py", "engine/__init__.py", "engine/readme.txt"])
def test_the_error_names_a_file_that_hides_the_engine(name: str, tmp_path: Path) -> None:
    """A folder without __init__.py hides nothing, since a later regular package goes before it."""
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
