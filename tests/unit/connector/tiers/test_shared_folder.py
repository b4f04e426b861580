"""Shared folder: size count, limit, order of eviction, and leftovers of killed writers."""

import os
import time
from pathlib import Path

import pytest

from engine.connector.tiers import shared_folder
from engine.connector.tiers.block_file import BadBlock
from engine.connector.tiers.disk_tier import DiskTier
from engine.connector.tiers.shared_folder import LOCK, WRITING, Count, SharedFolder, disk_bytes
from engine.connector.tiers.writer import DiskWriter
from tests.unit.connector.tiers.blocks import block_files, file_of, key, payload

PAGE = 4096


def set_last_use(tier: DiskTier, n: int, seconds_ago: float) -> None:
    """Set the time of the last use of block n."""
    then = time.time_ns() - int(seconds_ago * 1e9)
    os.utime(file_of(tier.folder.path, n), ns=(then, then))


def tier_with(folder: Path, pages: int, blocks: int) -> DiskTier:
    """Return a tier limited to `pages`, with blocks of one page each."""
    tier = DiskTier(folder, pages * PAGE)
    for n in range(blocks):
        tier.store(key(n), payload(n))
    return tier


def test_file_sizes_are_rounded_up_to_pages() -> None:
    assert [disk_bytes(size) for size in (0, 1, 4096, 4097)] == [0, 4096, 4096, 8192]


def test_the_least_recently_used_block_is_evicted_first(tmp_path: Path) -> None:
    """The limit is ten pages, and eviction goes down to a tenth less before the new block is added."""
    tier = tier_with(tmp_path, 10, 10)
    for n in range(10):
        set_last_use(tier, n, seconds_ago=100 - n)
    assert tier.load(key(0)) == payload(0)  # used now
    assert tier.store(key(10), payload(10)) and tier.figures().evictions == 1
    assert [n for n in range(11) if tier.has([key(n)])] == [0, *range(2, 11)]
    assert tier.figures()[1:3] == (10, 10 * PAGE)


def test_eviction_frees_a_tenth_of_the_limit(tmp_path: Path) -> None:
    tier = tier_with(tmp_path, 100, 100)
    assert tier.store(key(100), payload(100)) and tier.figures().evictions == 10  # down to 90
    assert tier.store(key(101), payload(101)) and tier.figures().evictions == 10
    assert tier.figures().blocks == 92 == len(block_files(tmp_path))


def test_a_large_block_evicts_several(tmp_path: Path) -> None:
    tier = tier_with(tmp_path, 10, 10)
    assert tier.store(key(10), payload(10, 9 * PAGE)) and tier.figures().evictions == 10  # 9 pages and a header: 10
    assert tier.load(key(10)) == payload(10, 9 * PAGE) and tier.figures()[1:3] == (1, 10 * PAGE)


def test_a_server_with_a_smaller_limit_evicts_down_to_it(tmp_path: Path) -> None:
    large, small = tier_with(tmp_path, 20, 20), DiskTier(tmp_path, 5 * PAGE)
    assert small.store(key(20), payload(20)) and small.figures().blocks == 5
    assert large.load(key(20)) == payload(20)


def test_the_unfinished_block_of_a_killed_writer_is_deleted(tmp_path: Path) -> None:
    tier = DiskTier(tmp_path, 10 * PAGE)
    tier.store(key(1), payload(1))
    with tier.folder.locked() as held:  # as if the process were killed between the count and the file
        held.add(5 * PAGE, 1)
    (tmp_path / WRITING).write_bytes(bytes(5 * PAGE))
    assert tier.figures()[1:3] == (2, 6 * PAGE)  # too high, never too low
    after = DiskTier(tmp_path, 10 * PAGE)
    writer = DiskWriter(after)
    assert writer.submit(key(2), payload(2)) and writer.close(10) == 0
    assert after.figures()[1:3] == (2, 2 * PAGE) and not (tmp_path / WRITING).exists()


def test_an_unfinished_block_file_is_overwritten(tmp_path: Path) -> None:
    tier = DiskTier(tmp_path, 10 * PAGE)
    (tmp_path / WRITING).write_bytes(bytes(5 * PAGE))
    assert tier.store(key(1), payload(1)) and tier.load(key(1)) == payload(1)
    assert not (tmp_path / WRITING).exists()


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_link_at_a_temporary_name_is_not_followed(tmp_path: Path, kind: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    tier = DiskTier(tmp_path / "blocks", 10 * PAGE)
    begun = tier.folder.path / WRITING
    begun.symlink_to(victim) if kind == "link" else os.mkfifo(begun)
    assert tier.store(key(1), payload(1)) and tier.load(key(1)) == payload(1)
    assert victim.read_text() == "untouched"


def test_deleted_files_are_noticed_before_blocks_are_evicted(tmp_path: Path) -> None:
    tier = tier_with(tmp_path, 10, 10)
    for n in range(5):
        file_of(tmp_path, n).unlink()
    assert tier.store(key(10), payload(10)) and tier.figures().evictions == 0
    assert tier.figures()[1:3] == (6, 6 * PAGE)


@pytest.mark.parametrize("content", [b"", b"short", bytes(20), bytes(21)])
def test_a_damaged_count_is_rebuilt(tmp_path: Path, content: bytes) -> None:
    tier = DiskTier(tmp_path, 10 * PAGE)
    tier.store(key(1), payload(1))
    (tmp_path / LOCK).write_bytes(content)
    assert tier.folder.count() == Count(0, 0)  # reading the count takes no lock
    assert tier.store(key(2), payload(2)) and tier.folder.count() == Count(2 * PAGE, 2)


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    others = [tmp_path / "notes.txt", tmp_path / "ab" / "letter.kv", tmp_path / "abc" / f"{key(1).hex()}.kv"]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(20 * PAGE))
    tier = DiskTier(tmp_path, 2 * PAGE)
    for n in range(6):
        assert tier.store(key(n), payload(n))
    assert all(path.exists() for path in others) and len(block_files(tmp_path)) == 3  # letter.kv and two blocks


def test_files_that_cannot_be_deleted_count_against_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = tier_with(tmp_path, 2, 2)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(shared_folder.LockedFolder, "_delete", refuse)
    assert not tier.store(key(2), payload(2)) and tier.figures().drops == {"no_permission": 1}
    assert len(block_files(tmp_path)) == 2


def test_a_block_is_dropped_if_the_lock_is_not_free_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_folder, "LOCK_SECONDS", 0.02)
    tier, other = DiskTier(tmp_path, 10 * PAGE), SharedFolder(tmp_path, 10 * PAGE)
    tier.store(key(1), payload(1))
    with other.locked():
        assert not tier.store(key(2), payload(2)) and tier.figures().drops == {"busy": 1}
        assert tier.load(key(1)) == payload(1)  # reading does not wait
    assert tier.store(key(2), payload(2))


def test_a_deleted_lock_file_never_has_two_holders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_folder, "LOCK_SECONDS", 0.02)
    one, two = SharedFolder(tmp_path, PAGE), SharedFolder(tmp_path, PAGE)
    with one.locked():
        (tmp_path / LOCK).unlink()
        with two.locked(), pytest.raises(BadBlock), one.locked():
            pass


def test_a_folder_with_a_foreign_lock_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LOCK)
    with pytest.raises(OSError, match="is not a file of this user alone"):
        SharedFolder(tmp_path, PAGE)
