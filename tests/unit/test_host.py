"""The program runs without Linux's own system calls."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# `sitecustomize` of each Python process, which deletes the names that macOS lacks.
WITHOUT = """
import fcntl, os, sys
platform, sys.platform = sys.platform, "darwin"
import engine.system.host
engine.system.host.sys = type("sys", (), {"platform": "darwin"})
sys.platform = platform
for module, names in {
    os: ("memfd_create", "MFD_CLOEXEC", "MFD_ALLOW_SEALING", "sched_getaffinity", "sched_setaffinity"),
    fcntl: ("F_ADD_SEALS", "F_GET_SEALS", "F_SEAL_GROW", "F_SEAL_SHRINK"),
}.items():
    for name in names:
        delattr(module, name)
"""


GENERATE = ["-m", "app", "generate", "春江潮水连海平", "--max-tokens", "6", "--enforce-eager"]
# instances are processes with blocks in shared memory
INSTANCES = ["-m", "pytest", "-n", "0", "-q", f"{ROOT}/tests/unit/cluster/test_process.py", "-k", "give_the_tokens"]


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "text"), [(GENERATE, "海上明月"), (INSTANCES, "passed")], ids=["one", "several"])
def test_the_program_runs_without_linux_calls(tmp_path: Path, arguments: list[str], text: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and text in done.stdout, done.stdout + done.stderr
