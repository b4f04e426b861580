"""CPU and disk tiers combined: lookups, promotion and the write queue."""

import threading
from pathlib import Path

import pytest

from engine.connector.tiers.block_file import write_all
from engine.connector.tiers.disk_tier import DiskTier
from engine.connector.tiers.settings import DiskSetting
from engine.connector.tiers.tiers import Tiers
from engine.connector.tiers.writer import DiskWriter
from tests.unit.connector.tiers.blocks import block_files, file_of, key, payload

MiB = 2**20
KEYS = [key(n) for n in range(8)]


def both(folder: Path, cpu_blocks: int = 100) -> Tiers:
    return Tiers(cpu_blocks * 1000, DiskSetting(folder, 16 * MiB))


def test_a_block_is_stored_in_both_tiers_and_found_in_the_fastest(tmp_path: Path) -> None:
    tiers = both(tmp_path)
    for n in range(3):
        assert tiers.store(key(n), bytearray(payload(n))) == ["cpu", "disk"]
    assert tiers.lookup(KEYS) == ["cpu"] * 3
    assert tiers.flush() and len(block_files(tmp_path)) == 3
    found = tiers.load(key(1))
    assert found is not None and (found.payload, found.tier, found.queued, found.promoted) == (
        payload(1),
        "cpu",
        False,
        False,
    )
    tiers.close()


def test_stored_content_is_a_copy(tmp_path: Path) -> None:
    tiers = both(tmp_path)
    written = bytearray(payload(1))
    tiers.store(key(1), memoryview(written))
    written[:] = bytes(len(written))  # the pool's block is reused
    found = tiers.load(key(1))
    assert found is not None and found.payload == payload(1)
    tiers.close()
    found = both(tmp_path).load(key(1))
    assert found is not None and found.payload == payload(1)


def test_after_a_restart_a_block_is_loaded_from_disk_and_promoted(tmp_path: Path) -> None:
    first = both(tmp_path)
    first.store(key(1), payload(1))
    assert first.close() == 0
    assert first.lookup([key(1)]) == [] and first.load(key(1)) is None and first.store(key(2), payload(2)) == []

    tiers = both(tmp_path)
    assert tiers.lookup([key(1)]) == ["disk"]
    once, twice = tiers.load(key(1)), tiers.load(key(1))
    assert once is not None and (once.payload, once.tier, once.promoted) == (payload(1), "disk", True)
    assert twice is not None and (twice.payload, twice.tier, twice.promoted) == (payload(1), "cpu", False)
    cpu, disk = tiers.figures()
    assert (cpu.hits, cpu.misses, disk.hits, disk.misses) == (1, 1, 1, 0)
    tiers.close()


def test_blocks_evicted_from_cpu_remain_on_disk(tmp_path: Path) -> None:
    tiers = both(tmp_path, cpu_blocks=2)
    for n in range(5):
        tiers.store(key(n), payload(n))
    assert tiers.flush() and tiers.lookup(KEYS) == ["disk", "disk", "disk", "cpu", "cpu"]
    assert tiers.figures()[0].evictions == 3
    for n in range(5):
        found = tiers.load(key(n))
        assert found is not None and found.payload == payload(n)
    tiers.close()


def test_a_lookup_ends_at_the_first_missing_block(tmp_path: Path) -> None:
    tiers = both(tmp_path)
    for n in (0, 1, 3):
        tiers.store(key(n), payload(n))
    assert tiers.lookup(KEYS) == ["cpu", "cpu"] and tiers.lookup([]) == []
    tiers.close()


def test_a_damaged_block_is_not_loaded_but_counted(tmp_path: Path) -> None:
    first = both(tmp_path)
    first.store(key(1), payload(1))
    first.close()
    path = file_of(tmp_path, 1)
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    tiers = both(tmp_path)
    assert tiers.lookup([key(1)]) == ["disk"] and tiers.load(key(1)) is None and tiers.lookup([key(1)]) == []
    assert [(drop.tier, drop.reason) for drop in tiers.drops()] == [("disk", "checksum")]
    tiers.close()


