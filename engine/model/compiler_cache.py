"""Cache folders of torch's compilers, in a folder of the user.

TorchInductor's default cache has a known name in the shared temporary folder, and its content is executed. On a machine
with several users, another user could create that folder first and inject code.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
import threading
from pathlib import Path

import torch._inductor.config
from torch._inductor.runtime.cache_dir_utils import default_cache_dir

from engine.model.own_folder import compiled_folder

FOLDERS = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}  # by the variable that names it
log = logging.getLogger(__name__)
_lock = threading.Lock()


def use_own_cache() -> None:
    """Set the compilers' cache folders to ones that only this user can write, for this process and its children.

    Must be called before anything compiles. A variable that the user has set is not changed; torch's default value,
    which torch sets when it is imported, is. If the user's folder is not safe or cannot be created, a temporary folder
    is used instead, and deleted when the process ends.
    """
    # Precompiled headers are always written to the temporary folder, and do not speed up compiling two graphs.
    torch._inductor.config.cpp_cache_precompile_headers = False
    with _lock:
        default = default_cache_dir()
        missing = {name: folder for name, folder in FOLDERS.items() if os.environ.get(name, default) == default}
        if not missing:
            return
        try:
            for folder in missing.values():
                place = compiled_folder(folder).parent
        except (OSError, RuntimeError) as error:
            log.warning("compiled code is cached for this run only: %s", " ".join(str(error).split()))
            place = Path(tempfile.mkdtemp(prefix="kvtheater-compiled-"))
            atexit.register(shutil.rmtree, place, ignore_errors=True)
        for name, folder in missing.items():
            os.environ[name] = str(place / folder)
