"""Disk tier: blocks in a folder, shared by several servers and found again after a restart.

On any error of the folder or a file in it, the engine gets or stores no block and continues; the reason is counted and
reported. See `shared_folder` for locking, `block_file` for verification.
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
    header_of,
    is_own_file,
    read_block,
    why_not_written,
    write_all,
)
from engine.connector.tiers.books import DropReason, TierBook, TierCounters
from engine.connector.tiers.shared_folder import (
    WRITING,
    LockedFolder,
    SharedFolder,
    disk_bytes,
    open_subfolder,
    place_of,
)

_REFUSED = 4096  # remembered keys whose file can be neither used nor deleted
_NO_FOLDER = (errno.ELOOP, errno.ENOTDIR)
_NO_FILE = (*_NO_FOLDER, errno.ENXIO)  # a link, a socket


class DiskTier:
    """The blocks of one folder, for any number of threads and processes."""

    def __init__(self, path: Path, max_bytes: int, write: Callable[[int, list[bytes]], None] = write_all) -> None:
        """Open the folder. Each server that writes enforces its own `max_bytes`.

        `write(descriptor, parts)` writes to an open file, or raises OSError.

        Raises:
            FolderError: the folder cannot be used.
        """
        self.max_bytes = max_bytes
        self.book = TierBook("disk")
        self.folder = SharedFolder(path, max_bytes)
        self._write = write
        self._refused: set[bytes] = set()

    def has(self, keys: Sequence[bytes]) -> int:
        """Return the number of leading `keys` with a file. Files are not opened, so they may be damaged."""
        with contextlib.suppress(OSError), self.folder.opened() as root:
            for index, key in enumerate(keys):
                if key in self._refused or self._size(root, key) is None:
                    return index
            return len(keys)
        return 0

    @staticmethod
    def _size(root: int, key: bytes) -> int | None:
        try:
            found = os.stat("/".join(place_of(key)), dir_fd=root, follow_symlinks=False)
        except OSError:
            return None
        return found.st_size if is_own_file(found) else None

    def load(self, key: bytes) -> bytes | None:
        """Return the stored payload, or None. A file that is not this block is deleted, counted and reported."""
        begin = time.perf_counter()
        try:
            payload = self.read(key)
        except BadBlock as bad:
            self.book.drop(bad.reason, key, bad.detail)
            payload = None
        if payload is None:
            self.book.miss()
        else:
            self.book.hit(len(payload), time.perf_counter() - begin)
        return payload

    def read(self, key: bytes) -> bytes | None:
        """Return the stored payload without counting; None if there is no file.

        Raises:
            BadBlock: the file is unusable; it was deleted if possible.
        """
        subfolder, name = place_of(key)
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
                    if _is_of_no_use(error):
                        self._delete(folder, name, key)
                    raise
                with contextlib.suppress(OSError):  # mark as used; fails in a read-only folder, which is readable
                    now = time.time_ns()
                    os.utime(file, ns=(now, now))
                return payload
        except FileNotFoundError:  # never there, evicted by another server, or the whole folder is gone
            return None
        except OSError as error:
            if error.errno in _NO_FOLDER:  # something else has the name of its subfolder
                self._refuse(key)
            reason: DropReason = "not_a_file" if error.errno in _NO_FILE else "unreadable"
            raise BadBlock(reason, error.strerror or "") from error
        except MemoryError as error:
            raise BadBlock("unreadable", "no memory for it") from error

    def _delete(self, folder: int, name: str, key: bytes) -> None:
        """Delete an unusable file, so that a sound block can replace it. If that fails, its key is ignored."""
        try:
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            pass
        except OSError:
            self._refuse(key)

    def _refuse(self, key: bytes) -> None:
        if len(self._refused) >= _REFUSED:
            self._refused.clear()
        self._refused.add(key)

    def store(self, key: bytes, payload: bytes) -> bool:
        """Store a block. Return False on failure, which is counted and reported; no partial file remains."""
        begin = time.perf_counter()
        try:
            written = self.write(key, payload)
        except BadBlock as bad:
            self.book.drop(bad.reason, key, bad.detail)
            return False
        except OSError as error:
            self.book.drop(why_not_written(error), key, error.strerror or str(error))
            return False
        if written:
            self.book.stored(len(payload), time.perf_counter() - begin)
        return True

    def write(self, key: bytes, payload: bytes) -> bool:
        """Write as `store`, uncounted except for evictions. Return False if the folder already has it.

        Raises:
            BadBlock, OSError: it cannot be stored.
        """
        size = HEADER_BYTES + len(payload)
        if disk_bytes(size) > self.max_bytes:
            raise BadBlock("too_large", f"{size} bytes")
        with self.folder.locked() as held:
            there = self._size(held.root, key)
            if there == size and key not in self._refused:
                return False
            self.book.evicted(held.make_room(disk_bytes(size)))
            there = self._size(held.root, key)  # the eviction may have deleted it
            held.add(disk_bytes(size), 1)  # before there is a file: see `shared_folder`
            try:
                self._put(held, key, [header_of(key, payload), payload])
            except BaseException:
                with contextlib.suppress(OSError):
                    _delete_unfinished(held.root)
                    held.add(-disk_bytes(size), -1)
                raise
            if there is not None:  # a damaged file of another length was replaced
                held.add(-disk_bytes(there), -1)
            self._refused.discard(key)
        return True

    def _put(self, held: LockedFolder, key: bytes, parts: list[bytes]) -> None:
        _delete_unfinished(held.root)  # of a dead writer
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(WRITING, flags, 0o600, dir_fd=held.root)
        try:
            self._write(file, parts)
        finally:
            os.close(file)
        subfolder, name = place_of(key)
        folder = open_subfolder(held.root, subfolder, make=True)
        try:
            os.rename(WRITING, name, src_dir_fd=held.root, dst_dir_fd=folder)
        finally:
            os.close(folder)

    def sweep(self) -> None:
        """Delete the unfinished file of a dead writer and recount the files, where possible."""
        with contextlib.suppress(BadBlock, OSError), self.folder.locked() as held:
            held.recount()

    def forget(self, keys: Iterable[bytes]) -> None:
        """Delete the blocks of `keys` that exist."""
        with contextlib.suppress(BadBlock, OSError), self.folder.locked() as held:
            for key in keys:
                if (size := self._size(held.root, key)) is not None:
                    os.unlink("/".join(place_of(key)), dir_fd=held.root)
                    held.add(-disk_bytes(size), -1)

    def figures(self) -> TierCounters:
        count = self.folder.count()
        return self.book.figures(count.blocks, count.bytes, self.max_bytes)


def _is_of_no_use(error: BadBlock | OSError) -> bool:
    """Return whether the file is permanently unusable, unlike another user's file or a lack of descriptors."""
    if isinstance(error, BadBlock):
        return error.reason != "foreign"
    return error.errno in (*_NO_FILE, errno.EACCES, errno.EPERM, errno.EIO)


def _delete_unfinished(root: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(WRITING, dir_fd=root)
