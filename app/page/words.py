"""Words of the pages. Each folder of `static/js` has a file per language. A page fetches its language in one answer:
the benchmark page all words, other pages all but those of the benchmark page.

Words of a panel whose code is loaded lazily (`static/js/kit/lazy.js`) are in its folder as `lazy.<code>.json` and are
fetched as they are, with the code; so are the long texts of operations, which only such panels use.
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

APART = ("scale",)  # folders of pages whose words are sent to that page only


class WordsContext(NamedTuple):
    """Empty context of the endpoints."""


def _endpoint(words: Callable[[str], dict[str, Any]]) -> Endpoint:
    """Return the endpoint of `words` of one language; 304 if the browser has them."""

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
    """Routes of the words: `/words/<language>.json`, `/words/bench/<language>.json` for the benchmark page, and
    `/words/telling/<language>.json` for panels that describe operations at length.
    """
    words = {"": words_of, "bench/": bench_words_of, "scale/": scale_words_of, "telling/": long_texts}
    routes = [Route("GET", f"/words/{folder}<language>.json", _endpoint(found)) for folder, found in words.items()]
    return routing.blueprint("words", "", WordsContext(), routes)


def languages() -> list[str]:
    """Return the codes of the languages that have words, in alphabetical order."""
    return sorted(path.suffixes[-2].removeprefix(".") for path in (static_dir() / "js/i18n").glob("words.*.json"))


def words_of(language: str) -> dict[str, Any]:
    """Return the words of `bench_words_of` without those of the benchmark page and the long texts of operations, so
    that a first visit loads less.
    """
    found = bench_words_of(language)
    room = _content(static_dir() / "js/bench/words.en.json")
    own = room.keys() | gain_texts(language).keys() | long_texts(language).keys()
    return {**found, "texts": {key: text for key, text in found["texts"].items() if key not in own}}


def scale_words_of(language: str) -> dict[str, Any]:
    """Return the words of `words_of` and those of the page /scale."""
    found = words_of(language)
    rooms = _rooms("words", language, "scale")
    return {**found, "texts": _together({"the page": found["texts"], **rooms})}


def file_words_of(language: str, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the words of `words_of` and all lazily loaded ones except those of panels `without`, for a page in one
    file.
    """
    found = words_of(language)
    lazy = {name: texts for name, texts in _rooms("lazy", language).items() if not name.startswith(without)}
    return {
        **found,
        "texts": _together({"the page": found["texts"], "the messages at length": long_texts(language), **lazy}),
    }


def long_texts(language: str) -> dict[str, str]:
    """Return the long texts of operations, with every number, by key."""
    texts = messages.texts(language)
    return {key: text for key, text in texts.items() if key.startswith("op.") and key.endswith(".long")}


def bench_words_of(language: str) -> dict[str, Any]:
    """`texts`: key -> text of one language; `glossary`: language -> group -> term -> [name, definition], of all.

    The words of options are the engine's (`engine/options/words`), under keys that begin with `option.`. Those
    of operations are the trace's (`engine/trace/messages`), those of ratios the benchmarks' (`engine/bench/gains.py`);
    the command line uses them too. Those of a lesson's questions (`app/lessons/words.py`) are sent with the lesson.
    """
    sentences = {key: text for key, text in messages.texts(language).items() if not key.startswith("explain.")}
    tables = {
        "the options": _of_options(language),
        "the messages": sentences,
        "the gains": gain_texts(language),
    }
    texts = _together(tables | _rooms("words", language))
    return {"texts": texts, "glossary": {code: _glossary(code) for code in languages()}}


def _of_options(language: str) -> dict[str, str]:
    """Return the option texts, without the help of options that have no control."""
    tables = (table_of(EngineConfig), table_of(SamplingParams))
    bare = {f"option.{name}.help" for table in tables for name, row in table.items() if row.option.control is None}
    return {key: text for key, text in option_texts(language).items() if key not in bare}


def _rooms(kind: str, language: str, page: str | None = None) -> dict[str, dict[str, str]]:
    """Return each room's words of a kind, `words` or `lazy`, by the file's name, in English what the language lacks.

    `page`: of the rooms of a page whose words no other page fetches, else of all other rooms.
    """
    folder = static_dir() / "js"
    every = sorted(folder.rglob(f"{kind}.en.json"))
    found = [path for path in every if (top if (top := path.relative_to(folder).parts[0]) in APART else None) == page]
    return {
        f"{room.name}/{kind}.{language}.json": in_language(language, functools.partial(_texts, room, kind))
        for room in (path.parent for path in found)
    }


def _texts(room: Path, kind: str, language: str) -> dict[str, str]:
    return {key: _joined(text) for key, text in _content(room / f"{kind}.{language}.json").items()}


def _together(tables: dict[str, dict[str, str]]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, table in tables.items():
        if twice := sorted(texts.keys() & table.keys()):
            raise ValueError(f"{name} has {twice[0]!r}, which another room has too")
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
