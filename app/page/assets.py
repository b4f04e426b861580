"""Static files of the page, which are cached and compressed in memory, and the imports of its modules."""

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
Body = Callable[[bool], bytes]  # returns a body; True: compressed with gzip
Generator = Callable[[str], tuple[str, Body] | None]  # returns the version and body of a generated file

# comments on lines of their own
_COMMENT = re.compile(r"^[ \t]*(?://[^\n]*|/\*(?:[^*]|\*(?!/))*\*/[ \t]*)$", re.MULTILINE)
DAY = 24 * 3600  # seconds
PREFIX = "/static/"
Stamp = tuple[int, int]  # changes when a file does
_IMPORT = re.compile(
    r"""(?:^|[;}])\s*(?:import\s*|(?:import|export)\b[^"'();]*?\bfrom\s*)["'](\.[^"']+)["']""", re.MULTILINE
)
_WORTH_COMPRESSING = ("text/", "application/javascript", "application/json", "image/svg+xml")


def modules_from(folder: Path, entry: str, *later: str) -> list[str]:
    """Return the modules that `entry` imports directly or indirectly, as paths below `folder`, breadth first.

    `later`: modules that `entry` requests later. They and their imports are last.

    A browser finds a module's imports only after loading it. Preloading all modules saves a round trip for each level.
    """
    found = _closure(folder, [entry])
    return _closure(folder, [*found, *(name for name in later if name not in found)])[1:]


def _closure(folder: Path, found: list[str]) -> list[str]:
    """Append the imports of these modules, directly or indirectly, to the list, and return it."""
    for name in found:
        found += [path for path in imports_of(folder, name) if path not in found]
    return found


def imports_of(folder: Path, name: str) -> list[str]:
    """Return the modules that a module imports directly, as paths below `folder`, without missing files."""
    paths = (normpath(join(name, "..", target)) for target in _imports(folder / name, stamp_of(folder / name)))
    return list(dict.fromkeys(path for path in paths if (folder / path).is_file()))


LAZY = "lazy"  # prefix of style sheets that are loaded with a panel's code (static/js/kit/lazy.js)


def panel_sheets(folder: Path, lazy: bool = False) -> list[str]:
    """Return the style sheets of panels, as paths below `folder`. `lazy`: include lazily loaded ones."""
    found = [path for path in folder.glob("js/panels/*/*.css") if lazy or not path.name.startswith(LAZY)]
    return sorted(path.relative_to(folder).as_posix() for path in found)


class StaticFiles:
    """WSGI middleware that serves static files without the overhead of the framework.

    `generators` return files that are generated on request (`modules.py`, `sheets.py`). Requests for other paths, and
    range requests, are passed on to `app`.
    """

    def __init__(self, app: WSGI, folder: Path, *generators: Generator) -> None:
        self._app = app
        self._folder = str(folder)
        self._generators = generators

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path: str = environ.get("PATH_INFO", "")
        method = environ["REQUEST_METHOD"]
        if not path.startswith(PREFIX) or method not in ("GET", "HEAD") or "HTTP_RANGE" in environ:
            return self._app(environ, start_response)
        found = self._find(path.removeprefix(PREFIX))
        if found is None:
            return self._app(environ, start_response)
        name, version, body_of, is_generated = found
        kind = _content_type(name)
        etag = f'"{version}"'
        # the names of modules have no version, so browsers must revalidate them on each visit
        cache = f"public, max-age={DAY}" if path.startswith(PREFIX + "vendor/") and not is_generated else "no-cache"
        headers = [("ETag", etag), ("Cache-Control", cache), ("Vary", "Accept-Encoding"), ("Content-Type", kind)]
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
        """Return the path of a file, its version, its body, and whether it is generated; None if it does not exist."""
        name = os.path.normpath(os.path.join(self._folder, path))
        if "\0" in path or not name.startswith(self._folder + os.sep):
            return None
        for generate in self._generators:
            if generated := generate(name.removeprefix(self._folder + os.sep)):
                return name, *generated, True
        if not os.path.isfile(name):
            return None
        stamp = stamp_of(Path(name))

        def body(is_gzipped: bool) -> bytes:
            return (_gzipped if is_gzipped else _content)(Path(name), stamp)

        return name, f"{stamp[0]:x}-{stamp[1]:x}", body, False


def compress(response: Response, path: Path) -> None:
    """Gzip the file at `path`, which `response` is about to send, if the browser accepts gzip."""
    response.headers["Vary"] = "Accept-Encoding"
    if response.status_code != 200 or flask.request.accept_encodings.quality("gzip") <= 0:
        return
    response.response.close()  # type: ignore[union-attr]  # the uncompressed file
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
    """Return a file as it is sent. Comments, a third of the bytes, are removed from the page's own modules."""
    if path.suffix == ".js" and static_dir() / "js" in path.parents:
        return without_comments(path.read_text(encoding="utf-8")).encode()
    return path.read_bytes()


def without_comments(module: str) -> str:
    """Return a module without the comments on lines of their own. Line numbers do not change."""
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
