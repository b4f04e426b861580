"""Quota of a folder of recordings: the number of files and bytes, including files being written."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from app.ground.errors import AppError, refuse
from app.ground.settings import MIB
from app.recordings.repair import UPLOAD_SUFFIX
from app.recordings.shelf import SUFFIX

AHEAD = 16 * MIB  # bytes that a growing recording claims ahead, so that the folder is rarely scanned


class Quota:
    """Quota of a folder. A writer claims the size of its file before writing; other usage is read from the folder.

    A file is identified by its name without the suffix, so its suffix may change when it is complete.
    """

    def __init__(self, folder: Path, max_files: int, max_bytes: int) -> None:
        self._folder, self._max_files, self._max_bytes = folder, max_files, max_bytes
        self._claims: dict[str, int] = {}  # claimed bytes by file
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def claimed(self, name: str, size: int) -> Iterator[None]:
        """Claim `size` bytes for a file within the context.

        Raises:
            AppError: `refused`: the quota is exhausted.
        """
        self.claim(name, size)
        try:
            yield
        finally:
            self.release(name)

    def claim(self, name: str, size: int) -> None:
        """Claim `size` bytes for a file until `release`, replacing an earlier claim for the file.

        Raises:
            AppError: `refused`: the quota is exhausted.
        """
        key = Path(name).stem
        with self._lock:
            sizes = {**self._on_disk(), **self._claims}
            sizes.pop(key, None)
            if len(sizes) >= self._max_files:
                raise refuse("refused", "recording.most", max_files=self._max_files)
            left = self._max_bytes - sum(sizes.values())
            if size > left:
                sizes_in_mib = {"wanted": _mib(size), "left": _mib(max(0, left)), "most": _mib(self._max_bytes)}
                raise refuse("refused", "recording.room", **sizes_in_mib)
            self._claims[key] = size

    def grow(self, name: str, size: int) -> None:
        """Extend the claim to cover `size` bytes.

        Raises:
            AppError: `refused`: the quota is exhausted.
        """
        if size > self._claims.get(Path(name).stem, 0):
            try:
                self.claim(name, size + AHEAD)
            except AppError:
                self.claim(name, size)  # without AHEAD

    def release(self, name: str) -> None:
        """Release the claim, after the file is written or will not be written."""
        with self._lock:
            self._claims.pop(Path(name).stem, None)

    def _on_disk(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        with contextlib.suppress(OSError):
            for path in self._folder.iterdir():
                with contextlib.suppress(OSError):
                    if path.suffix in (SUFFIX, UPLOAD_SUFFIX):
                        sizes[path.stem] = path.stat().st_size
        return sizes


def _mib(size: int) -> str:
    return f"{size / MIB:,.0f}" if size >= MIB else f"{size / MIB:.3f}"
