"""The program without the calls that only Linux has."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Loaded by every Python process that finds it on its path: takes away what macOS does not have.
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
# each instance is a process, and one reads the other's blocks from memory that both have mapped
INSTANCES = ["-m", "pytest", "-n", "0", "-q", f"{ROOT}/tests/unit/cluster/test_process.py", "-k", "tokens_are_those"]


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
