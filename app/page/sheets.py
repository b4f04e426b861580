"""Style sheets as a server sends them: joined into one or two files per page.

Twenty separate sheets would delay the first paint and need twenty revalidations. There is no build step: a file is
joined on its first request, and again after one of its sheets has changed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from app.ground.paths import static_dir
from app.page import assets

FIRST = "first.css"  # below static/
OVER = "over.css"  # overrides all panels: static/js/kit/lazy.js inserts a panel's lazy sheets before it
_CHARTS = "css/charts.css"
_REPORTS = (
    "css/tokens.css", "css/base.css", "js/panels/header/style.css", _CHARTS, "css/overlays.css", "css/bench.css",
    "css/bench_report.css",
)  # fmt: skip
_BELOW_PANELS = ("css/tokens.css", "css/base.css", "css/kit.css", "css/detail.css", _CHARTS, "css/runs.css")
_OVER_PANELS = ("css/overlays.css", "css/phone.css", "css/layout.css", "css/present.css", "css/print.css")
# files of each page
FILES = {
    "index": (FIRST, OVER),
    "bench": ("bench.css",),
    "scale": ("scale.css",),
    "documentation": ("documentation.css",),
}
# sheets in each file; those of FIRST are found by `parts`
_PARTS = {
    "bench.css": _REPORTS,
    "scale.css": (*_REPORTS, "css/scale.css"),
    "documentation.css": ("css/tokens.css", "css/base.css", "css/documentation.css"),
    OVER: _OVER_PANELS,
}


class Sheet(NamedTuple):
    """A link in a page's head."""

    name: str  # a path below static/
    has_charts: bool  # marks the link for static/js/kit/plotly.js, so that Plotly adds no rules


@dataclass(frozen=True)
class _JoinedFile:
    """Joined file, valid until one of its sheets changes."""

    version: str  # changes with the content
    bodies: dict[bool, bytes] = field(default_factory=dict)  # by whether the body is gzipped


class PageSheets:
    """Style sheets below `folder`, which is static/ except in tests. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, _JoinedFile] = {}

    def links(self, page: str) -> list[Sheet]:
        """Return the sheets that the head of a page (a key of `FILES`) links."""
        return [Sheet(name, _CHARTS in self.parts(name)) for name in FILES[page]]

    def one_by_one(self) -> list[Sheet]:
        """Return all sheets of the main page separately, including lazy ones, for the page as one file."""
        names = [*_BELOW_PANELS, *assets.panel_sheets(self._folder, lazy=True), *_OVER_PANELS]
        return [Sheet(name, name == _CHARTS) for name in names]

    def parts(self, name: str) -> list[str]:
        """Return the sheets in a file, as paths below the folder."""
        if name == FIRST:
            return [*_BELOW_PANELS, *assets.panel_sheets(self._folder)]
        return list(_PARTS[name])

    def find(self, name: str) -> tuple[str, assets.Body] | None:
        """Return a file's version and body, or None if there is no such file."""
        if name != FIRST and name not in _PARTS:
            return None
        parts = [part for part in self.parts(name) if (self._folder / part).is_file()]
        stamps = [(part, assets.stamp_of(self._folder / part)) for part in parts]
        version = hashlib.sha256(repr(stamps).encode()).hexdigest()[:16]
        file = self._files.get(name)
        if file is None or file.version != version:
            file = self._files[name] = _JoinedFile(version)

        def body(packed: bool) -> bytes:
            if packed not in file.bodies:
                file.bodies[packed] = assets.packed(body(False)) if packed else self._joined(parts)
            return file.bodies[packed]

        return version, body

    def _joined(self, parts: list[str]) -> bytes:
        return b"\n".join((self._folder / part).read_bytes() for part in parts)


SHEETS = PageSheets(static_dir())
