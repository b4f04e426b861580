"""Disk tier: damaged or foreign files give no wrong block and no exception, and the reason is reported."""

import errno
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.connector.tiers import disk_tier
from engine.connector.tiers.counters import MAX_DROPS, DropReason
from engine.connector.tiers.disk_tier import DiskTier
from engine.connector.tiers.shared_folder import FolderError
from tests.unit.connector.tiers.blocks import block_files, file_of, key, payload

MiB = 2**20


@pytest.fixture
def tier(tmp_path: Path) -> DiskTier:
    return DiskTier(tmp_path / "blocks", MiB)


def reasons(tier: DiskTier) -> dict[DropReason, int]:
    return tier.figures().drops


def test_blocks_persist_on_disk(tier: DiskTier) -> None:
    for n in range(5):
        assert tier.store(key(n), payload(n))
    after = DiskTier(tier.folder.path, MiB)
    assert after.has([key(n) for n in range(7)]) == 5
    assert [after.load(key(n)) for n in range(6)] == [*map(payload, range(5)), None]
    figures = after.figures()
    assert (figures.hits, figures.misses, figures.loaded_bytes) == (5, 1, 5000)
    assert (figures.blocks, figures.bytes) == (5, 5 * 4096)  # 1044 bytes take a page


def test_the_folder_is_readable_by_its_user_only(tier: DiskTier) -> None:
    """Other users could infer texts from keys and values."""
    tier.store(key(1), payload(1))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tier.folder.path.rglob("*")}
    assert set(modes.values()) == {0o600, 0o700} and stat.S_IMODE(tier.folder.path.stat().st_mode) == 0o700
    assert not [name for name in modes if "writing" in name]


def test_a_block_is_written_once(tier: DiskTier) -> None:
    assert tier.store(key(1), payload(1)) and tier.store(key(1), payload(1))
    assert tier.figures().stores == 1 and tier.figures().blocks == 1


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def rename(path: Path) -> None:
    other = file_of(path.parents[1], 2)
    other.replace(path)


def replace_by_link(path: Path) -> None:
    path.replace(path.parents[1] / "elsewhere")
    path.symlink_to(path.parents[1] / "elsewhere")


def replace_by_dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "something").touch()


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def replace_by_socket(path: Path) -> None:
    path.unlink()
    previous = Path.cwd()
    os.chdir(path.parent)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as kind:
            kind.bind(path.name)
    finally:
        os.chdir(previous)


def make_writable(path: Path) -> None:
    path.chmod(0o666)


def link_folder(path: Path) -> None:
    path.parent.replace(path.parents[1] / "moved")
    path.parent.symlink_to("moved")


@pytest.mark.parametrize(
    ("damage", "reason", "heals"),
    [
        (cut, "truncated", True),
        (flip_bit, "checksum", True),
        (rename, "wrong_key", True),
        (replace_by_link, "not_a_file", True),
        (replace_by_dangling_link, "not_a_file", True),
        (replace_by_folder, "not_a_file", False),
        (replace_by_pipe, "not_a_file", True),
        (replace_by_socket, "not_a_file", True),
        (make_writable, "foreign", True),
        (link_folder, "not_a_file", False),
    ],
)
def test_damaged_or_foreign_files_are_never_used(
    tier: DiskTier, damage: Callable[[Path], None], reason: DropReason, heals: bool
) -> None:
    for n in (1, 2):
        tier.store(key(n), payload(n))
    damage(file_of(tier.folder.path, 1))
    assert tier.load(key(1)) is None and reasons(tier) == {reason: 1}
    (drop,) = tier.stats.drops()
    assert (drop.tier, drop.reason, drop.key) == ("disk", reason, key(1).hex())
    assert tier.has([key(1)]) == 0  # the block is not found again
    # a new block replaces the file where that is possible
    assert tier.store(key(1), payload(1)) == heals
    assert tier.load(key(1)) == (payload(1) if heals else None)
    assert damage is rename or tier.load(key(2)) == payload(2)


