"""Folder of block files that several servers use at once: one lock, one usage count, one eviction order.

    DIR/.kvtheater-lock      held while writing or evicting; contains the number of bytes and blocks
    DIR/.kvtheater-writing   the block being written, renamed to its name when it is complete
    DIR/3f/3f0c….kv          blocks; the time of the last use is the file's modification time

Reading takes no lock: a name appears by a rename, so its file is complete, and an open file remains readable after its
deletion.

Writes are exclusive across all servers. An unfinished file found under the lock therefore belongs to a dead writer: it
has one fixed name, and is deleted. The lock is flock's, which the system releases with the process, however that ends.
(filelock and portalocker wrap the same call with thread and Windows support; diskcache has its index in SQLite and its
values as pickles, and loading a pickle from a folder executes it.)

The count is raised before a file is written and lowered after it is deleted, so a process killed in between leaves it
too high: the folder never exceeds its bound. Each server recounts the files once after its start, in the background (a
second or two for 100,000 of them on a busy machine), and again whenever it must evict. File sizes count as on disk, in
pages of 4 KiB.

Nothing is synced. A rename after fsync survives a power failure, but takes 1 to 12 ms a block (measured, 12 KiB to 4
MiB) where writing alone takes 0.15 to 5. Surviving kill -9 needs only that the system has the bytes. After a power
failure a file may be empty, short or full of zeros under its name: its checksum fails, and it is dropped.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from engine.connector.tiers.block_file import BadBlock, is_own_file

LOCK = ".kvtheater-lock"
WRITING = ".kvtheater-writing"
SUFFIX = ".kv"
LOCK_SECONDS = 5.0  # an eviction among a million files takes about as long
LOW_WATER = 0.9  # fraction of the bound that eviction reduces to, so that not every block lists all files
PAGE = 4096

_COUNT = struct.Struct("<QQ")  # bytes, blocks; then their CRC-32
_CHECK = struct.Struct("<I")
_SUBFOLDER = re.compile(r"[0-9a-f]{2}")
_BLOCK = re.compile(r"[0-9a-f]{32}\.kv")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class FolderError(OSError):
    """The folder cannot be used; the message is one sentence."""


class Count(NamedTuple):
    """Usage of the folder."""

    bytes: int
    blocks: int


def place_of(key: bytes) -> tuple[str, str]:
    """Return the subfolder and the file name of a key's block."""
    digits = key.hex()
    return digits[:2], digits + SUFFIX


