"""Where compiled code is kept between two runs: in a folder of the user's own.

TorchInductor's usual place has a known name in the temporary folder that all users share, and its content is loaded and
run. On a machine with several users, the one who makes that folder first would decide what this program does.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import platform
import shutil
import stat
import sys
import tempfile
import threading
from hashlib import blake2b
from pathlib import Path

import torch
import torch._inductor.config
from torch._inductor.runtime.cache_dir_utils import default_cache_dir

FOLDERS = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}  # by the variable that names it
log = logging.getLogger(__name__)
_lock = threading.Lock()


class UnsafeFolder(OSError):
    """Another user could have put files there; the message is one sentence."""


def use_own_cache() -> None:
    """Have the compilers keep what they make in folders that only this user can write, in the process and its children.

    Called before anything compiles. A variable that the user has set is kept. (torch sets it to its usual place when it
    is imported; that value is not the user's.) Where the user's folder is not safe or cannot be made, a folder of this
    process takes its place and is deleted at its end.
    """
    # Precompiled headers always go to the temporary folder; without them two graphs compile no slower.
    torch._inductor.config.cpp_cache_precompile_headers = False
    with _lock:
        usual = default_cache_dir()
        missing = {name: folder for name, folder in FOLDERS.items() if os.environ.get(name, usual) == usual}
        if not missing:
            return
        try:
            place = _own(_own(_cache_home() / "kvtheater") / _made_for())
            for folder in missing.values():
                _own(place / folder)
        except (OSError, RuntimeError) as error:
            log.warning("compiled code is kept for this run only: %s", " ".join(str(error).split()))
            place = Path(tempfile.mkdtemp(prefix="kvtheater-compiled-"))
            atexit.register(shutil.rmtree, place, ignore_errors=True)
        for name, folder in missing.items():
            os.environ[name] = str(place / folder)


def _made_for() -> str:
    """A name for the machines that can run code compiled here: this torch, on a processor with these instructions.

    TorchInductor's cache looks up by the graph alone. Where several machines share a home folder, or torch is bound to
    fewer instructions (ATEN_CPU_CAPABILITY), it would load code of another processor, which fails or computes NaN.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    has = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    facts = "\n".join((torch.__version__, platform.machine(), torch.backends.cpu.get_cpu_capability(), has))
    return blake2b(facts.encode(), digest_size=8).hexdigest()


def _cache_home() -> Path:
    """The platform's place for what can be made again. RuntimeError: a user without a home."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():
        return given
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def _own(folder: Path) -> Path:
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
