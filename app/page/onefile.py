"""Recorded run as one HTML file with the page, its modules and the log, for `file://` and use without a network.

The file embeds the style sheets, texts and modules of the server's page, and the log as a compressed `.kvtrace`.
Modules are compressed texts with bare specifiers, from which `static/js/onefile/start.js` creates modules, because a
browser cannot import from `file://`. The Content-Security-Policy forbids fetching, and running any other script.
The Socket.IO client and Plotly (4.8 MB) are not included; the page shows a note in place of charts.
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

MAX_LOG_BYTES = 96 << 20  # Base64 makes the log a third larger, and a browser holds several copies
ENTRY = "js/main.js"
LOADER = "js/onefile/start.js"
SERVED = ("large/", "queries/")  # panels that need a server
LEFT_OUT = tuple(f"js/panels/{name}" for name in SERVED)

_SPECIFIER = re.compile(r"""(?<![\w$.])((?:from|import)\s*\(?\s*)(["'])(\.{1,2}/[^"'\n]+)\2""")
_STYLE = re.compile(r'<link rel="stylesheet" href="static/([^"]+)"[^>]*>')
_ICON = re.compile(r'href="static/(icon\.svg)"')
_MODULE = re.compile(r'<script type="module"[^>]*></script>')
_SOCKETS = re.compile(r'\s*<script src="static/vendor/socket\.io[^>]*></script>')
_PREVIEW = re.compile(r'\s*<meta (?:property="og:|name="twitter:)[^>]*>')  # link previews
_SCRIPT_END = re.compile(r"</(?=script)", re.IGNORECASE)


class TooLarge(ValueError):
    """The log is too large for one file."""


def export_page(log: TraceReader) -> bytes:
    """Return the page with the readable part of `log`. The same log gives the same bytes.

    Raises:
        TooLarge: the log has more than MAX_LOG_BYTES.
        TraceFormatError: the checksum of a frame is wrong.
    """
    if log.num_bytes > MAX_LOG_BYTES:
        raise TooLarge(
            f"the log has {log.num_bytes >> 20} MiB, but a page can have at most {MAX_LOG_BYTES >> 20}; "
            "share the .kvtrace file and open it with kvtheater replay"
        )
    return page_with(log.header.model.name, {"embedded-log": trace_bytes(log)})


def trace_bytes(log: TraceReader, arrays: Callable[[int], bool] = lambda index: True) -> bytes:
    """Return the log as a file without keyframes, which the page does not use.

    `arrays` returns whether to include the arrays of a record.
    """
    frames = [codec.MAGIC, codec.frame("header", log.header_bytes)]
    for index in range(len(log)):
        frames.append(codec.frame("record", log.record_bytes(index)))
        if arrays(index) and (capture := log.capture_bytes(index)) is not None:
            frames.append(codec.frame("capture", capture))
    return b"".join(frames)


def page_with(title: str, embedded: dict[str, bytes]) -> bytes:
    """Return the page as one file with embedded contents, by element id. Equal contents give equal bytes."""
    contents = "".join(
        f'<script type="application/gzip;base64" id="{name}">{_packed(content)}</script>\n'
        for name, content in embedded.items()
    )
    texts_by_language = {code: file_words_of(code, SERVED) for code in languages()}
    words = _packed(json.dumps(texts_by_language, ensure_ascii=False, separators=(",", ":")).encode())
    texts = _packed(json.dumps(page_modules(), ensure_ascii=False, separators=(",", ":")).encode())
    # a hash of the contents, so that they cannot contain the nonce
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
        raise RuntimeError("templates/index.html links a file that is not embedded in the exported page")
    return page.encode()


def page_modules() -> dict[str, str]:
    """Return every module that the page may import by its bare name, with imports by bare names."""
    names, modules = [ENTRY], {}
    for name in names:
        text, imported = renamed_module(name)
        modules[bare_name(name)] = text
        names += [path for path in imported if path not in names]
    return modules


def renamed_module(name: str) -> tuple[str, list[str]]:
    """Return a module's text with bare names in place of paths, and its imports as paths below static/."""
    return _renamed(name, _stamp(static_dir() / name))


@functools.lru_cache(maxsize=512)
def _renamed(name: str, _: tuple[int, int]) -> tuple[str, list[str]]:
    imported: list[str] = []

    def rename(found: re.Match[str]) -> str:
        path = normpath(join(name, "..", found[3]))
        if not (static_dir() / path).is_file() or path.startswith(LEFT_OUT):
            return found[0]  # text in a comment, or a module that is not included
        imported.append(path)
        return f"{found[1]}{found[2]}{bare_name(path)}{found[2]}"

    return _SPECIFIER.sub(rename, served(static_dir() / name).decode()), imported


def bare_name(path: str) -> str:
    """Return a module's bare name."""
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
