"""Parser of `--kv-offload-cpu 1GiB` and `--kv-offload-disk DIR:10GiB`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_UNITS = {
    **{"": 1, "b": 1},
    **{f"{prefix}ib": 2 ** (10 * power) for power, prefix in enumerate("kmgt", start=1)},
    **{f"{prefix}b": 10 ** (3 * power) for power, prefix in enumerate("kmgt", start=1)},
}
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?) ?([a-z]*)", re.ASCII)
MOST = 2**60


class SettingError(ValueError):
    """A setting cannot be read; the message is one sentence."""


class DiskSetting(NamedTuple):
    """Folder of the disk tier, and its maximum size in bytes."""

    folder: Path
    max_bytes: int


def parse_size(text: str) -> int:
    """Bytes, at least 1: `1GiB`, `1.5 GiB`, `512MiB`, `10GB` (powers of ten), `1073741824`.

    Raises:
        SettingError: it is no size.
    """
    found = _SIZE.fullmatch(text.strip().lower())
    unit = _UNITS.get(found[2]) if found else None
    if not found or unit is None:
        raise SettingError(f"“{text}” is no size; write for example 512MiB, 10GiB, or a number of bytes")
    size = int(float(found[1]) * unit) if "." in found[1] else int(found[1]) * unit
    if not 1 <= size <= MOST:
        raise SettingError(f"“{text}” is no size to keep blocks in; it must be at least 1 byte and at most {MOST}")
    return size


def parse_disk(text: str) -> DiskSetting:
    """Parse `DIR:10GiB`. The last colon counts, since the folder's name may contain others.

    Raises:
        SettingError: there is no folder, or no size.
    """
    folder, colon, size = text.rpartition(":")
    if not colon or not folder.strip():
        raise SettingError(
            f"“{text}” does not say where and how much; write the folder and what it may hold, as in kv-blocks:10GiB"
        )
    if "\0" in folder:
        raise SettingError(f"{folder!r} is no name of a folder")
    return DiskSetting(Path(folder).expanduser(), parse_size(size))
