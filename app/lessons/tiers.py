"""Tiers of a lesson's runs, which have their own CPU memory and folder instead of the server's.

`do: restart kv_offload_cpu="1 MiB" kv_offload_disk="1 MiB"` acts like a server restart: pending writes are flushed, CPU
memory is freed, and the folder is opened again with its content. After a restart without these keys there are no tiers.
The folder remains for later restarts and is deleted at the end of the lesson.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from app.models.engine_face import OwnTiers
from engine.connector.tiers.settings import DiskSetting, parse_size
from engine.connector.tiers.tiers import Tiers

TIERS = ("kv_offload_cpu", "kv_offload_disk")  # keys in the changes of a restart that are not settings
MAX_BYTES = 16 << 20  # of each tier, since a server may have many active lessons


class TierSizes(NamedTuple):
    """Capacity of each tier in bytes. None: the tier does not exist."""

    cpu: int | None = None
    disk: int | None = None


def tiers_of(changes: Mapping[str, Any]) -> TierSizes:
    """Parse the tiers of a restart.

    Raises:
        ValueError: a size is invalid or too large; one sentence.
    """
    sizes = {name: parse_size(str(changes[name])) for name in TIERS if name in changes}
    for name, size in sizes.items():
        if size > MAX_BYTES:
            raise ValueError(f"{name}: a lesson's tier has at most {MAX_BYTES >> 20} MiB")
    return TierSizes(sizes.get(TIERS[0]), sizes.get(TIERS[1]))


class LessonTiers:
    """Tiers of a course, across restarts."""

    def __init__(self) -> None:
        self._tiers: Tiers | None = None
        self._folder: TemporaryDirectory[str] | None = None

    def restart(self, sizes: TierSizes) -> OwnTiers:
        """Return the next run's tiers.

        Raises:
            OSError: the folder cannot be created or used.
        """
        self._end()
        if sizes.disk is not None and self._folder is None:
            self._folder = TemporaryDirectory(prefix="kvtheater-lesson-")
        if sizes != TierSizes():
            disk = DiskSetting(Path(self._folder.name), sizes.disk) if self._folder and sizes.disk else None
            self._tiers = Tiers(sizes.cpu, disk)
        return OwnTiers(self._tiers)

    def close(self) -> None:
        """Free the memory and delete the folder."""
        self._end()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _end(self) -> None:
        if self._tiers is not None:
            self._tiers.close()
            self._tiers = None
