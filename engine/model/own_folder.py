"""Folder of compiled code that only the user can write.

Its files are loaded and executed. If it were in a folder that all users share, another user could create it first and
inject code.
"""

from __future__ import annotations

import contextlib
import os
import platform
import stat
import sys
from hashlib import blake2b
from pathlib import Path

from engine.system.host import instructions


class UnsafeFolder(OSError):
    """Another user could have put files there; the message is one sentence."""


def compiled_folder(name: str) -> Path:
    """Return the folder `name` for code compiled on this machine; create it if necessary.

    Raises:
        UnsafeFolder: another user could have put files there.
        OSError: it cannot be created.
        RuntimeError: the user has no home folder.
    """
    return own(own(own(cache_home() / "kvtheater") / _platform_hash()) / name)


def _platform_hash() -> str:
    """Return a hash of the platform that compiled code depends on: torch version and processor instructions.

    The keys of TorchInductor's cache depend only on the graph. If machines share a home folder, or torch is limited to
    fewer instructions (ATEN_CPU_CAPABILITY), it would load another processor's code, which fails or computes NaN.
    """
    import torch  # lazy: `all_compiled` needs no torch

    facts = "\n".join((torch.__version__, platform.machine(), torch.backends.cpu.get_cpu_capability(), instructions()))
    return blake2b(facts.encode(), digest_size=8).hexdigest()


def all_compiled(name: str) -> list[Path]:
    """Return the existing folders of that name, for any machine, without importing torch."""
    with contextlib.suppress(OSError, RuntimeError):
        return list((cache_home() / "kvtheater").glob(f"*/{name}"))
    return []


def cache_home() -> Path:
    """Return the platform's cache folder. Raises RuntimeError if the user has no home folder."""
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if configured.is_absolute():
        return configured
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def own(folder: Path) -> Path:
    """Return a folder that only this user can access; create it if necessary.

    Raises:
        UnsafeFolder: it is not private to the user, or another user could replace it.
        OSError: it cannot be created.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != 0o700:
        raise UnsafeFolder(f"{folder} must belong to this user alone; delete it, or run chmod 700 on it")
    for above in folder.resolve().parents:
        over = above.stat()
        # in a sticky folder such as /tmp, no user can remove another user's files
        if over.st_uid not in (0, os.geteuid()) or (over.st_mode & stat.S_IWOTH and not over.st_mode & stat.S_ISVTX):
            raise UnsafeFolder(f"{folder} is not safe: other users can write to its parent {above}")
    return folder