def disk_bytes(size: int) -> int:
    """Return the bytes that a file of this size takes on a disk."""
    return -(-size // PAGE) * PAGE


class SharedFolder:
    """Folder by its path. Every call opens it again, so that a deleted and recreated folder is found."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        """Open the folder, or create it for this user alone.

        Raises:
            FolderError: it cannot be created, is no folder, or is not writable.
        """
        self.max_bytes = max_bytes
        try:
            self.path = path.expanduser().resolve()
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.opened() as root:
                os.close(self._open_lock(root))
        except (OSError, RuntimeError, ValueError) as error:  # a link to itself, a NUL
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise FolderError(f"KV blocks cannot be kept in {path}: {why}; name a folder of your own") from error

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        """Yield a descriptor of the folder. Raises OSError if it was deleted."""
        root = os.open(self.path, _FOLDER)
        try:
            yield root
        finally:
            os.close(root)

    def count(self) -> Count:
        """Return the count of the last holder of the lock; zero if it cannot be read."""
        with contextlib.suppress(OSError), self.opened() as root:
            lock = os.open(LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=root)
            try:
                return _read_count(lock) or Count(0, 0)
            finally:
                os.close(lock)
        return Count(0, 0)

    @contextlib.contextmanager
    def locked(self) -> Iterator[LockedFolder]:
        """Lock the folder against other writers and evictions.

        Raises:
            BadBlock: `busy`, others held it for LOCK_SECONDS; `folder_gone`.
            OSError: it cannot be locked.
        """
        with contextlib.ExitStack() as stack:
            try:
                root = stack.enter_context(self.opened())
            except FileNotFoundError as error:
                raise BadBlock("folder_gone", str(self.path)) from error
            lock = self._lock(root)
            stack.callback(os.close, lock)  # which unlocks it
            yield LockedFolder(root, lock, self.max_bytes)

    @staticmethod
    def _open_lock(root: int) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        lock = os.open(LOCK, flags, 0o600, dir_fd=root)
        if not is_own_file(os.fstat(lock)):
            os.close(lock)
            raise OSError(errno.EPERM, f"its {LOCK} is not a file of this user alone")
        return lock

    def _lock(self, root: int) -> int:
        deadline, pause = time.monotonic() + LOCK_SECONDS, 0.0005
        while True:
            lock = self._open_lock(root)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # the file may have been deleted meanwhile: then another process may hold the lock of a new one
                if os.path.samestat(os.fstat(lock), os.stat(LOCK, dir_fd=root, follow_symlinks=False)):
                    return lock
            except (BlockingIOError, FileNotFoundError):
                pass
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)
            if time.monotonic() > deadline:
                raise BadBlock("busy", f"another server held {LOCK} for {LOCK_SECONDS:g} s")
            time.sleep(pause)
            pause = min(2 * pause, 0.02)


def open_subfolder(root: int, name: str, make: bool = False) -> int:
    """Return a descriptor of a subfolder. Raises OSError if it is missing, or is a link or a file."""
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=root)
    return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=root)


def _read_count(lock: int) -> Count | None:
    """Return the stored count; None if there is none or its checksum is wrong."""
    written = os.pread(lock, _COUNT.size + _CHECK.size, 0)
    count, check = written[: _COUNT.size], written[_COUNT.size :]
    return Count(*_COUNT.unpack(count)) if check == _CHECK.pack(zlib.crc32(count)) else None


class _Found(NamedTuple):
    used: float  # time of the last use in nanoseconds
    subfolder: str
    name: str
    bytes: int


class LockedFolder:
    """Folder operations under the lock. The descriptors belong to the caller."""

    def __init__(self, root: int, lock: int, max_bytes: int) -> None:
        self.root = root
        self._lock = lock
        self._max_bytes = max_bytes
        self._count = _read_count(lock)

    @property
    def held(self) -> Count:
        """Upper bound of the folder's usage."""
        return self._count if self._count is not None else self.recount()

    def recount(self) -> Count:
        """Count all files."""
        found = self._find()
        return self._set(Count(sum(block.bytes for block in found), len(found)))

    def add(self, num_bytes: int, num_blocks: int) -> None:
        """Add to the count before a write; negative numbers after a deletion."""
        held = self.held
        self._set(Count(max(0, held.bytes + num_bytes), max(0, held.blocks + num_blocks)))

    def make_room(self, num_bytes: int) -> int:
        """Delete least recently used blocks until `num_bytes`, at most `max_bytes`, fit. Returns their number.

        Raises:
            BadBlock: too few blocks could be deleted.
        """
        if self.held.bytes + num_bytes <= self._max_bytes:
            return 0
        found = sorted(self._find())
        total = sum(block.bytes for block in found)
        if total + num_bytes <= self._max_bytes:  # files were deleted manually
            self._set(Count(total, len(found)))
            return 0
        # down to LOW_WATER, and at least until the new block fits
        keep = min(int(self._max_bytes * LOW_WATER), self._max_bytes - num_bytes)
        evicted = 0
        for block in found:
            if total <= keep:
                break
            with contextlib.suppress(OSError):  # a file of another user
                self._delete(block)
                total -= block.bytes
                evicted += 1
        self._set(Count(total, len(found) - evicted))
        if total + num_bytes > self._max_bytes:
            raise BadBlock("no_permission", "what fills the folder cannot be deleted")
        return evicted

    def _set(self, count: Count) -> Count:
        packed = _COUNT.pack(*count)
        os.pwrite(self._lock, packed + _CHECK.pack(zlib.crc32(packed)), 0)
        self._count = count
        return count

    def _delete(self, block: _Found) -> None:
        folder = open_subfolder(self.root, block.subfolder)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(block.name, dir_fd=folder)
        finally:
            os.close(folder)

    def _find(self) -> list[_Found]:
        """Return all block files. The unfinished file of a dead writer is deleted first."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(WRITING, dir_fd=self.root)
        found = list[_Found]()
        for subfolder in os.listdir(self.root):
            if not _SUBFOLDER.fullmatch(subfolder):
                continue
            try:
                folder = open_subfolder(self.root, subfolder)
            except OSError:  # not a folder
                continue
            try:
                found += _blocks_in(folder, subfolder)
            finally:
                os.close(folder)
        return found


def _blocks_in(folder: int, subfolder: str) -> Iterator[_Found]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not _BLOCK.fullmatch(entry.name):
                continue
            with contextlib.suppress(FileNotFoundError):  # a reader found it damaged and deleted it
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    yield _Found(status.st_mtime_ns, subfolder, entry.name, disk_bytes(status.st_size))
