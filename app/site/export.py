"""Files of a site: the responses of a server without a model, stored under their paths.

index.html       the page with relative addresses, and a preview for links
static/          first.js with the modules of a first visit; other modules, styles, vendored packages
words/, api/     texts, facts and the list of recordings
lessons/         recorded lessons: a transcript per language, and their runs
runs/            all recordings as .kvtrace: shipped ones, futures of the openings, races, exhibits of the museum
futures.json     recorded future of each word
"""

from __future__ import annotations

import html
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urljoin

import msgspec

from app.ground.paths import static_dir
from app.ground.plain import to_json
from app.ground.settings import ServerSettings
from app.lessons.catalogue import Catalogue
from app.lessons.lesson import Lesson
from app.lessons.recording import record_lesson
from app.lessons.transcript import cards, write_recorded
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.page import assets
from app.page.plotly import script_path
from app.page.sheets import SHEETS
from app.page.words import languages
from app.recordings.shelf import SUFFIX, recording_id, traces_in
from app.server.application import create_app
from app.site.first import with_first, write_beginning, write_modules
from app.site.runs import Future, record_exhibits, record_futures, record_races
from engine.model.loaded import LoadedModel
from engine.model.shipped import SHIPPED

RUNS = "runs"
LESSONS = "lessons"
OPENING = "opening-"  # prefix of an opening's recording, followed by the language
FUTURES = "futures.json"
PICTURE = "preview.png"  # below static/; 1200 × 630 pixels, for previews of links
_SERVER_ONLY = ("bench", "scale", "lessons", "recordings", "socket.io-client")  # folders that a site lacks
_SOCKETS = re.compile(r'\s*<script src="static/vendor/socket\.io[^>]*></script>')
_MARK = '<meta name="kvtheater-site" id="kvtheater-site" content="1" />'
_PRELOAD = re.compile(r'\s*<link rel="modulepreload"[^>]*>')
_FORK = re.compile(r"-fork-\d+\.kvtrace$")  # a site has its futures under runs/ instead
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'"
)

Say = Callable[[str], None]


def write_site(folder: Path, model: LoadedModel, base: str, say: Say) -> None:
    """Write the site into `folder`, which must be empty or not exist.

    Args:
        model: the bundled model, which computes the recorded runs.
        base: the site's URL, for the picture of link previews; "": the picture's address is relative.
        say: called with each stage.

    Raises:
        OSError: the folder cannot be written.
    """
    say("the page …")
    write_page(folder, base)
    runs = folder / RUNS
    say("futures of the openings …")
    write_futures(folder, model)
    say("lessons …")
    write_lessons(folder, Catalogue().lessons())
    for language in languages():
        say(f"the race, {language} …")
        record_races(model, language, runs)
        say(f"the museum, {language} …")
        record_exhibits(model, language, runs)


def is_site(folder: Path) -> bool:
    """Return whether the folder is a site that this module wrote, and may be replaced by one."""
    try:
        return _MARK in (folder / "index.html").read_text(encoding="utf-8") and (folder / FUTURES).is_file()
    except (OSError, UnicodeDecodeError):
        return False


def write_page(folder: Path, base: str) -> None:
    """Write the page, its files, and the shipped recordings."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_static(folder / "static")
    _write_answers(folder, base)
    (folder / RUNS).mkdir()
    for path in traces_in(static_dir() / "recordings"):
        shutil.copyfile(path, folder / RUNS / f"{recording_id(path.stem)}{SUFFIX}")
        if path.stem.startswith(OPENING):
            code = path.stem.removeprefix(OPENING)
            write_beginning(path, folder / "static/opening" / f"{code}-first{SUFFIX}")
    (folder / FUTURES).write_bytes(b"[]")


def write_futures(folder: Path, model: LoadedModel) -> None:
    """Write the futures of every opening, and their list."""
    futures: list[Future] = []
    for path in traces_in(static_dir() / "recordings"):
        if path.stem.startswith(OPENING):
            futures += record_futures(model, path, recording_id(path.stem), folder / RUNS)
    (folder / FUTURES).write_bytes(msgspec.json.encode(futures))


def write_lessons(folder: Path, lessons: Sequence[Lesson]) -> None:
    """Record the lessons that need shipped models only, and write their list."""
    shipped = [lesson for lesson in lessons if set(lesson.models) <= SHIPPED.keys()]
    found = [recorded for lesson in shipped for recorded in record_lesson(lesson, lesson.languages)]
    for recorded in found:
        write_recorded(recorded, folder / LESSONS)
    listed = cards([recorded.transcript for recorded in found])
    (folder / "api/lessons").write_bytes(to_json({"lessons": listed, "faults": []}))


def _write_static(folder: Path) -> None:
    for path in sorted(static_dir().rglob("*")):
        name = path.relative_to(static_dir())
        if not path.is_file() or any(part in _SERVER_ONLY for part in name.parts) or _FORK.search(name.name):
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(assets.served(path))
    write_modules(folder)
    for link in SHEETS.links("index"):
        if sheet := SHEETS.find(link.name):
            (folder / link.name).write_bytes(sheet[1](False))
    if plotly := script_path():  # without it the page shows a note instead of charts
        (folder.parent / "vendor").mkdir()
        shutil.copyfile(plotly, folder.parent / "vendor/plotly.min.js")


def _write_answers(folder: Path, base: str) -> None:
    """Write the responses of a recordings-only server as files."""
    client = create_app(Models(ModelEntry(None)), ServerSettings()).test_client()
    page = client.get("/").get_data(as_text=True)
    (folder / "index.html").write_text(site_page(page, base), encoding="utf-8")
    words = [f"words/{name}{code}.json" for code in languages() for name in ("", "telling/")]
    for address in ["api/model", "api/recordings", "api/lessons", *words]:
        path = folder / address
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(client.get(f"/{address}").get_data())


def site_page(page: str, base: str) -> str:
    """Convert the served page to a site's: without sockets, with a security policy and a link preview."""
    picture = urljoin(base, f"static/{PICTURE}") if base else f"static/{PICTURE}"
    head = [
        _MARK,
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}" />',
    ]
    page = with_first(_PRELOAD.sub("", _SOCKETS.sub("", page)))
    page = page.replace('<meta charset="utf-8" />', '<meta charset="utf-8" />\n    ' + "\n    ".join(head), 1)
    return page.replace(f'content="static/{PICTURE}"', f'content="{html.escape(picture)}"')
