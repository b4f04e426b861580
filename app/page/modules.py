"""Page modules as a server sends them: one bundle for most visits, and other modules as files that import from it.

Two hundred separate modules would double a browser's CPU time and need two hundred revalidations. There is no build
step: the bundle is built on its first request, and again after one of its modules has changed.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field
from pathlib import Path

from app.ground.paths import static_dir
from app.page import assets
from app.page.joined import JOINED, bundled, dependency_order, reexport, rewrite_imports

ENTRY = "js/main.js"
LATER = "js/page/workspace.js"  # the full page, which main.js requests later on most visits

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Content:
    """Bundle, valid until one of its modules changes."""

    names: list[str]
    stamps: dict[str, assets.Stamp]
    version: str  # changes with the content
    bodies: dict[tuple[str, assets.Stamp | None, bool], bytes] = field(default_factory=dict)


class PageModules:
    """Modules below `folder`, which is static/ except in tests. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._content: _Content | None = None

    def preloads(self, entry: str) -> list[str]:
        """Return the modules that a page with this entry point will request, as paths below the folder."""
        first = self._current()
        modules = assets.modules_from(self._folder, entry)
        others = [name for name in modules if name not in first.stamps]
        return others if len(others) == len(modules) else [JOINED, *others]

    def find(self, name: str) -> tuple[str, assets.Body] | None:
        """Return a module's version and body, or None if the path is not a module of the page."""
        is_module = name.endswith((".js", ".mjs")) and not name.endswith(".min.js")
        if name != JOINED and not (is_module and (self._folder / name).is_file()):
            return None
        first = self._current()
        stamp = None if name == JOINED else assets.stamp_of(self._folder / name)
        version = first.version if stamp is None else f"{stamp[0]:x}-{stamp[1]:x}-{first.version}"

        def body(packed: bool) -> bytes:
            key = (name, stamp, packed)
            if key not in first.bodies:
                first.bodies[key] = assets.packed(body(False)) if packed else self._text(first, name).encode()
            return first.bodies[key]

        return version, body

    def _text(self, first: _Content, name: str) -> str:
        if name == JOINED:
            return bundled(first.names, first.names, None, self._read)
        convert = reexport if name in first.stamps else rewrite_imports
        return convert(name, self._read(name), first.stamps, first.stamps)

    def _read(self, name: str) -> str:
        return assets.served(self._folder / name).decode()

    def _current(self) -> _Content:
        made = self._content
        if made is None or not made.names or not self._is_current(made):
            made = self._content = self._build()
        return made

    def _is_current(self, first: _Content) -> bool:
        try:
            return all(assets.stamp_of(self._folder / name) == stamp for name, stamp in first.stamps.items())
        except OSError:  # a module was deleted
            return False

    def _build(self) -> _Content:
        """Build the bundle. Its modules run on first use, because pages other than the entry point's share some."""
        entries = [*assets.imports_of(self._folder, ENTRY), LATER]
        try:
            names = dependency_order(entries, lambda name: assets.imports_of(self._folder, name))
            stamps = {name: assets.stamp_of(self._folder / name) for name in names}
            text = bundled(names, names, None, self._read)
        except (ValueError, OSError) as error:  # a module is being edited; the browser reports its error
            _log.warning("the page's modules are sent without a bundle: %s", error)
            return _Content([], {}, "apart")
        version = hashlib.sha256(repr(stamps).encode()).hexdigest()[:16]
        return _Content(names, stamps, version, {(JOINED, None, False): text.encode()})


PAGE = PageModules(static_dir())
