"""What a first visit to a site fetches: one script, two style sheets. Everything else comes when it is asked for.

A static host answers each of two hundred small files after a round trip, six at a time: on a phone's connection that
is seconds. So the modules that the opening needs lie in one script (`static/js/onefile/first.js` makes modules of
them), and all modules import each other by the names of its import map.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from app import assets
from app.onefile import bare_name, renamed_module
from app.paths import static_dir

FIRST_SCRIPT = "first.js"  # below static/, as the sheet
FIRST_SHEET = "first.css"
OVER_SHEET = "first-overlays.css"  # what has a say over all panels: sheets that come later are put before it
LOADER = "js/onefile/first.js"
AHEAD = "js/onefile/ahead.js"
OPENING = ("js/main.js", "js/panels/look/opening_panel.js", "js/panels/look/panel.js")
_MODULE = re.compile(r'\s*<script type="module"[^>]*></script>')
_SHEET = re.compile(r'\s*<link rel="stylesheet" href="/static/([^"]+)"[^>]*>')


def write_modules(folder: Path) -> None:
    """Every module under the names of the import map; `folder` is the site's static/."""
    for path in sorted(static_dir().rglob("*")):
        name = path.relative_to(static_dir()).as_posix()
        if path.suffix in (".js", ".mjs") and (folder / name).is_file() and path.parent.name != "onefile":
            (folder / name).write_text(renamed_module(name)[0], encoding="utf-8")


def first_script() -> str:
    """The modules of the opening, and what makes modules of them."""
    entry, *later = OPENING
    names = [entry, *assets.modules_from(static_dir(), entry, *later)]
    texts = {bare_name(name): renamed_module(name)[0] for name in names}
    loader = assets.served(static_dir() / LOADER).decode()
    return f"globalThis.firstModules = {json.dumps(texts, ensure_ascii=False)};\n{loader}"


def first_sheets(page: str) -> dict[str, str]:
    """All style sheets of a page in two, in their order."""
    names = _SHEET.findall(page)
    over = names.index("css/overlays.css")
    parts = {FIRST_SHEET: names[:over], OVER_SHEET: names[over:]}
    return {
        name: "\n".join(assets.served(static_dir() / sheet).decode() for sheet in sheets)
        for name, sheets in parts.items()
    }


def nonce_of(script: str) -> str:
    """What lets the script, and nothing else, write the import map."""
    return hashlib.sha256(script.encode()).hexdigest()[:32]


def with_first(page: str, nonce: str) -> str:
    """The served page with the one script and the two sheets."""
    plotly = ' id="plotly.js-style-global" class="no-inline-styles"'  # it has charts.css in it: static/js/kit/plotly.js
    sheets = iter(
        f'\n    <link rel="stylesheet" href="/static/{name}"{marks} />'
        for name, marks in ((FIRST_SHEET, plotly), (OVER_SHEET, ""))
    )
    page = _SHEET.sub(lambda _: next(sheets, ""), page)
    script = f'\n    <script src="/static/{FIRST_SCRIPT}" nonce="{nonce}" defer></script>'
    ahead = f'\n    <script src="/static/{AHEAD}" async></script>'
    return _MODULE.sub("", page).replace("</title>", f"</title>{script}{ahead}", 1)
