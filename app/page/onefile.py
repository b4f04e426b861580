"""Recorded run as one HTML file: the page, its modules and the log inside, for `file://` and without a network.

It is the page that the server serves, with its own files put into it: styles as they are, words and modules as
compressed text, these under bare names (`static/js/onefile/start.js` makes modules of them, because a browser imports
none from `file://`), the log as a compressed `.kvtrace`. Its policy lets it fetch nothing and run nothing but that.
Left out are the sockets' client and Plotly (4.8 MB); the page says so where charts would be.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from posixpath import join, normpath

from jinja2 import Environment, FileSystemLoader

from app.ground.paths import static_dir, templates_dir
from app.page.assets import served
from app.page.options import option_tables
from app.page.sheets import SHEETS
from app.page.words import file_words_of, languages
from engine.trace import codec
from engine.trace.log import TraceReader

MAX_LOG_BYTES = 96 << 20  # of the log; as text it is a third larger, and a browser holds several copies
ENTRY = "js/main.js"
LOADER = "js/onefile/start.js"
# Panels that need a server: logs that are sent in parts, and queries over a whole log.
SERVED = ("large/", "queries/")  # panels
LEFT_OUT = tuple(f"js/panels/{name}" for name in SERVED)

_SPECIFIER = re.compile(r"""(?<![\w$.])((?:from|import)\s*\(?\s*)(["'])(\.{1,2}/[^"'\n]+)\2""")
_STYLE = re.compile(r'<link rel="stylesheet" href="static/([^"]+)"[^>]*>')
_ICON = re.compile(r'href="static/(icon\.svg)"')
_MODULE = re.compile(r'<script type="module"[^>]*></script>')
_SOCKETS = re.compile(r'\s*<script src="static/vendor/socket\.io[^>]*></script>')
_PREVIEW = re.compile(r'\s*<meta (?:property="og:|name="twitter:)[^>]*>')  # of links to a page on a host
_SCRIPT_END = re.compile(r"</(?=script)", re.IGNORECASE)


class TooLarge(ValueError):
    """The log is too large for one file."""


def export_page(log: TraceReader) -> bytes:
    """Return the page with the readable part of `log` inside. The same log gives the same bytes.

    Raises:
        TooLarge: the log has more than MAX_LOG_BYTES.
        TraceFormatError: a frame of it fails its checksum.
    """
    if log.num_bytes > MAX_LOG_BYTES:
        raise TooLarge(
            f"the log has {log.num_bytes >> 20} MiB, and a page holds at most {MAX_LOG_BYTES >> 20}: "
            "share the .kvtrace file, and look at it with kvtheater replay"
        )
    return page_with(log.header.model.name, {"embedded-log": trace_bytes(log)})


def trace_bytes(log: TraceReader, arrays: Callable[[int], bool] = lambda index: True) -> bytes:
    """Return the log as a file without keyframes, which the page does not use.

    arrays: whether a record's arrays go along.
    """
    frames = [codec.MAGIC, codec.frame("header", log.header_bytes)]
    for index in range(len(log)):
        frames.append(codec.frame("record", log.record_bytes(index)))
        if arrays(index) and (capture := log.capture_bytes(index)) is not None:
            frames.append(codec.frame("capture", capture))
    return b"".join(frames)


def page_with(title: str, inside: dict[str, bytes]) -> bytes:
    """Return the page as one file with these contents, by element id. Equal contents give equal bytes."""
    contents = "".join(
        f'<script type="application/gzip;base64" id="{name}">{_packed(content)}</script>\n'
        for name, content in inside.items()
    )
    spoken = {code: file_words_of(code, SERVED) for code in languages()}
    words = _packed(json.dumps(spoken, ensure_ascii=False, separators=(",", ":")).encode())
    texts = _packed(json.dumps(page_modules(), ensure_ascii=False, separators=(",", ":")).encode())
    # computed last, so that nothing in the contents can contain it
    nonce = hashlib.sha256((contents + words + texts).encode()).hexdigest()[:32]
    loader = _SCRIPT_END.sub("<\\/", (static_dir() / LOADER).read_text(encoding="utf-8"))
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}' blob:; style-src 'nonce-{nonce}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )

    def style(found: re.Match[str]) -> str:
        return f'<style nonce="{nonce}">\n{(static_dir() / found[1]).read_text(encoding="utf-8")}</style>'

    def icon(found: re.Match[str]) -> str:
        data = base64.b64encode((static_dir() / found[1]).read_bytes()).decode()
        return f'href="data:image/svg+xml;base64,{data}"'

    environment = Environment(loader=FileSystemLoader(templates_dir()), autoescape=True)
    page = environment.get_template("index.html").render(
        modules=[], sheets=SHEETS.one_by_one(), options=option_tables()
    )
    page = _PREVIEW.sub("", _SOCKETS.sub("", page))
    page = _MODULE.sub("", page)
    page = _ICON.sub(icon, _STYLE.sub(style, page))
    page = page.replace(
        '<meta charset="utf-8" />',
        f'<meta charset="utf-8" />\n    <meta http-equiv="Content-Security-Policy" content="{policy}" />',
        1,
    )
    page = page.replace("<title>KV Theater</title>", f"<title>KV Theater: {html.escape(title)}</title>", 1)
    head, body_end, rest = page.rpartition("</body>")
    page = (
        f'{head}<script type="text/plain" id="licences">\n{_licences()}</script>\n'
        f'<script type="application/gzip;base64" id="page-words">{words}</script>\n'
        f"{contents}"
        f'<script type="application/gzip;base64" id="page-modules">{texts}</script>\n'
        f'<script nonce="{nonce}">\n{loader}</script>\n{body_end}{rest}'
    )
    if 'src="/' in page or 'href="/' in page:
        raise RuntimeError("templates/index.html names a file that the exported page cannot take with it")
    return page.encode()


def page_modules() -> dict[str, str]:
    """Return every module that the page may import, under bare names, with imports by bare names."""
    waiting, modules = [ENTRY], {}
    for name in waiting:
        text, imported = renamed_module(name)
        modules[bare_name(name)] = text
        waiting += [path for path in imported if path not in waiting]
    return modules


def renamed_module(name: str) -> tuple[str, list[str]]:
    """Return a module's text with bare names in place of paths, and what it imports, as paths below static/."""
    return _renamed(name, _stamp(static_dir() / name))


@functools.lru_cache(maxsize=512)
def _renamed(name: str, _: tuple[int, int]) -> tuple[str, list[str]]:
    imported: list[str] = []

    def rename(found: re.Match[str]) -> str:
        path = normpath(join(name, "..", found[3]))
        if not (static_dir() / path).is_file() or path.startswith(LEFT_OUT):
            return found[0]  # a word in a comment, or a name that is never requested
        imported.append(path)
        return f"{found[1]}{found[2]}{bare_name(path)}{found[2]}"

    return _SPECIFIER.sub(rename, served(static_dir() / name).decode()), imported


def bare_name(path: str) -> str:
    """Return a module's name in the import map."""
    return f"page/{path}"


def _packed(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def _stamp(path: Path) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_mtime_ns, facts.st_size


def _licences() -> str:
    """Return the licences of the included packages."""
    used = {Path(name).parts[2] for name in page_modules() if name.startswith("page/vendor/")}
    paths = sorted(path for path in (static_dir() / "vendor").glob("*/LICENSE") if path.parent.name in used)
    texts = (f"{path.parent.name}\n\n{path.read_text(encoding='utf-8')}" for path in paths)
    return _SCRIPT_END.sub("<\\/", "\n\n".join(texts))
