"""First download of a site: one module, two style sheets, the beginning of a recording. All else is loaded on demand,
or while the opening plays.

Browsers request six files at a time, each with a round trip to the static host. With two hundred small files this takes
seconds on a phone's connection. The opening's modules are therefore one bundle (`joined.py`), from which all other
modules import the shared ones.
"""

from __future__ import annotations

import re
from pathlib import Path

from app.ground.paths import static_dir
from app.page import assets
from app.page.joined import JOINED, bundled, dependency_order, rewrite_imports
from app.page.onefile import trace_bytes
from engine.trace.log import TraceReader

PREFETCH = "js/onefile/prefetch.js"
ENTRY = "js/main.js"
OPENING = ("js/panels/intro/opening_panel.js", "js/panels/intro/panel.js")
MAX_VISIBLE = 14  # maximum words that the opening's first query attends to; equal in js/panels/intro/film_scene.js
_MODULE = re.compile(r'\s*<script type="module"[^>]*></script>')


def write_modules(folder: Path) -> None:
    """Write the bundle and all other modules. `folder`: the site's static/, with the page's files."""
    names, later = _first()
    (folder / JOINED).write_text(bundled(names, later, ENTRY, _text), encoding="utf-8")
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name in names:
            path.unlink()
        elif path.suffix in (".js", ".mjs") and name not in (JOINED, PREFETCH):
            path.write_text(rewrite_imports(name, _text(name), names, later), encoding="utf-8")


def _first() -> tuple[list[str], set[str]]:
    """Return the modules of the bundle, each after its imports, and those of them that the entry does not import."""
    imported = {ENTRY, *assets.modules_from(static_dir(), ENTRY)}
    # the entry is last, so that it runs when the others are defined
    names = dependency_order((*OPENING, ENTRY), lambda name: assets.imports_of(static_dir(), name))
    return names, set(names) - imported


def _text(name: str) -> str:
    return assets.served(static_dir() / name).decode()


def with_first(page: str) -> str:
    """Return the page with the bundle in place of its modules."""
    module = f'\n    <script type="module" src="static/{JOINED}"></script>'
    prefetch = f'\n    <script src="static/{PREFETCH}" async></script>'
    return _MODULE.sub("", page).replace("</title>", f"</title>{module}{prefetch}", 1)


def write_beginning(recording: Path, target: Path) -> None:
    """Write the first part of an opening: all records, and the arrays of request A's first words."""
    with TraceReader(recording) as log:
        seq = next(s.seq_id for s in log.state_at(len(log) - 1).sequences.values() if s.request_id == "A")

        def is_early(index: int) -> bool:
            ends = [entry.start + len(entry.token_ids) for entry in log.record(index).batch if entry.seq_id == seq]
            return bool(ends) and ends[0] <= MAX_VISIBLE

        target.write_bytes(trace_bytes(log, is_early))
