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
MAX_SIZE = 2**60  # bytes


class SettingError(ValueError):
    """A setting is invalid. The message is one sentence."""


class DiskSetting(NamedTuple):
    """Folder of the disk tier, and its maximum size in bytes."""

    folder: Path
    max_bytes: int


def parse_size(text: str) -> int:
    """Parse a size of at least 1 byte: `1GiB`, `1.5 GiB`, `512MiB`, `10GB` (powers of ten), `1073741824`.

    Raises:
        SettingError: the text is not such a size.
    """
    found = _SIZE.fullmatch(text.strip().lower())
    unit = _UNITS.get(found[2]) if found else None
    if not found or unit is None:
        raise SettingError(f"“{text}” is not a size; write for example 512MiB, 10GiB, or a number of bytes")
    size = int(float(found[1]) * unit) if "." in found[1] else int(found[1]) * unit
    if not 1 <= size <= MAX_SIZE:
        raise SettingError(f"“{text}” is not a size from 1 to {MAX_SIZE} bytes")
    return size


def parse_disk(text: str) -> DiskSetting:
    """Parse `DIR:10GiB`. The folder's name may contain colons, so the last one is the separator.

    Raises:
        SettingError: there is no folder or no size.
    """
    folder, colon, size = text.rpartition(":")
    if not colon or not folder.strip():
        raise SettingError(
            f"“{text}” does not have the form FOLDER:SIZE; write the folder and its maximum size, as in kv-blocks:10GiB"
        )
    if "\0" in folder:
        raise SettingError(f"{folder!r} is not a valid name of a folder")
    return DiskSetting(Path(folder).expanduser(), parse_size(size))
