"""The examples run as they stand in the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from engine.trace.check import check

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}


def test_the_script_writes_a_sound_trace(tmp_path: Path):
    run = subprocess.run(
        [sys.executable, EXAMPLES / "watch_generate.py", "--max-new-tokens", "8", "--out", "run.kvtrace"],
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "春江潮水连海平" in run.stdout
    assert list(check(tmp_path / "run.kvtrace")) == []


@pytest.mark.parametrize("notebook", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_a_notebook_runs_from_its_first_cell_to_its_last(notebook: Path, tmp_path: Path, monkeypatch):
    for name in ("PYTHONPATH", "HF_HUB_OFFLINE"):
        monkeypatch.setenv(name, ENVIRONMENT[name])
    shutil.copy(notebook, tmp_path)
    book = nbformat.read(tmp_path / notebook.name, as_version=4)  # type: ignore[no-untyped-call]
    assert all(not cell.get("outputs") for cell in book.cells), "outputs are not kept in the repository"
    NotebookClient(book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    said = "".join(output.get("text", "") for cell in book.cells for output in cell.get("outputs", []))
    assert "bytes a token" in said and "weight" in said
    assert list(check(tmp_path / "run.kvtrace")) == []
