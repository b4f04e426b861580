"""Processes forked from a process that has imported the dependencies: `PreloadedPopen`.

It replaces `subprocess.Popen` for `[sys.executable, "-m", module, ...]` and `[sys.executable, "-c", program, ...]`. The
new process is a child of the caller with its own id, pipes, environment, exit status and `__main__`; it only saves the
seconds of importing torch and transformers. Other commands are started as usual. Do not use it in tests of imports, or
of environment variables that are read on import.

Workers of pytest-xdist are forked too (`fork_workers`), each with a zygote of its own, so all workers and their
subprocesses share one import.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

from execnet import gateway_io
from execnet.gateway_base import Popen2IO

PYTHON = sys.executable
ROOT = Path(__file__).resolve().parent.parent
IMPORTS = ("app.cli", "app.server.application", "app.models.live_engine", "engine.cluster.worker", "tests.server.fake")
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
ABOVE = 200  # received file descriptors are moved here before they are renumbered
MAX_FDS = 32


class Zygote:
    """Process with all imports, which is forked on request. It ends with its parent. May be used from any thread."""

    def __init__(self, ours: socket.socket, pid: int) -> None:
        self._ours, self._pid = ours, pid
        self._answers = self._ours.makefile("r")
        self._lock = threading.Lock()
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl

    @classmethod
    def started(cls, *imports: str) -> Zygote:
        """Start a zygote with further imports besides IMPORTS."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = [PYTHON, "-m", "tests.preloaded", str(theirs.fileno()), *imports]
            process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        process.returncode = 0  # suppresses a warning: `close` waits for the process
        return cls(ours, process.pid)

    def fork(self, job: dict[str, Any], fds: list[int]) -> int:
        """Fork a process and return its id. Its parent exits immediately, so this process adopts it as subreaper."""
        words = json.dumps(job).encode()
        with self._lock:
            self._prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                self._ours.sendall(len(words).to_bytes(8, "little") + words)
                socket.send_fds(self._ours, [b"."], fds)
                return int(self._answers.readline())
            finally:
                self._prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def close(self) -> None:
        self._ours.close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)


class PreloadedPopen(subprocess.Popen[Any]):
    """Replacement of `subprocess.Popen`. The first call starts the zygote and waits for it."""

    _zygote: Zygote | None = None
    _forkable = False  # whether the new process gets a zygote

    def _execute_child(self, args: Any, *more: Any) -> None:  # type: ignore[override]
        """Start a process. Overrides an internal method, whose arguments are the same from Python 3.11 on."""
        _, preexec, _, pass_fds, cwd, env, _, _, shell, *pipes = more[:15]
        new_session, process_group = more[-2:]
        if args[0] != PYTHON or args[1] not in ("-m", "-c") or shell or preexec is not None:
            super()._execute_child(args, *more)  # type: ignore[misc]
            return
        if PreloadedPopen._zygote is None:
            fork_from(Zygote.started())
        assert PreloadedPopen._zygote is not None
        job = {
            "words": [str(word) for word in args[1:]],
            "cwd": os.fspath(cwd or os.getcwd()),
            "env": dict(os.environ if env is None else env),
            "fds": [0, 1, 2, *pass_fds],
            "new_session": bool(new_session),
            "process_group": process_group,
            "forkable": self._forkable,
        }
        given = [pipes[index] if pipes[index] != -1 else fd for fd, index in enumerate((0, 3, 5))]
        try:
            self.pid = PreloadedPopen._zygote.fork(job, [*given, *pass_fds])
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def fork_from(zygote: Zygote) -> None:
    """Set the zygote of all further `PreloadedPopen` of this process."""
    PreloadedPopen._zygote = zygote
    atexit.register(zygote.close)


