"""Limits of control groups v1 and v2 in a container."""

from pathlib import Path

import psutil
import pytest

from engine.system import cgroup

GIB = 1 << 30
V2 = {  # version 2: a group without a limit in a group with one
    "cgroup": "0::/pod/task\n",
    "pod/task/memory.max": "max\n",
    "pod/memory.max": f"{4 * GIB}\n",
    "pod/memory.current": f"{3 * GIB}\n",
    "pod/memory.stat": f"anon 1\ninactive_file {GIB}\n",
    "pod/task/cpu.max": "max 100000\n",
    "pod/cpu.max": "50000 100000\n",
}
V1 = {  # version 1: the path is the host's, and the container's group is mounted as the root
    "cgroup": "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n",
    "memory/memory.limit_in_bytes": f"{4 * GIB}\n",
    "memory/memory.usage_in_bytes": f"{3 * GIB}\n",
    "memory/memory.stat": f"inactive_file 7\ntotal_inactive_file {GIB}\n",
    "cpu/cpu.cfs_quota_us": "50000\n",
    "cpu/cpu.cfs_period_us": "100000\n",
}
UNLIMITED = {"cgroup": "0::/\n2:cpu:/\n", "memory.max": "max\n", "cpu/cpu.cfs_quota_us": "-1\n"}


@pytest.fixture
def machine(monkeypatch, tmp_path: Path):
    """Set up 64 GiB of memory, 60 of them free, and eight processors, with the given files of control groups."""

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


@pytest.mark.parametrize("files", [V2, V1], ids=["version 2", "version 1"])
def test_a_limit_of_a_control_group_is_read(machine, files: dict[str, str]) -> None:
    machine(files)
    assert cgroup.memory() == (4 * GIB - 3 * GIB + GIB, 4 * GIB)
    assert cgroup.cores() == 1  # half a processor, rounded up


@pytest.mark.parametrize("files", [UNLIMITED, {}], ids=["no limit", "no control groups"])
def test_without_a_limit_the_machines_memory_and_cores_are_used(machine, files: dict[str, str]) -> None:
    machine(files)
    assert cgroup.memory() == (60 * GIB, 64 * GIB)
    assert cgroup.cores() == 8
