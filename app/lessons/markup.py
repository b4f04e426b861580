"""Parser of the Markdown in a lesson's texts, which gives a tree for the page. HTML is not allowed.

Links lead to https://, /scale or /bench, or have one of four special meanings:

    [16](=prompt_tokens)    a figure that the run must have at this point, linked to its record
    […](=intensity)         a figure that is filled in from the current run
    [4](~block_size)        a setting that can be dragged, which restarts the run
    [keys](k)               a word in the colour of its concept
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from msgspec import Struct

from app.lessons import cost_figures, scale_figures
from app.lessons.figures import FIGURES
from app.lessons.lesson import LessonError
from app.lessons.numbers import number_in
from engine.config import EngineConfig, SamplingParams

THINGS = ("k", "v", "q", "prompt", "generated", "block", "free", "cached")
TAGS = {
    "paragraph": "p",
    "heading": "h3",
    "strong": "strong",
    "em": "em",
    "bullet_list": "ul",
    "ordered_list": "ol",
    "list_item": "li",
    "blockquote": "blockquote",
    "table": "table",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
    "th": "th",
    "td": "td",
}
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "code"])
# `_link` validates the targets
_MARKDOWN.validateLink = lambda url: True  # type: ignore[assignment]
_OWN_PAGE = re.compile(r"/(scale|bench)([?#][\w=&.#-]*)?")
_KIND = re.compile(r"[=~]\w+(:[\w.-]+)*")
SETTINGS = {*EngineConfig.__struct_fields__, *SamplingParams.__struct_fields__}

Node = str | dict[str, Any]
OPEN = "…"  # placeholder for a machine-dependent number, which is filled in from the current run
assert cost_figures and scale_figures  # imported to register their figures


class Claim(Struct, frozen=True, kw_only=True):
    """Number in a text that must equal the figure `figure` with `arguments`."""

    figure: str
    arguments: list[str]
    text: str


def tree(text: str) -> list[Node]:
    """Return the nodes of a text: strings, and maps with `tag` and `children`. A link also has `figure`, `setting`,
    `thing` or `href`.
    """
    return [_node(child) for child in SyntaxTreeNode(_MARKDOWN.parse(text)).children]


def claims(text: str) -> Iterator[Claim]:
    """Yield the claims of a text, in order."""
    for node in _walk(tree(text)):
        if found := node.get("figure"):
            figure, *arguments = found.split(":")
            yield Claim(figure=figure, arguments=arguments, text=text_of(node["children"]))


def text_of(nodes: list[Node]) -> str:
    """Return the plain text of a tree."""
    return "".join(node if isinstance(node, str) else text_of(node["children"]) for node in nodes)


def check_markup(text: str, line: int) -> None:
    """Raise LessonError for unsupported markup. `line`: first line of the text."""
    try:
        found = list(_walk(tree(text)))
    except _Unknown as error:
        raise LessonError(line + error.line, error.sentence) from None
    for node in found:
        if "figure" in node:
            name, words = node["figure"].split(":")[0], text_of(node["children"])
            if name not in FIGURES:
                raise LessonError(line, f"[{words}](={name}): there is no figure {name!r}")
            if words != OPEN and number_in(words) is None:
                raise LessonError(line, f"[{words}](={name}): there is no number in {words!r}")
        if "setting" in node:
            if node["setting"] not in SETTINGS:
                raise LessonError(line, f"there is no setting {node['setting']!r}")
            if not text_of(node["children"]).isdecimal():
                raise LessonError(line, f"[{text_of(node['children'])}](~{node['setting']}): a setting needs digits")


class _Unknown(Exception):
    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(sentence)
        self.line, self.sentence = line, sentence


def _node(node: SyntaxTreeNode) -> Node:
    line = node.map[0] if node.map else 0
    match node.type:
        case "text":
            return node.content
        case "softbreak" | "hardbreak":
            return " "
        case "inline":
            return {"tag": "span", "children": [_node(child) for child in node.children]}
        case "code_inline":
            return {"tag": "code", "children": [node.content]}
        case "fence":
            return {"tag": "pre", "children": [node.content]}
        case "link":
            return {"tag": "a", **_link(str(node.attrs["href"]), line), "children": [_node(c) for c in node.children]}
        case name if name in TAGS:
            return {"tag": TAGS[name], "children": [_node(child) for child in node.children]}
    raise _Unknown(line, f"{node.type.replace('_', ' ')} is not supported in a lesson's text")


def _link(target: str, line: int) -> dict[str, str]:
    if _KIND.fullmatch(target):
        return {"figure" if target[0] == "=" else "setting": target[1:]}
    if target in THINGS:
        return {"thing": target}
    if target.startswith("https://") or _OWN_PAGE.fullmatch(target):
        return {"href": target}
    allowed = f"=figure, ~setting, {', '.join(THINGS)}, /scale, /bench or https://…"
    raise _Unknown(line, f"a link cannot lead to {target[:40]!r}; allowed are {allowed}")


def _walk(nodes: list[Node]) -> Iterator[dict[str, Any]]:
    for node in nodes:
        if isinstance(node, dict):
            yield node
            yield from _walk(node["children"])