class _Worker(gateway_io.Popen2IOMaster):
    """Worker of pytest-xdist with its pipes, as execnet starts it."""

    class _Popen(PreloadedPopen):
        _forkable = True

    def __init__(self, args: list[str], execmodel: Any) -> None:
        self.popen = process = self._Popen([PYTHON, *args[-2:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        Popen2IO.__init__(self, process.stdin, process.stdout, execmodel=execmodel)


def fork_workers(*imports: str) -> None:
    """Fork all further pytest-xdist workers from a process with these imports and IMPORTS."""
    fork_from(Zygote.started(*imports))
    setattr(gateway_io, "Popen2IOMaster", _Worker)  # noqa: B010


def run_preloaded(command: list[str], seconds: float = 180.0) -> None:
    """Run a command in the root of the repository; assert that it succeeds."""
    with PreloadedPopen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        output, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, output


def _serve_forks(line: socket.socket) -> dict[str, Any]:
    """Fork a process for each message; return in the new process."""
    while True:
        head = line.recv(8, socket.MSG_WAITALL)
        if not head:
            os._exit(0)
        job: dict[str, Any] = json.loads(line.recv(int.from_bytes(head, "little"), socket.MSG_WAITALL))
        _, fds, _, _ = socket.recv_fds(line, 1, MAX_FDS)
        reads, writes = os.pipe()
        waits, goes = os.pipe()
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid == 0:
                os.close(goes)
                os.read(waits, 1)  # wait until the requester is the parent, since the program may check it
                for fd in (reads, writes, waits):
                    os.close(fd)
                line.close()
                if job["forkable"]:
                    ours, theirs = socket.socketpair()
                    beside = os.fork()
                    if beside == 0:
                        for fd in fds:
                            os.close(fd)
                        ours.close()
                        line = theirs
                        continue
                    theirs.close()
                    job["zygote"] = ours, beside
                _take_over(fds, job)
                return job
            os.write(writes, b"%d\n" % pid)
            os._exit(0)
        os.waitpid(between, 0)  # the new process is now a child of the requester
        line.sendall(os.read(reads, 32))
        for fd in (*fds, reads, writes, waits, goes):
            os.close(fd)


def _take_over(fds: list[int], job: dict[str, Any]) -> None:
    if job["new_session"]:
        os.setsid()
    elif job["process_group"] != -1:
        os.setpgid(0, job["process_group"])
    apart = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, ABOVE) for fd in fds]
    for fd in fds:
        os.close(fd)
    for fd, becomes in zip(apart, job["fds"], strict=True):
        os.dup2(fd, becomes)
        os.close(fd)
    os.environ.clear()
    os.environ.update(job["env"])
    os.chdir(job["cwd"])
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    for name, fd in (("stdout", 1), ("stderr", 2)):
        setattr(sys, name, open(fd, "w", encoding="utf-8", closefd=False, errors="backslashreplace"))  # noqa: SIM115
        getattr(sys, name).reconfigure(line_buffering=name == "stderr", write_through=unbuffered)


def _run(job: dict[str, Any]) -> None:
    """Run the program as the Python interpreter would."""
    kind, what, *rest = job["words"]
    if os.environ.get("PYTHONSAFEPATH"):
        del sys.path[0]
    else:
        sys.path[0] = job["cwd"] if kind == "-m" else ""
    sys.argv = [kind, *rest]
    if "zygote" in job:
        preloaded = importlib.import_module("tests.preloaded")  # the current module is `__main__`
        preloaded.fork_from(preloaded.Zygote(*job["zygote"]))
    if kind == "-m":
        runpy._run_module_as_main(what)  # type: ignore[attr-defined]
    else:
        program = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), program.__dict__)


def _main() -> dict[str, Any]:
    for name in IMPORTS:
        importlib.import_module(name)
    for name in sys.argv[2:]:
        with contextlib.suppress(ImportError):  # may be unavailable on a platform; code that needs it reports that
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # otherwise the first collection would copy all shared pages
    job = _serve_forks(socket.socket(fileno=int(sys.argv[1])))
    atexit.register(gc.unfreeze)  # otherwise extension modules report frozen objects as leaked at exit
    return job


if __name__ == "__main__":
    _run(_main())
