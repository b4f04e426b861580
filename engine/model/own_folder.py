"""Folder of compiled code, which only the user can write.

Its files are loaded and executed. In a folder that all users share, another user could create it first and so decide
which code this program runs.
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
    """The folder of that name among those for this machine's compiled code, made if there is none.

    Raises:
        UnsafeFolder: another user could have put files there.
        OSError: it cannot be made.
        RuntimeError: a user without a home.
    """
    return own(own(own(cache_home() / "kvtheater") / _made_for()) / name)


def _made_for() -> str:
    """A name for the machines that can run code compiled here: this torch, on a processor with these instructions.

    TorchInductor's cache looks up by the graph alone. Where several machines share a home folder, or torch is bound to
    fewer instructions (ATEN_CPU_CAPABILITY), it would load code of another processor, which fails or computes NaN.
    """
    import torch  # here: without it one may ask what lies there

    facts = "\n".join((torch.__version__, platform.machine(), torch.backends.cpu.get_cpu_capability(), instructions()))
    return blake2b(facts.encode(), digest_size=8).hexdigest()


def all_compiled(name: str) -> list[Path]:
    """The folders of that name that there are, for whatever machines; without torch."""
    with contextlib.suppress(OSError, RuntimeError):
        return list((cache_home() / "kvtheater").glob(f"*/{name}"))
    return []


def cache_home() -> Path:
    """The platform's place for what can be made again. RuntimeError: a user without a home."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():
        return given
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def own(folder: Path) -> Path:
    """The folder, made if there is none.

    Raises:
        UnsafeFolder: it is not the user's alone, or another user could put another one in its place.
        OSError: it cannot be made.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):  # it exists: checked below
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != 0o700:
        raise UnsafeFolder(f"{folder} is not a folder of this user alone; delete it, or make it so (chmod 700)")
    for above in folder.resolve().parents:
        over = above.stat()
        # in a sticky folder, as the temporary one is, no user can remove another user's files
        if over.st_uid not in (0, os.geteuid()) or (over.st_mode & stat.S_IWOTH and not over.st_mode & stat.S_ISVTX):
            raise UnsafeFolder(f"{above}, in which {folder} lies, can be changed by others than this user")
    return folder
