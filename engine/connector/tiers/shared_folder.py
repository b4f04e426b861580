"""Folder of block files that several servers use at the same time, with one lock, usage count and eviction order.

    DIR/.kvtheater-lock      held while writing or evicting; contains the number of bytes and blocks
    DIR/.kvtheater-writing   the block that is being written; renamed when it is complete
    DIR/3f/3f0c….kv          blocks; the time of the last use is the file's modification time

Reads take no lock, because a file has its final name only when it is complete, and an open file remains readable after
its deletion.

Only one server writes at a time. So an unfinished file that is found under the lock was left by a killed writer, and is
deleted. The system releases the lock (flock) when its process ends, even if it is killed. filelock and portalocker wrap
the same call with support for threads and Windows. diskcache stores its values as pickles, and loading a pickle from a
folder can execute code.

The usage count is increased before a file is written, and decreased after one is deleted. If a process is killed in
between, the count is too high, so the folder never exceeds its maximum size. Each server recounts the files once after
its start, in the background (one or two seconds for 100,000 files on a busy machine), and whenever it must evict. Sizes
are rounded up to pages of 4 KiB.

Files are not synced. An fsync before the rename would survive a power failure, but takes 1 to 12 ms per block (measured
for 12 KiB to 4 MiB); writing alone takes 0.15 to 5 ms. Files survive kill -9 without it. A file that is empty, short or
full of zeros after a power failure fails its checksum and is dropped.
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
LOCK_SECONDS = 5.0  # timeout; an eviction among a million files takes about as long
LOW_WATER = 0.9  # eviction frees space down to this fraction of the maximum, so that it is not needed for every block
PAGE = 4096  # bytes

_COUNT = struct.Struct("<QQ")  # bytes, blocks; then their CRC-32
_CHECK = struct.Struct("<I")
_SUBFOLDER = re.compile(r"[0-9a-f]{2}")
_BLOCK = re.compile(r"[0-9a-f]{32}\.kv")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class FolderError(OSError):
    """The folder cannot be used. The message is one sentence."""


class Count(NamedTuple):
    """Usage of the folder."""

    bytes: int
    blocks: int


def path_of(key: bytes) -> tuple[str, str]:
    """Return the subfolder and the file name of a key's block."""
    digits = key.hex()
    return digits[:2], digits + SUFFIX


def disk_bytes(size: int) -> int:
    """Return the bytes that a file of this size uses on a disk."""
    return -(-size // PAGE) * PAGE


class SharedFolder:
    """Folder at a path. Every call opens it again, so a folder that was deleted and recreated is used."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        """Open the folder, or create it for this user alone.

        Raises:
            FolderError: the path cannot be created, is not a folder, or is not writable.
        """
        self.max_bytes = max_bytes
        try:
            self.path = path.expanduser().resolve()
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.opened() as root:
                os.close(self._open_lock(root))
        except (OSError, RuntimeError, ValueError) as error:  # a link to itself, a NUL
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise FolderError(f"KV blocks cannot be kept in {path}: {reason}; name a folder of your own") from error

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        """Yield a descriptor of the folder. Raises OSError if it was deleted."""
        root = os.open(self.path, _FOLDER)
        try:
            yield root
        finally:
            os.close(root)

    def count(self) -> Count:
        """Return the count that the last holder of the lock has written, or zeros if it cannot be read."""
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
            BadBlock: other servers held the lock for LOCK_SECONDS (`busy`), or the folder was deleted (`folder_gone`).
            OSError: the folder cannot be locked.
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
        deadline, delay = time.monotonic() + LOCK_SECONDS, 0.0005
        while True:
            lock = self._open_lock(root)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # if the lock file was deleted meanwhile, another process may hold the lock of a new file
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
            time.sleep(delay)
            delay = min(2 * delay, 0.02)


def open_subfolder(root: int, name: str, create: bool = False) -> int:
    """Return a descriptor of a subfolder. Raises OSError if it is missing, or is a link or a file."""
    if create:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=root)
    return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=root)


def _read_count(lock: int) -> Count | None:
    """Return the stored count, or None if there is none or its checksum is wrong."""
    written = os.pread(lock, _COUNT.size + _CHECK.size, 0)
    count, check = written[: _COUNT.size], written[_COUNT.size :]
    return Count(*_COUNT.unpack(count)) if check == _CHECK.pack(zlib.crc32(count)) else None


class _Found(NamedTuple):
    used: float  # time of the last use in nanoseconds
    subfolder: str
    name: str
    bytes: int


class LockedFolder:
    """Folder whose lock is held. The caller owns the descriptors."""

    def __init__(self, root: int, lock: int, max_bytes: int) -> None:
        self.root = root
        self._lock = lock
        self._max_bytes = max_bytes
        self._count = _read_count(lock)

    @property
    def usage(self) -> Count:
        """Upper bound of the folder's usage."""
        return self._count if self._count is not None else self.recount()

    def recount(self) -> Count:
        """Count all files."""
        found = self._find()
        return self._set(Count(sum(block.bytes for block in found), len(found)))

    def add(self, num_bytes: int, num_blocks: int) -> None:
        """Add to the count: positive numbers before a write, negative numbers after a deletion."""
        usage = self.usage
        self._set(Count(max(0, usage.bytes + num_bytes), max(0, usage.blocks + num_blocks)))

    def make_room(self, num_bytes: int) -> int:
        """Delete least recently used blocks until `num_bytes` bytes fit. Returns the number of deleted blocks.

        Raises:
            BadBlock: too few blocks could be deleted.
        """
        if self.usage.bytes + num_bytes <= self._max_bytes:
            return 0
        found = sorted(self._find())
        total = sum(block.bytes for block in found)
        if total + num_bytes <= self._max_bytes:  # files were deleted manually
            self._set(Count(total, len(found)))
            return 0
        target = min(int(self._max_bytes * LOW_WATER), self._max_bytes - num_bytes)
        evicted = 0
        for block in found:
            if total <= target:
                break
            with contextlib.suppress(OSError):  # a file of another user
                self._delete(block)
                total -= block.bytes
                evicted += 1
        self._set(Count(total, len(found) - evicted))
        if total + num_bytes > self._max_bytes:
            raise BadBlock("no_permission", "the blocks in the folder cannot be deleted")
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
        """Return all block files. Deletes the unfinished file of a killed writer first."""
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
            with contextlib.suppress(FileNotFoundError):  # a reader has deleted it, because it is damaged
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    yield _Found(status.st_mtime_ns, subfolder, entry.name, disk_bytes(status.st_size))
