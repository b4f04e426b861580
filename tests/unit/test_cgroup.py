"""Limits of control groups, of both versions, as a container has them."""

from pathlib import Path

import psutil
import pytest

from engine.system import cgroup

GIB = 1 << 30
TWO = {  # version 2: own group without a limit, inside one with
    "cgroup": "0::/pod/task\n",
    "pod/task/memory.max": "max\n",
    "pod/memory.max": f"{4 * GIB}\n",
    "pod/memory.current": f"{3 * GIB}\n",
    "pod/memory.stat": f"anon 1\ninactive_file {GIB}\n",
    "pod/task/cpu.max": "max 100000\n",
    "pod/cpu.max": "50000 100000\n",
}
ONE = {  # version 1: the path is the host's, and the container's own group is mounted as the root
    "cgroup": "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n",
    "memory/memory.limit_in_bytes": f"{4 * GIB}\n",
    "memory/memory.usage_in_bytes": f"{3 * GIB}\n",
    "memory/memory.stat": f"inactive_file 7\ntotal_inactive_file {GIB}\n",
    "cpu/cpu.cfs_quota_us": "50000\n",
    "cpu/cpu.cfs_period_us": "100000\n",
}
OPEN = {"cgroup": "0::/\n2:cpu:/\n", "memory.max": "max\n", "cpu/cpu.cfs_quota_us": "-1\n"}


@pytest.fixture
def machine(monkeypatch, tmp_path: Path):
    """A machine of 64 GiB, of which 60 are free, and eight processors, with the given files of control groups."""

    def make(files: dict[str, str]) -> None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    monkeypatch.setattr(cgroup, "OWN", tmp_path / "cgroup")
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    monkeypatch.setattr(cgroup, "processors", lambda: list(range(8)))
    found = psutil.virtual_memory()._replace(total=64 * GIB, available=60 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: found)
    return make


@pytest.mark.parametrize("files", [TWO, ONE], ids=["version 2", "version 1"])
def test_a_limit_binds(machine, files: dict[str, str]) -> None:
    machine(files)
    assert cgroup.memory() == (4 * GIB - 3 * GIB + GIB, 4 * GIB)
    assert cgroup.cores() == 1  # half a processor is one to be kept busy


@pytest.mark.parametrize("files", [OPEN, {}], ids=["no limit", "no control groups"])
def test_without_a_limit_it_is_the_machine(machine, files: dict[str, str]) -> None:
    machine(files)
    assert cgroup.memory() == (60 * GIB, 64 * GIB)
    assert cgroup.cores() == 8
