"""The page's files: the modules that it will request, and each file from memory, compressed once."""

from __future__ import annotations

import functools
import gzip
import mimetypes
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from posixpath import join, normpath
from typing import Any

import flask
from flask import Response

from app.ground.paths import static_dir

WSGI = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Body = Callable[[bool], bytes]  # what is sent, gzipped or not
Made = Callable[[str], tuple[str, Body] | None]

# a comment that has its lines for itself
_COMMENT = re.compile(r"^[ \t]*(?://[^\n]*|/\*(?:[^*]|\*(?!/))*\*/[ \t]*)$", re.MULTILINE)
DAY = 24 * 3600  # seconds
PREFIX = "/static/"
Stamp = tuple[int, int]  # changes when a file does
_IMPORT = re.compile(
    r"""(?:^|[;}])\s*(?:import\s*|(?:import|export)\b[^"'();]*?\bfrom\s*)["'](\.[^"']+)["']""", re.MULTILINE
)
_WORTH_COMPRESSING = ("text/", "application/javascript", "application/json", "image/svg+xml")


def modules_from(folder: Path, entry: str, *later: str) -> list[str]:
    """Return the modules that `entry` imports, directly or not, as paths below `folder`; the nearest first, itself left
    out.

    `later`: modules that it requests later; they and their imports come last.

    A browser learns of a module's imports only when it has that module: naming them all at once saves a round trip for
    each level.
    """
    found = _closure(folder, [entry])
    return _closure(folder, [*found, *(name for name in later if name not in found)])[1:]


def _closure(folder: Path, found: list[str]) -> list[str]:
    """Return these modules and all that they import."""
    for name in found:
        found += [path for path in imports_of(folder, name) if path not in found]
    return found


def imports_of(folder: Path, name: str) -> list[str]:
    """Return the modules that a module imports by itself, as paths below `folder`."""
    paths = (normpath(join(name, "..", target)) for target in _imports(folder / name, stamp_of(folder / name)))
    # each once; the browser reports missing ones
    return list(dict.fromkeys(path for path in paths if (folder / path).is_file()))


LAZY = "lazy"  # prefix of a panel's style sheets that are loaded with its code (static/js/kit/lazy.js)


def panel_sheets(folder: Path, lazy: bool = False) -> list[str]:
    """Return the style sheets that panels have in their folders, as paths below `folder`; `lazy`: the lazy ones too."""
    found = [path for path in folder.glob("js/panels/*/*.css") if lazy or not path.name.startswith(LAZY)]
    return sorted(path.relative_to(folder).as_posix() for path in found)


class StaticFiles:
    """WSGI middleware for static files: a visit requests many small ones, which need no framework.

    `made`: each returns the content of a file that is generated on request (`page_modules.py`, `page_sheets.py`). A
    path that is not a file of the folder is passed on to `app`, and so is a request for a part of one.
    """

    def __init__(self, app: WSGI, folder: Path, *made: Made) -> None:
        self._app = app
        self._folder = str(folder)
        self._made = made

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path: str = environ.get("PATH_INFO", "")
        method = environ["REQUEST_METHOD"]
        if not path.startswith(PREFIX) or method not in ("GET", "HEAD") or "HTTP_RANGE" in environ:
            return self._app(environ, start_response)
        found = self._find(path.removeprefix(PREFIX))
        if found is None:
            return self._app(environ, start_response)
        name, mark, body_of, is_made = found
        kind = _content_type(name)
        etag = f'"{mark}"'
        # Modules import each other by plain names, so a new version must be noticed: ask again each time (304).
        keep = f"public, max-age={DAY}" if path.startswith(PREFIX + "vendor/") and not is_made else "no-cache"
        headers = [("ETag", etag), ("Cache-Control", keep), ("Vary", "Accept-Encoding"), ("Content-Type", kind)]
        if environ.get("HTTP_IF_NONE_MATCH", "").removeprefix("W/") == etag:
            start_response("304 Not Modified", headers)
            return [b""]
        packed = kind.startswith(_WORTH_COMPRESSING) and "gzip" in environ.get("HTTP_ACCEPT_ENCODING", "")
        body = body_of(packed)
        if packed:
            headers.append(("Content-Encoding", "gzip"))
        start_response("200 OK", [*headers, ("Content-Length", str(len(body)))])
        return [body if method == "GET" else b""]

    def _find(self, path: str) -> tuple[str, str, Body, bool] | None:
        """Return a file with its stamp, its content, and whether it is generated; None if the folder has no
        such file.
        """
        name = os.path.normpath(os.path.join(self._folder, path))
        if "\0" in path or not name.startswith(self._folder + os.sep):
            return None
        for find in self._made:
            if made := find(name.removeprefix(self._folder + os.sep)):
                return name, *made, True
        if not os.path.isfile(name):
            return None
        stamp = stamp_of(Path(name))

        def body(packs: bool) -> bytes:
            return (_gzipped if packs else _content)(Path(name), stamp)

        return name, f"{stamp[0]:x}-{stamp[1]:x}", body, False


def compress(response: Response, path: Path) -> None:
    """Gzip the file at `path`, which `response` is about to send, if the browser accepts gzip."""
    response.headers["Vary"] = "Accept-Encoding"
    if response.status_code != 200 or flask.request.accept_encodings.quality("gzip") <= 0:
        return
    response.response.close()  # type: ignore[union-attr]  # the file that would have been sent as it is
    response.direct_passthrough = False
    response.set_data(_gzipped(path, stamp_of(path)))
    response.headers["Content-Encoding"] = "gzip"


@functools.cache
def _content_type(name: str) -> str:
    kind = {".mjs": "text/javascript", ".js": "text/javascript"}.get(Path(name).suffix) or mimetypes.guess_type(name)[0]
    if kind is None:
        return "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


def stamp_of(path: Path) -> Stamp:
    """Return a stamp that changes with the file."""
    facts = path.stat()
    return facts.st_mtime_ns, facts.st_size


@functools.lru_cache(maxsize=1024)
def _imports(path: Path, _: tuple[int, int]) -> list[str]:
    return _IMPORT.findall(path.read_text(encoding="utf-8"))


def served(path: Path) -> bytes:
    """Return a file as it is sent: the page's own modules without comments, which are a third of their size."""
    if path.suffix == ".js" and static_dir() / "js" in path.parents:
        return without_comments(path.read_text(encoding="utf-8")).encode()
    return path.read_bytes()


def without_comments(module: str) -> str:
    """Return a module without comments on lines of their own; all other lines keep their numbers."""
    return _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), module)


@functools.lru_cache(maxsize=1024)
def _content(path: Path, _: tuple[int, int]) -> bytes:
    return served(path)


@functools.lru_cache(maxsize=1024)
def _gzipped(path: Path, _: tuple[int, int]) -> bytes:
    return packed(served(path))


def packed(body: bytes) -> bytes:
    """Return the body compressed with gzip."""
    return gzip.compress(body, 6, mtime=0)
