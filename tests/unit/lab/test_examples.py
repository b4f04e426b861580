"""Examples of the repository run unchanged."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from engine.trace.check import check

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}


def test_the_example_script_writes_a_valid_trace(tmp_path: Path):
    run = subprocess.run(
        [sys.executable, EXAMPLES / "watch_generate.py", "--max-new-tokens", "8", "--out", "run.kvtrace"],
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "春江潮水连海平" in run.stdout
    assert list(check(tmp_path / "run.kvtrace")) == []


def test_the_agent_script_reports_a_missing_server_in_one_sentence() -> None:
    address = "http://127.0.0.1:9/v1"  # the port of the discard service, which is not open
    run = subprocess.run(
        [sys.executable, EXAMPLES / "agent_prompt_order.py", "--base-url", address],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (run.returncode, run.stderr.count("\n")) == (1, 1)
    assert run.stderr == f"{address}: Connection error; is `kvtheater serve --api` running there?\n"


def run_notebook(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Run a notebook in `folder`, and return its outputs.

    Cells with the tag `install`, which fetch this package, are skipped.
    """
    for variable in ("PYTHONPATH", "HF_HUB_OFFLINE"):
        monkeypatch.setenv(variable, ENVIRONMENT[variable])
    notebook = nbformat.read(EXAMPLES / name, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)  # type: ignore[no-untyped-call]
    assert all(not cell.get("outputs") for cell in notebook.cells), "notebooks are stored without outputs"
    notebook.cells = [cell for cell in notebook.cells if "install" not in cell.metadata.get("tags", [])]
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def text_of(outputs: list[Any]) -> str:
    return "".join(output.get("text", "") for output in outputs)


def test_the_notebook_records_a_generation(tmp_path: Path, monkeypatch):
    text = text_of(run_notebook("watch_generate.ipynb", tmp_path, monkeypatch))
    assert "bytes a token" in text and "weight" in text
    assert list(check(tmp_path / "run.kvtrace")) == []


def test_the_colab_notebook_shows_the_page_and_runs_the_engine(tmp_path: Path, monkeypatch):
    outputs = run_notebook("colab.ipynb", tmp_path, monkeypatch)
    (frame,) = (output.data["text/html"] for output in outputs if output.get("data"))
    assert '<iframe title="KV Theater" src="http://127.0.0.1:' in frame
    assert "'Allocate'" in text_of(outputs)


def test_the_colab_notebook_installs_from_the_packages_repository() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"git+{project['urls']['Repository']}" in (EXAMPLES / "colab.ipynb").read_text(encoding="utf-8")


def test_every_notebook_has_a_test() -> None:
    assert {path.name for path in EXAMPLES.glob("*.ipynb")} == {"watch_generate.ipynb", "colab.ipynb"}
