"""The page's own files: which modules it will ask for, and their bytes compressed once."""

from __future__ import annotations

import functools
import gzip
import re
from pathlib import Path
from posixpath import join, normpath

import flask
from flask import Response

_IMPORT = re.compile(r"""^\s*(?:import\s*|(?:import|export)\b[^"'();]*?\bfrom\s*)["'](\.[^"']+)["']""", re.MULTILINE)
_WORTH_COMPRESSING = ("text/", "application/javascript", "application/json", "image/svg+xml")


def modules_from(folder: Path, entry: str) -> list[str]:
    """The modules that `entry` imports, directly or not, as paths below `folder`; the nearest first, itself left out.

    A browser learns of a module's imports only when it has that module: naming them all at once saves a round trip for
    each level.
    """
    found = [entry]
    for name in found:
        for target in _imports(folder / name, _stamp(folder / name)):
            path = normpath(join(name, "..", target))
            if path not in found and (folder / path).is_file():  # what is missing, the browser will say
                found.append(path)
    return found[1:]


def compress(response: Response, path: Path) -> None:
    """Send the file at `path`, which `response` is about to send, in gzip's encoding to a browser that takes it."""
    if response.status_code != 200 or not response.mimetype.startswith(_WORTH_COMPRESSING):
        return
    response.headers["Vary"] = "Accept-Encoding"
    if flask.request.accept_encodings.quality("gzip") <= 0 or "Range" in flask.request.headers:
        return
    response.response.close()  # type: ignore[union-attr]  # the file that would have been sent as it is
    response.direct_passthrough = False
    response.set_data(_gzipped(path, _stamp(path)))
    response.headers["Content-Encoding"] = "gzip"


def _stamp(path: Path) -> tuple[int, int]:
    """What changes when the file does."""
    facts = path.stat()
    return facts.st_mtime_ns, facts.st_size


@functools.lru_cache(maxsize=1024)
def _imports(path: Path, _: tuple[int, int]) -> list[str]:
    return _IMPORT.findall(path.read_text(encoding="utf-8"))


@functools.lru_cache(maxsize=1024)
def _gzipped(path: Path, _: tuple[int, int]) -> bytes:
    return gzip.compress(path.read_bytes(), 6, mtime=0)
