"""Processes that are killed at any moment, and a disk that is full."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.connector.tiers.disk_tier import DiskTier
from engine.connector.tiers.shared_folder import WRITING, SharedFolder
from tests.preloaded import PreloadedPopen
from tests.unit.connector.tiers.blocks import block_files, key
from tests.unit.connector.tiers.one_of_two import KEYS, content

ROOT = Path(__file__).parents[4]
BOUND = 50 * 4096
SECONDS = 4.0


def size_of(folder: Path) -> int:
    """Return the size of all files in whole pages, including unfinished ones. No process may write meanwhile."""
    unfinished = [path for path in [folder / WRITING] if path.exists()]
    return sum(-(-path.stat().st_size // 4096) * 4096 for path in block_files(folder) + unfinished)


def start(folder: Path, seed: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tests.unit.connector.tiers.one_of_two", str(folder), str(BOUND), str(seed)]
    return PreloadedPopen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def kill(process: subprocess.Popen[str]) -> str:
    process.kill()
    output, _ = process.communicate(timeout=30)
    return output


@pytest.mark.slow
def test_killed_servers_leave_only_complete_blocks_in_a_shared_folder(tmp_path: Path) -> None:
    chosen, shared = random.Random(7), SharedFolder(tmp_path, BOUND)
    servers = [start(tmp_path, seed) for seed in (1, 2)]
    printed, kills, largest = "", 0, 0
    try:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            at = chosen.randrange(2)
            if kills % 2:  # otherwise kill it during its start
                output = servers[at].stdout
                assert output is not None
                printed += output.readline()
            time.sleep(chosen.uniform(0.1, 0.4))
            with shared.locked():
                largest = max(largest, size_of(tmp_path))
            printed += kill(servers[at])
            kills += 1
            servers[at] = start(tmp_path, 10 + kills)
    finally:
        printed += "".join(kill(server) for server in servers)
    assert "wrong" not in printed and printed.count("begun") >= 2, printed
    assert size_of(tmp_path) <= BOUND and largest <= BOUND
    tier = DiskTier(tmp_path, BOUND)
    counted = tier.folder.count()
    assert counted.bytes >= size_of(tmp_path) and counted.blocks >= len(block_files(tmp_path))  # never too low
    tier.sweep()
    assert tier.folder.count() == (size_of(tmp_path), len(block_files(tmp_path)))
    found = {n for n in range(KEYS) if (kept := tier.load(key(n))) is not None and kept == content(n)}
    assert len(found) == len(block_files(tmp_path)) >= 5 and not tier.figures().drops
    assert tier.store(key(KEYS), bytes(9000)) and size_of(tmp_path) <= BOUND


FULL = """
import resource, sys
from pathlib import Path
from engine.connector.tiers.tiers import Tiers
from engine.connector.tiers.settings import DiskSetting
from tests.unit.connector.tiers.blocks import key, payload

resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
tiers = Tiers(None, DiskSetting(Path(sys.argv[1]), 2**24))
assert tiers.speeds.speed("disk") is None  # the blocks for the measurement do not fit
for n in range(4):
    tiers.store(key(n), payload(n, 1000 if n % 2 else 30000))
assert tiers.flush(20)
print(tiers.figures()[0].drops, [found.payload == payload(n) for n in range(4) if (found := tiers.load(key(n)))])
"""


@pytest.mark.slow
def test_a_file_size_limit_counts_as_a_full_disk(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{'disk_full': 2} [True, True]"
    assert not (tmp_path / WRITING).exists()
