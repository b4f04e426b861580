"""What a first visit to a site fetches: one module, two style sheets, the beginning of a recording. Everything else
comes when it is asked for, or while the opening plays.

A static host answers each of two hundred small files after a round trip, six at a time: on a phone's connection that
is seconds. So what the opening needs lies in one module (`joined.py`), and every other module takes from there what it
shares with it.
"""

from __future__ import annotations

import re
from pathlib import Path

from app import assets
from app.joined import JOINED, beside, in_order, joined
from app.onefile import trace_bytes
from app.paths import static_dir
from engine.trace.log import TraceReader

FIRST_SHEET = "first.css"  # below static/, as the module
OVER_SHEET = "css/overlays.css"  # what has a say over all panels: static/js/kit/lazy.js puts late sheets before it
AHEAD = "js/onefile/ahead.js"
ENTRY = "js/main.js"
OPENING = ("js/panels/look/opening_panel.js", "js/panels/look/panel.js")
ASKED = 14  # words that the opening's first query sees at most: MOST_ASKED of static/js/panels/look/film_scene.js
_MODULE = re.compile(r'\s*<script type="module"[^>]*></script>')
_SHEET = re.compile(r'\s*<link rel="stylesheet" href="/static/([^"]+)"[^>]*>')


def write_modules(folder: Path) -> None:
    """The one module, and all others beside it; `folder` is the site's static/, with the page's files in it."""
    names, later = _first()
    (folder / JOINED).write_text(joined(names, later, ENTRY, _text), encoding="utf-8")
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name in names:
            path.unlink()
        elif path.suffix in (".js", ".mjs") and name not in (JOINED, AHEAD):
            path.write_text(beside(name, _text(name), names, later), encoding="utf-8")


def _first() -> tuple[list[str], set[str]]:
    """The modules of the opening, each after those that it imports; and those that the entry does not import itself."""
    at_once = {ENTRY, *assets.modules_from(static_dir(), ENTRY)}
    # the entry comes last: it runs when the others are there
    names = in_order((*OPENING, ENTRY), lambda name: assets.imports_of(static_dir(), name))
    return names, set(names) - at_once


def _text(name: str) -> str:
    return assets.served(static_dir() / name).decode()


def first_sheets(page: str) -> dict[str, str]:
    """All style sheets of a page in two, in their order."""
    names = _SHEET.findall(page)
    over = names.index("css/overlays.css")
    parts = {FIRST_SHEET: names[:over], OVER_SHEET: names[over:]}
    return {
        name: "\n".join(assets.served(static_dir() / sheet).decode() for sheet in sheets)
        for name, sheets in parts.items()
    }


def with_first(page: str) -> str:
    """The served page with the one module and the two sheets."""
    plotly = ' id="plotly.js-style-global" class="no-inline-styles"'  # it has charts.css in it: static/js/kit/plotly.js
    sheets = iter(
        f'\n    <link rel="stylesheet" href="/static/{name}"{marks} />'
        for name, marks in ((FIRST_SHEET, plotly), (OVER_SHEET, ""))
    )
    page = _SHEET.sub(lambda _: next(sheets, ""), page)
    module = f'\n    <script type="module" src="/static/{JOINED}"></script>'
    ahead = f'\n    <script src="/static/{AHEAD}" async></script>'
    return _MODULE.sub("", page).replace("</title>", f"</title>{module}{ahead}", 1)


def write_beginning(recording: Path, target: Path) -> None:
    """What an opening begins with: all its records, of the arrays those of request A's first words."""
    with TraceReader(recording) as log:
        seq = next(s.seq_id for s in log.state_at(len(log) - 1).sequences.values() if s.request_id == "A")

        def is_early(index: int) -> bool:
            ends = [entry.start + len(entry.token_ids) for entry in log.record(index).batch if entry.seq_id == seq]
            return bool(ends) and ends[0] <= ASKED

        target.write_bytes(trace_bytes(log, is_early))
