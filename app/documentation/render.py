"""Pages of the documentation: navigation, and conversion of Markdown to HTML.

The pages are the entries of docs/nav.json, which MkDocs reads too; no other file can be requested. Headings have the
anchors of Python-Markdown, so that links work here and on the site that MkDocs builds.
"""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.token import Token
from msgspec import Struct

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_PAGE_LINK = re.compile(r"(?!\w+:)([^#]+)\.md(#.*)?")


class Entry(Struct, frozen=True):
    """Page of the navigation. `section` is "" for a page outside of sections."""

    title: str
    name: str  # path below docs/, without its suffix
    section: str = ""


class Heading(Struct, frozen=True):
    """Heading of a page, with its anchor."""

    level: int
    text: str
    anchor: str


class Page(Struct, frozen=True):
    """Rendered page."""

    html: str
    headings: list[Heading]


def navigation(folder: Path) -> list[Entry]:
    """Return the pages in the order of docs/nav.json."""
    return list(_entries(json.loads((folder / "nav.json").read_text(encoding="utf-8"))["nav"]))


def _entries(found: Sequence[dict[str, Any]], section: str = "") -> Iterator[Entry]:
    for one in found:
        for title, target in one.items():
            if isinstance(target, list):
                yield from _entries(target, title)
            else:
                yield Entry(title, target.removesuffix(".md"), section)


def page(folder: Path, name: str) -> Page:
    """Render `name`, an entry of the navigation. Cached until the file changes."""
    path = folder / f"{name}.md"
    return _rendered(path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=128)
def _rendered(path: Path, stamp: int) -> Page:
    return render(path.read_text(encoding="utf-8"))


def render(text: str) -> Page:
    """Render Markdown. Escapes HTML in it, drops comments, and turns links to .md files into links to pages."""
    tokens = _MARKDOWN.parse(_COMMENT.sub("", text))
    headings: list[Heading] = []
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            title = _text(tokens[at + 1])
            anchor = _unused(slug(title), {heading.anchor for heading in headings})
            headings.append(Heading(int(token.tag[1]), title, anchor))
            token.attrSet("id", anchor)
        elif token.type == "table_open":
            token.attrSet("tabindex", "0")  # makes a wide table scrollable by keyboard
        elif token.type in ("th_open", "td_open") and (style := token.attrs.pop("style", None)):
            token.attrSet("class", str(style).replace(":", "-"))  # CSP forbids inline styles
        elif token.type == "inline":
            _relink(token)
    return Page(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}), headings)


def _text(inline: Token) -> str:
    return "".join(child.content for child in inline.children or () if child.type in ("text", "code_inline"))


def _render_text(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    """Render a text so that dates do not break at their hyphens."""
    return _DATE.sub(r'<span class="date">\g<0></span>', escapeHtml(tokens[at].content))


_MARKDOWN.add_render_rule("text", _render_text)


def _relink(inline: Token) -> None:
    for child in inline.children or ():
        if child.type == "link_open" and (link := _PAGE_LINK.fullmatch(str(child.attrs["href"]))):
            child.attrSet("href", link[1] + (link[2] or ""))


def slug(text: str) -> str:
    """Return the anchor of a heading, like the `toc` extension of Python-Markdown."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def _unused(anchor: str, used: set[str]) -> str:
    found, number = anchor, 0
    while found in used or not found:
        number += 1
        found = f"{anchor}_{number}"
    return found
