"""Texts of the pages. Folders of `static/js` have a file per language. A page fetches the texts of its language in one
response. Only the benchmark page gets the texts of the benchmark page.

The texts of a panel whose code is loaded lazily (`static/js/kit/lazy.js`) are in its folder as `lazy.<code>.json` and
are fetched with the code. The long texts of operations, which only such panels use, are fetched likewise.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import flask
from flask import Request, Response

from app.ground import routing
from app.ground.errors import refuse
from app.ground.paths import static_dir
from app.ground.routing import Endpoint, Route, json_answer
from engine.bench.gains import gain_texts
from engine.config import EngineConfig, SamplingParams
from engine.options.table import table_of
from engine.options.words import option_texts
from engine.trace import messages
from engine.trace.messages import in_language

SEPARATE = ("scale",)  # folders whose texts are sent only to the page of this name


class WordsContext(NamedTuple):
    """Empty context of the endpoints."""


def _endpoint(words: Callable[[str], dict[str, Any]]) -> Endpoint:
    """Return an endpoint that sends `words` of one language, or 304 if the browser has them."""

    @functools.wraps(words)
    def answer(context: WordsContext, request: Request, language: str) -> Response:
        if language not in languages():
            raise refuse("not_found", "words.language", language=language[:20])
        response = json_answer(words(language))
        response.headers["Cache-Control"] = "no-cache"
        response.add_etag()
        response.make_conditional(request)
        return response

    return answer


def blueprint() -> flask.Blueprint:
    """Return the blueprint of the texts: `/words/<language>.json`, and below `/words/` those of the pages `bench` and
    `scale` and, as `telling`, the long texts of operations.
    """
    words = {"": words_of, "bench/": bench_words_of, "scale/": scale_words_of, "telling/": long_texts}
    routes = [Route("GET", f"/words/{folder}<language>.json", _endpoint(found)) for folder, found in words.items()]
    return routing.blueprint("words", "", WordsContext(), routes)


def languages() -> list[str]:
    """Return the codes of available languages, in alphabetical order."""
    return sorted(path.suffixes[-2].removeprefix(".") for path in (static_dir() / "js/i18n").glob("words.*.json"))


def words_of(language: str) -> dict[str, Any]:
    """Return `bench_words_of` without the texts of the benchmark page and the long texts of operations."""
    found = bench_words_of(language)
    bench = _content(static_dir() / "js/bench/words.en.json")
    own = bench.keys() | gain_texts(language).keys() | long_texts(language).keys()
    return {**found, "texts": {key: text for key, text in found["texts"].items() if key not in own}}


def scale_words_of(language: str) -> dict[str, Any]:
    """Return `words_of` with the texts of the page /scale."""
    found = words_of(language)
    folders = _folder_words("words", language, "scale")
    return {**found, "texts": _merge({"the page": found["texts"], **folders})}


def file_words_of(language: str, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return `words_of` with all lazily loaded texts except those of the panels `without`, for the page as one file."""
    found = words_of(language)
    lazy = {name: texts for name, texts in _folder_words("lazy", language).items() if not name.startswith(without)}
    return {
        **found,
        "texts": _merge({"the page": found["texts"], "the messages at length": long_texts(language), **lazy}),
    }


def long_texts(language: str) -> dict[str, str]:
    """Return the long texts of operations, by key."""
    texts = messages.texts(language)
    return {key: text for key, text in texts.items() if key.startswith("op.") and key.endswith(".long")}


def bench_words_of(language: str) -> dict[str, Any]:
    """Return all texts except those of separate pages and lazily loaded panels.

    `texts` has the texts of one language by key. `glossary` has [name, definition] by language, group and term.

    Texts of options come from `engine/options/words` (keys beginning with `option.`), texts of operations from
    `engine/trace/messages`, and texts of ratios from `engine/bench/gains.py`; the command line uses them too. The texts
    of a lesson's questions (`app/lessons/words.py`) are sent with the lesson.
    """
    sentences = {key: text for key, text in messages.texts(language).items() if not key.startswith("explain.")}
    tables = {
        "the options": _of_options(language),
        "the messages": sentences,
        "the gains": gain_texts(language),
    }
    texts = _merge(tables | _folder_words("words", language))
    return {"texts": texts, "glossary": {code: _glossary(code) for code in languages()}}


def _of_options(language: str) -> dict[str, str]:
    """Return the texts of options, without the help of options that have no control."""
    tables = (table_of(EngineConfig), table_of(SamplingParams))
    unused = {f"option.{name}.help" for table in tables for name, row in table.items() if row.option.control is None}
    return {key: text for key, text in option_texts(language).items() if key not in unused}


def _folder_words(kind: str, language: str, page: str | None = None) -> dict[str, dict[str, str]]:
    """Return the texts of each folder by the file's name. Texts that the language lacks are in English.

    `kind`: `words` or `lazy`. `page`: name of a separate page; None: all folders except those of separate pages.
    """
    root = static_dir() / "js"
    paths = sorted(root.rglob(f"{kind}.en.json"))
    found = [path for path in paths if (top if (top := path.relative_to(root).parts[0]) in SEPARATE else None) == page]
    return {
        f"{folder.name}/{kind}.{language}.json": in_language(language, functools.partial(_texts, folder, kind))
        for folder in (path.parent for path in found)
    }


def _texts(folder: Path, kind: str, language: str) -> dict[str, str]:
    return {key: _joined(text) for key, text in _content(folder / f"{kind}.{language}.json").items()}


def _merge(tables: dict[str, dict[str, str]]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, table in tables.items():
        if twice := sorted(texts.keys() & table.keys()):
            raise ValueError(f"{name} has {twice[0]!r}, which another file has too")
        texts |= table
    return texts


def _glossary(language: str) -> dict[str, dict[str, list[str]]]:
    own = _content(static_dir() / f"js/i18n/glossary.{language}.json")
    return {
        group: {
            term: [name, _joined(definition)] for term, (name, *definition) in {**entries, **own.get(group, {})}.items()
        }
        for group, entries in _content(static_dir() / "js/i18n/glossary.en.json").items()
    }


def _joined(text: str | list[str]) -> str:
    """Join a long text, which is a list of lines in the file."""
    return text if isinstance(text, str) else "".join(text)


def _content(path: Path) -> Any:
    return _read(path, path.stat().st_mtime_ns) if path.is_file() else {}


@functools.lru_cache(maxsize=256)
def _read(path: Path, _: int) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
