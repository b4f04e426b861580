"""Page modules as a server sends them: most visits' modules as one bundle, the others as files that import from it.

Requesting two hundred modules one by one doubles a browser's CPU time, and needs two hundred revalidations. There is no
build step: the bundle is joined on its first request, and again when a module of it has changed.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field
from pathlib import Path

from app.ground.paths import static_dir
from app.page import assets
from app.page.joined import JOINED, beside, in_order, in_place_of, joined

ENTRY = "js/main.js"
LATER = "js/page/workspace.js"  # most visits continue to the full page, whose code main.js requests later

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _First:
    """Bundle content, valid while no module of it changes."""

    names: list[str]
    stamps: dict[str, assets.Stamp]
    mark: str  # version mark: changes with the content
    bodies: dict[tuple[str, assets.Stamp | None, bool], bytes] = field(default_factory=dict)


class PageModules:
    """Modules below `folder`: static/, except in tests. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: _First | None = None

    def ahead(self, entry: str) -> list[str]:
        """Return the modules that a page with this entry will request, as paths below the folder."""
        first = self._first()
        modules = assets.modules_from(self._folder, entry)
        others = [name for name in modules if name not in first.stamps]
        return others if len(others) == len(modules) else [JOINED, *others]

    def find(self, name: str) -> tuple[str, assets.Body] | None:
        """Return a module's version mark and body, gzipped or not. None: not a module of the page."""
        is_module = name.endswith((".js", ".mjs")) and not name.endswith(".min.js")
        if name != JOINED and not (is_module and (self._folder / name).is_file()):
            return None
        first = self._first()
        stamp = None if name == JOINED else assets.stamp_of(self._folder / name)
        mark = first.mark if stamp is None else f"{stamp[0]:x}-{stamp[1]:x}-{first.mark}"

        def body(packed: bool) -> bytes:
            key = (name, stamp, packed)
            if key not in first.bodies:
                first.bodies[key] = assets.packed(body(False)) if packed else self._text(first, name).encode()
            return first.bodies[key]

        return mark, body

    def _text(self, first: _First, name: str) -> str:
        if name == JOINED:
            return joined(first.names, first.names, None, self._read)
        made = in_place_of if name in first.stamps else beside
        return made(name, self._read(name), first.stamps, first.stamps)

    def _read(self, name: str) -> str:
        return assets.served(self._folder / name).decode()

    def _first(self) -> _First:
        made = self._made
        if made is None or not made.names or not self._is_as_it_was(made):
            made = self._made = self._make()
        return made

    def _is_as_it_was(self, first: _First) -> bool:
        try:
            return all(assets.stamp_of(self._folder / name) == stamp for name, stamp in first.stamps.items())
        except OSError:  # a module was deleted
            return False

    def _make(self) -> _First:
        """Build the bundle. Each module runs on first use, as it would alone, since other pages share some of them."""
        entries = [*assets.imports_of(self._folder, ENTRY), LATER]
        try:
            names = in_order(entries, lambda name: assets.imports_of(self._folder, name))
            stamps = {name: assets.stamp_of(self._folder / name) for name in names}
            text = joined(names, names, None, self._read)
        except (ValueError, OSError) as error:  # a module is being edited: the browser reports the error in it
            _log.warning("the page's modules are sent one by one: %s", error)
            return _First([], {}, "apart")
        mark = hashlib.sha256(repr(stamps).encode()).hexdigest()[:16]
        return _First(names, stamps, mark, {(JOINED, None, False): text.encode()})


PAGE = PageModules(static_dir())