@pytest.mark.parametrize("only", ["cpu", "disk"])
def test_a_single_tier_stores_and_loads_blocks(tmp_path: Path, only: str) -> None:
    cpu, disk = (10**6, None) if only == "cpu" else (None, DiskSetting(tmp_path, 16 * MiB))
    tiers = Tiers(cpu, disk)
    assert tiers.store(key(1), payload(1)) == [only] and tiers.lookup(KEYS[1:]) == [only] and tiers.flush()
    found = tiers.load(key(1))
    assert found is not None and (found.payload, found.tier, found.promoted) == (payload(1), only, False)
    assert [figures.tier for figures in tiers.figures()] == [only]
    tiers.close()


def test_opening_measures_the_tiers_and_leaves_no_file(tmp_path: Path) -> None:
    tiers = both(tmp_path)
    disk = tiers.speeds.speed("disk")
    assert disk is not None and disk.seconds(1, 65536) > 0 and tiers.speeds.speed("cpu") is not None
    assert not block_files(tmp_path)
    for figures in tiers.figures():
        assert (figures.blocks, figures.bytes, figures.hits, figures.stores, figures.drops) == (0, 0, 0, 0, {})
    tiers.close()


def test_a_folder_too_small_for_the_measurement_is_usable(tmp_path: Path) -> None:
    tiers = Tiers(None, DiskSetting(tmp_path, 4096))
    assert tiers.speeds.speed("disk") is None
    tiers.store(key(1), payload(1))
    assert tiers.flush() and tiers.load(key(1)) is not None and tiers.speeds.speed("disk") is not None
    tiers.close()


class Gate:
    """Disk that blocks writes until `open` is set."""

    def __init__(self) -> None:
        self.open, self.requested = threading.Event(), threading.Event()

    def write(self, file: int, parts: list[bytes]) -> None:
        self.requested.set()
        assert self.open.wait(60)
        write_all(file, parts)


def test_a_block_in_the_write_queue_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiers = Tiers(None, DiskSetting(tmp_path, 16 * MiB))
    gate = Gate()
    assert tiers._disk is not None
    monkeypatch.setattr(tiers._disk, "_write", gate.write)
    for n in range(3):
        assert tiers.store(key(n), payload(n)) == ["disk"]
    assert gate.requested.wait(10) and not block_files(tmp_path)
    assert tiers.lookup(KEYS) == ["disk"] * 3
    found = tiers.load(key(2))
    assert found is not None and (found.payload, found.tier, found.queued) == (payload(2), "disk", True)
    assert tiers.figures()[0].hits == 0  # not read from disk
    assert not block_files(tmp_path), "the write is still blocked"
    gate.open.set()
    assert tiers.flush() and len(block_files(tmp_path)) == 3
    tiers.close()


def test_blocks_over_the_write_queue_are_dropped_and_counted(tmp_path: Path) -> None:
    gate = Gate()
    disk = DiskTier(tmp_path, MiB, gate.write)
    writer = DiskWriter(disk, max_bytes=2500)
    assert writer.submit(key(0), payload(0)) and writer.submit(key(1), payload(1))
    assert not writer.submit(key(2), payload(2))  # 3000 bytes
    assert writer.submit(key(1), payload(1))  # already queued
    assert disk.figures().drops == {"queue_full": 1}
    gate.open.set()
    assert writer.flush(10) and writer.submit(key(2), payload(2, 5000))  # an empty queue takes any block
    assert writer.close(10) == 0 and disk.has([key(0), key(1), key(2)]) == 3


def test_closing_with_a_hanging_disk_drops_queued_blocks_after_a_timeout(tmp_path: Path) -> None:
    gate = Gate()
    disk = DiskTier(tmp_path, MiB, gate.write)
    writer = DiskWriter(disk)
    for n in range(3):
        writer.submit(key(n), payload(n))
    assert gate.requested.wait(10)
    assert writer.close(0.05) == 3 and not block_files(tmp_path)
    assert disk.figures().drops == {"closed": 3}
    assert not writer.submit(key(4), payload(4)) and disk.figures().drops == {"closed": 4}
    gate.open.set()


def test_an_unexpected_disk_error_does_not_end_the_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = DiskTier(tmp_path, MiB)
    writer = DiskWriter(disk)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "write", lambda *_: 1 / 0)
        writer.submit(key(1), payload(1))
        assert writer.flush(10)
    assert disk.figures().drops == {"io_error": 1}
    assert writer.submit(key(2), payload(2)) and writer.close(10) == 0 and disk.load(key(2)) == payload(2)
