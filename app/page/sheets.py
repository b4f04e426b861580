"""Page style sheets as a server sends them: one or two files with all sheets, in order.

Requesting twenty sheets one by one delays the first paint, and needs twenty revalidations. There is no build step: a
file is joined on request when a sheet has changed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from app.ground.paths import static_dir
from app.page import assets

FIRST = "first.css"  # below static/, as the one file of modules
OVER = "over.css"  # overrides all panels: static/js/kit/lazy.js inserts a panel's lazy sheets before it
_CHARTS = "css/charts.css"
_REPORTS = (
    "css/tokens.css", "css/base.css", "js/panels/header/style.css", _CHARTS, "css/overlays.css", "css/bench.css",
    "css/bench_report.css",
)  # fmt: skip
_BELOW_PANELS = ("css/tokens.css", "css/base.css", "css/kit.css", "css/detail.css", _CHARTS, "css/runs.css")
_OVER_PANELS = ("css/overlays.css", "css/phone.css", "css/layout.css", "css/present.css", "css/print.css")
# the files of each page, and what is in them apart from the panels' sheets
FILES = {
    "index": (FIRST, OVER),
    "bench": ("bench.css",),
    "scale": ("scale.css",),
    "documentation": ("documentation.css",),
}
_PARTS = {
    "bench.css": _REPORTS,
    "scale.css": (*_REPORTS, "css/scale.css"),
    "documentation.css": ("css/tokens.css", "css/base.css", "css/documentation.css"),
    OVER: _OVER_PANELS,
}


class Sheet(NamedTuple):
    """A link in a page's head."""

    name: str  # a path below static/
    has_charts: bool  # static/js/kit/plotly.js: the mark keeps Plotly from adding rules


@dataclass(frozen=True)
class _Made:
    """Joined file, valid while no sheet in it changes."""

    mark: str  # what changes when anything of it does
    bodies: dict[bool, bytes] = field(default_factory=dict)  # gzipped or not


class PageSheets:
    """Style sheets below `folder`, which is static/ but for tests. May be used from any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, _Made] = {}

    def links(self, page: str) -> list[Sheet]:
        """Return the sheets that the head of a page (a key of `FILES`) links."""
        return [Sheet(name, _CHARTS in self.parts(name)) for name in FILES[page]]

    def one_by_one(self) -> list[Sheet]:
        """Return all sheets of the stage, lazy ones too, for a self-contained page."""
        names = [*_BELOW_PANELS, *assets.panel_sheets(self._folder, lazy=True), *_OVER_PANELS]
        return [Sheet(name, name == _CHARTS) for name in names]

    def parts(self, name: str) -> list[str]:
        """Return the sheets in one file, as paths below the folder."""
        if name == FIRST:
            return [*_BELOW_PANELS, *assets.panel_sheets(self._folder)]
        return list(_PARTS[name])

    def find(self, name: str) -> tuple[str, assets.Body] | None:
        """Return a file's version mark and body, gzipped or not. None: none of these files."""
        if name != FIRST and name not in _PARTS:
            return None
        parts = [part for part in self.parts(name) if (self._folder / part).is_file()]
        stamps = [(part, assets.stamp_of(self._folder / part)) for part in parts]
        mark = hashlib.sha256(repr(stamps).encode()).hexdigest()[:16]
        made = self._made.get(name)
        if made is None or made.mark != mark:
            made = self._made[name] = _Made(mark)

        def body(packed: bool) -> bytes:
            if packed not in made.bodies:
                made.bodies[packed] = assets.packed(body(False)) if packed else self._joined(parts)
            return made.bodies[packed]

        return mark, body

    def _joined(self, parts: list[str]) -> bytes:
        return b"\n".join((self._folder / part).read_bytes() for part in parts)


SHEETS = PageSheets(static_dir())
