"""Compiles a model in a separate process, for a server that has not imported torch's compiler.

    this process                            python -m engine.model.compiler_child
      the loaded model       -- stdin -->     loads the same model, compiles it, caches the libraries (`compile_cache`)
      loads them from there  <-- exit ---

Tracing and compiling take hundreds of megabytes that a process does not return to the system until it ends. Meanwhile
the weights are in memory twice. If they are small, the process forks after it has loaded the model and imported the
compiler, and its child builds the library of one token in parallel: lowering to C++, the longest part, then runs on two
cores.
"""

from __future__ import annotations

import logging
import os
import sys

import torch

from engine.model.compiler_process import SMALL, CompilerProcess, Task, take_early_process
from engine.model.light_transformers import COMPILER
from engine.model.loaded import LoadedModel
from engine.model.own_process import OWN_PROCESS
from engine.system.cgroup import cores, memory

log = logging.getLogger(__name__)


def compile_in_subprocess(model: LoadedModel) -> bool:
    """Compile a model in another process, which may have been started early. Return whether it succeeded.

    No-op in processes of other programs, and in a process that has imported the compiler.
    """
    opened = model.opened
    if opened is None or not os.environ.get(OWN_PROCESS) or COMPILER in sys.modules:
        return False
    num_bytes = sum(parameter.nbytes for parameter in model.module.parameters())
    is_shared = cores() > 1 and num_bytes <= SMALL * memory().available
    key = opened.name, opened.dtype, opened.revision
    try:
        process = take_early_process(*key) or CompilerProcess(Task(*key, torch.get_num_threads(), is_shared))
        failure = process.wait()
    except OSError as error:
        failure = str(error)
    if failure:
        log.info("the compiler process for %s failed: %s", opened.name, failure)
    return not failure
