"""Disk tier: blocks in a folder that several servers share, and that remains after a restart.

An error of the folder or of a file in it is a miss or a dropped block for the engine. Its reason is counted and
reported. See `shared_folder` for locking and `block_file` for verification.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from engine.connector.tiers.block_file import (
    HEADER_BYTES,
    READING,
    BadBlock,
    drop_reason,
    header_of,
    is_own_file,
    read_block,
    write_all,
)
from engine.connector.tiers.counters import DropReason, TierCounters, TierStats
from engine.connector.tiers.shared_folder import (
    WRITING,
    LockedFolder,
    SharedFolder,
    disk_bytes,
    open_subfolder,
    path_of,
)

MAX_UNUSABLE = 4096  # remembered keys whose files can be neither used nor deleted
_NO_FOLDER = (errno.ELOOP, errno.ENOTDIR)
_NO_FILE = (*_NO_FOLDER, errno.ENXIO)  # a link, a socket


class DiskTier:
    """Blocks in a folder. Any number of threads and processes may use it."""

    def __init__(self, path: Path, max_bytes: int, write: Callable[[int, list[bytes]], None] = write_all) -> None:
        """Open the folder. Each server that writes to it enforces its own `max_bytes`.

        `write(descriptor, parts)` writes to an open file, or raises OSError.

        Raises:
            FolderError: the folder cannot be used.
        """
        self.max_bytes = max_bytes
        self.stats = TierStats("disk")
        self.folder = SharedFolder(path, max_bytes)
        self._write = write
        self._unusable: set[bytes] = set()  # keys

    def has(self, keys: Sequence[bytes]) -> int:
        """Return the number of leading `keys` that have a file. The files are not opened, so they may be damaged."""
        with contextlib.suppress(OSError), self.folder.opened() as root:
            for index, key in enumerate(keys):
                if key in self._unusable or self._size(root, key) is None:
                    return index
            return len(keys)
        return 0

    @staticmethod
    def _size(root: int, key: bytes) -> int | None:
        try:
            found = os.stat("/".join(path_of(key)), dir_fd=root, follow_symlinks=False)
        except OSError:
            return None
        return found.st_size if is_own_file(found) else None

    def load(self, key: bytes) -> bytes | None:
        """Return the stored payload, or None. An unusable file is deleted, counted and reported."""
        begin = time.perf_counter()
        try:
            payload = self.read(key)
        except BadBlock as bad:
            self.stats.drop(bad.reason, key, bad.detail)
            payload = None
        if payload is None:
            self.stats.miss()
        else:
            self.stats.hit(len(payload), time.perf_counter() - begin)
        return payload

    def read(self, key: bytes) -> bytes | None:
        """Return the stored payload without counting, or None if there is no file.

        Raises:
            BadBlock: the file is unusable. It is deleted if possible.
        """
        subfolder, name = path_of(key)
        try:
            with contextlib.ExitStack() as stack:
                root = stack.enter_context(self.folder.opened())
                folder = open_subfolder(root, subfolder)
                stack.callback(os.close, folder)
                try:
                    file = os.open(name, READING, dir_fd=folder)
                    stack.callback(os.close, file)
                    payload = read_block(file, key, self.max_bytes)
                except (BadBlock, OSError) as error:
                    if _is_permanent(error):
                        self._delete(folder, name, key)
                    raise
                with contextlib.suppress(OSError):  # mark as used; fails in a read-only folder
                    now = time.time_ns()
                    os.utime(file, ns=(now, now))
                return payload
        except FileNotFoundError:  # never stored, evicted by another server, or the folder was deleted
            return None
        except OSError as error:
            if error.errno in _NO_FOLDER:  # the name of its subfolder is that of a file or link
                self._mark_unusable(key)
            reason: DropReason = "not_a_file" if error.errno in _NO_FILE else "unreadable"
            raise BadBlock(reason, error.strerror or "") from error
        except MemoryError as error:
            raise BadBlock("unreadable", "too little memory to read it") from error

    def _delete(self, folder: int, name: str, key: bytes) -> None:
        """Delete an unusable file, so that the block can be stored again. If that fails, lookups ignore its key."""
        try:
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            pass
        except OSError:
            self._mark_unusable(key)

    def _mark_unusable(self, key: bytes) -> None:
        if len(self._unusable) >= MAX_UNUSABLE:
            self._unusable.clear()
        self._unusable.add(key)

    def store(self, key: bytes, payload: bytes) -> bool:
        """Store a block. Returns False on failure, which is counted and reported. No partial file remains."""
        begin = time.perf_counter()
        try:
            written = self.write(key, payload)
        except BadBlock as bad:
            self.stats.drop(bad.reason, key, bad.detail)
            return False
        except OSError as error:
            self.stats.drop(drop_reason(error), key, error.strerror or str(error))
            return False
        if written:
            self.stats.stored(len(payload), time.perf_counter() - begin)
        return True

    def write(self, key: bytes, payload: bytes) -> bool:
        """Write a block. Returns False if the folder already has it. Only evictions are counted.

        Raises:
            BadBlock, OSError: the block cannot be stored.
        """
        size = HEADER_BYTES + len(payload)
        if disk_bytes(size) > self.max_bytes:
            raise BadBlock("too_large", f"{size} bytes")
        with self.folder.locked() as locked:
            existing = self._size(locked.root, key)
            if existing == size and key not in self._unusable:
                return False
            self.stats.evicted(locked.make_room(disk_bytes(size)))
            existing = self._size(locked.root, key)  # the eviction may have deleted it
            locked.add(disk_bytes(size), 1)  # before the file is written: see `shared_folder`
            try:
                self._write_file(locked, key, [header_of(key, payload), payload])
            except BaseException:
                with contextlib.suppress(OSError):
                    _delete_unfinished(locked.root)
                    locked.add(-disk_bytes(size), -1)
                raise
            if existing is not None:  # a damaged file of another length was replaced
                locked.add(-disk_bytes(existing), -1)
            self._unusable.discard(key)
        return True

    def _write_file(self, locked: LockedFolder, key: bytes, parts: list[bytes]) -> None:
        _delete_unfinished(locked.root)  # left by a killed writer
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(WRITING, flags, 0o600, dir_fd=locked.root)
        try:
            self._write(file, parts)
        finally:
            os.close(file)
        subfolder, name = path_of(key)
        folder = open_subfolder(locked.root, subfolder, create=True)
        try:
            os.rename(WRITING, name, src_dir_fd=locked.root, dst_dir_fd=folder)
        finally:
            os.close(folder)

    def sweep(self) -> None:
        """Delete the unfinished file of a killed writer, and recount the files, if possible."""
        with contextlib.suppress(BadBlock, OSError), self.folder.locked() as locked:
            locked.recount()

    def delete(self, keys: Iterable[bytes]) -> None:
        """Delete the blocks of `keys` that exist."""
        with contextlib.suppress(BadBlock, OSError), self.folder.locked() as locked:
            for key in keys:
                if (size := self._size(locked.root, key)) is not None:
                    os.unlink("/".join(path_of(key)), dir_fd=locked.root)
                    locked.add(-disk_bytes(size), -1)

    def figures(self) -> TierCounters:
        count = self.folder.count()
        return self.stats.figures(count.blocks, count.bytes, self.max_bytes)


def _is_permanent(error: BadBlock | OSError) -> bool:
    """Return whether the file is permanently unusable, unlike a file of another user."""
    if isinstance(error, BadBlock):
        return error.reason != "foreign"
    return error.errno in (*_NO_FILE, errno.EACCES, errno.EPERM, errno.EIO)


def _delete_unfinished(root: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(WRITING, dir_fd=root)