def test_files_of_other_users_are_neither_used_nor_deleted(tier: DiskTier, monkeypatch: pytest.MonkeyPatch) -> None:
    tier.store(key(1), payload(1))
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert tier.has([key(1)]) == 0 and tier.load(key(1)) is None and reasons(tier) == {"foreign": 1}
    monkeypatch.undo()
    assert tier.load(key(1)) == payload(1)


@pytest.mark.parametrize(
    ("number", "stays"), [(errno.EMFILE, True), (errno.ENOMEM, True), (errno.EACCES, False), (errno.EIO, False)]
)
def test_files_are_dropped_after_lasting_read_errors_only(
    tier: DiskTier, monkeypatch: pytest.MonkeyPatch, number: int, stays: bool
) -> None:
    tier.store(key(1), payload(1))

    def refuse(*_: object) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(disk_tier, "read_block", refuse)
    assert tier.load(key(1)) is None and reasons(tier) == {"unreadable": 1}
    assert tier.stats.drops()[0].detail == os.strerror(number)
    monkeypatch.undo()
    assert tier.load(key(1)) == (payload(1) if stays else None)
    assert bool(block_files(tier.folder.path)) == stays


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "disk_full"),
        (errno.EDQUOT, "disk_full"),
        (errno.EFBIG, "disk_full"),
        (errno.EACCES, "no_permission"),
        (errno.EROFS, "no_permission"),
        (errno.EIO, "io_error"),
    ],
)
def test_a_failed_write_leaves_no_file(tmp_path: Path, number: int, reason: DropReason) -> None:
    """The disk accepts half of the block and then fails."""
    fails = True

    def write(file: int, parts: list[bytes]) -> None:
        content = b"".join(parts)
        os.write(file, content[: len(content) // 2] if fails else content)
        if fails:
            raise OSError(number, os.strerror(number))

    tier = DiskTier(tmp_path, MiB, write)
    assert not tier.store(key(1), payload(1)) and reasons(tier) == {reason: 1}
    assert [path.name for path in tmp_path.iterdir() if not path.is_dir()] == [".kvtheater-lock"]
    assert not block_files(tmp_path) and tier.figures().bytes == 0 and tier.has([key(1)]) == 0
    fails = False
    assert tier.store(key(1), payload(1)) and tier.load(key(1)) == payload(1)


def test_a_deleted_folder_is_used_again_when_it_reappears(tier: DiskTier) -> None:
    tier.store(key(1), payload(1))
    aside = tier.folder.path.rename(tier.folder.path.with_name("aside"))
    assert tier.has([key(1)]) == 0 and tier.load(key(1)) is None
    assert not tier.store(key(2), payload(2)) and reasons(tier) == {"folder_gone": 1}
    assert tier.figures().blocks == 0
    aside.rename(tier.folder.path)
    assert tier.load(key(1)) == payload(1) and tier.store(key(2), payload(2))


def test_a_block_over_the_folder_limit_is_dropped(tmp_path: Path) -> None:
    tier = DiskTier(tmp_path, 4096)
    assert not tier.store(key(1), payload(1, 4096)) and reasons(tier) == {"too_large": 1}  # with its header
    assert tier.store(key(2), payload(2, 4096 - 44))


def test_recent_drops_are_listed_and_all_are_counted(tier: DiskTier) -> None:
    for n in range(MAX_DROPS + 3):
        assert not tier.store(key(n), bytes(2 * MiB))
    drops = tier.stats.drops()
    assert reasons(tier) == {"too_large": MAX_DROPS + 3}
    assert [drop.number for drop in drops] == list(range(4, MAX_DROPS + 4))


@pytest.mark.parametrize("kind", ["file", "under_file", "nul"])
def test_an_unusable_folder_is_refused_in_one_sentence(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").touch()
    path = {"file": tmp_path / "file", "under_file": tmp_path / "file" / "more", "nul": tmp_path / "a\0b"}[kind]
    with pytest.raises(FolderError, match=r"KV blocks cannot be kept in [^\n]*; name a folder of your own$"):
        DiskTier(path, MiB)


def test_a_folder_may_be_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    tier = DiskTier(tmp_path / "link", MiB)
    assert tier.store(key(1), payload(1)) and block_files(tmp_path / "real")
