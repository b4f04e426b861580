"""Import rules of `static/js`: which folder may import which, and the limit on a file's length."""

import re
from collections.abc import Iterator
from pathlib import Path
from posixpath import join, normpath

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
JS = ROOT / "static" / "js"
MAX_LINES = 300
MAX_COLUMNS = 120
WRITTEN_BY_A_TOOL = ("schema.js",)

# A room may import the rooms of lower floors and itself; rooms on one floor do not know each other.
FLOORS = [
    {"core"},  # the log, its state, its figures: pure
    {"i18n"},  # records and operations in words
    {"state"},  # settings, what is shown, what is held
    {"net", "kit"},  # the server; small views, canvas, colour, motion
    {"control"},  # what buttons and keys do
    {"runs"},  # several runs side by side
    # parts of the page, each in a folder; the benchmark page, the pages /scale and /prompts/traffic
    {"panels", "bench", "scale", "prompts"},
    {"page"},  # the page as a whole
    {"main", "onefile"},  # where it begins
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
_IMPORT = re.compile(r"""(?:\bfrom|\bimport)\s*\(?\s*["'](\.[^"'\n]+)["']""")
_COMMENT_LINE = re.compile(r"^\s*(?:/\*|\*|//).*$", re.MULTILINE)


def room_of(name: str) -> str:
    return name.split("/")[0].removesuffix(".js")


def imports(types: bool = True) -> Iterator[tuple[str, str]]:
    """Yield pairs (module, imported module) below static/js. `types`: include imports of types in comments."""
    for path in sorted(JS.rglob("*.js")):
        name = path.relative_to(JS).as_posix()
        text = path.read_text(encoding="utf-8")
        for target in _IMPORT.findall(text if types else _COMMENT_LINE.sub("", text)):
            found = normpath(join("js", name, "..", target))
            if found.startswith("js/"):
                yield name, found.removeprefix("js/")


def objection_to(importer: str, imported: str) -> str | None:
    """Return why `importer` may not import `imported`, or None if it may."""
    above, below = room_of(importer), room_of(imported)
    if not any((JS / imported).with_suffix(suffix).is_file() for suffix in (".js", ".d.ts")):
        return "there is no such file"
    if above == below == "panels" and importer.split("/")[1] != imported.split("/")[1]:
        return "a panel does not know other panels"
    if above != below and FLOOR[below] >= FLOOR[above]:
        return f"{below} is not below {above}"
    return None


def test_every_folder_is_a_room_of_the_floor_plan() -> None:
    assert {room_of(path.relative_to(JS).as_posix()) for path in JS.rglob("*.js")} == set(FLOOR)


def test_no_module_imports_upwards_or_sideways() -> None:
    found = [(a, b, why) for a, b in imports() if (why := objection_to(a, b))]
    assert not found


@pytest.mark.parametrize(
    ("importer", "imported", "why"),
    [
        ("core/log.js", "state/store.js", "state is not below core"),
        ("kit/icon.js", "net/client.js", "net is not below kit"),
        ("panels/time/panel.js", "panels/race/panel.js", "a panel does not know other panels"),
        ("panels/time/panel.js", "core/not_there.js", "there is no such file"),
        ("panels/time/panel.js", "panels/time/charts.js", None),
        ("panels/time/panel.js", "core/log.js", None),
        ("panels/time/panel.js", "core/trace.js", None),  # types alone: trace.d.ts
    ],
)
def test_the_rule_tells_right_from_wrong(importer: str, imported: str, why: str | None) -> None:
    assert objection_to(importer, imported) == why


def test_no_circle_of_imports() -> None:
    graph: dict[str, set[str]] = {}
    for importer, imported in imports(types=False):  # types may name each other
        graph.setdefault(importer, set()).add(imported)
    done: set[str] = set()

    def walk(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name) :], name))
        if name not in done:
            for other in sorted(graph.get(name, ())):
                walk(other, (*path, name))
            done.add(name)

    for name in sorted(graph):
        walk(name, ())


def too_much_at_once(path: Path) -> list[str]:
    """Return lines that are too long, and the file if it has too many lines."""
    name = path.relative_to(JS).as_posix()
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [f"{name}:{number}" for number, line in enumerate(lines, 1) if len(line) > MAX_COLUMNS]
    may_be_long = path.name in WRITTEN_BY_A_TOOL or path.suffix == ".json"
    return found if len(lines) <= MAX_LINES or may_be_long else [*found, f"{name}: {len(lines)} lines"]


def test_every_file_can_be_read_at_once() -> None:
    paths = sorted(JS.rglob("*.*js*"))
    assert len(paths) > 300
    assert [line for path in paths for line in too_much_at_once(path)] == []


def test_a_file_that_cannot_be_read_at_once_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tests.js.test_rooms.JS", tmp_path)
    (tmp_path / "a.js").write_text("x" * 120 + "\n" + "x" * 121 + "\n" * 300)
    assert too_much_at_once(tmp_path / "a.js") == ["a.js:2", "a.js: 301 lines"]


def test_jsdoc_imports_its_types_and_begins_tags_below_its_text() -> None:
    old = re.compile(r"@typedef \{import\(\"[^\"]+\"\)\.(\w+)\} \1\b|^ *\*\n *\* @(?:param|returns|template)\b", re.M)
    assert [path.name for path in JS.rglob("*.js") if old.search(path.read_text(encoding="utf-8"))] == []


def late_focus(text: str) -> list[int]:
    """Return lines that move the focus in effects after painting."""
    found = []
    for start in (match.end() for match in re.finditer(r"\buseEffect\(", text)):
        depth, end = 1, start
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        if ".focus(" in text[start:end]:
            found.append(text.count("\n", 0, start) + 1)
    return found


def test_focus_moves_before_the_first_paint() -> None:
    """Moving the focus after the first paint would interrupt typing elsewhere."""
    found = {path.relative_to(JS).as_posix(): late_focus(path.read_text("utf-8")) for path in sorted(JS.rglob("*.js"))}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_late_focus_is_found() -> None:
    assert late_focus("useLayoutEffect(() => a.focus());\nuseEffect(() => {\n  if (b(c)) a.focus();\n}, []);") == [2]


NUMBER_INPUTS = {"kit/inputs.js", "panels/transport/jump.js"}  # the jump goes to the nearest record, whatever is typed


def test_numbers_are_entered_in_the_shared_input() -> None:
    """The shared input states its bounds and rejects values outside them."""
    found = {path.relative_to(JS).as_posix() for path in JS.rglob("*.js") if 'type="number"' in path.read_text("utf-8")}
    assert found == NUMBER_INPUTS


_EXPORT = re.compile(r"^export (?:async )?(?:function\*?|const|let|class) (\w+|\[[^\]]*\]|\{[^}]*\})", re.MULTILINE)


def unused_exports(modules: dict[str, str], others: str = "") -> list[str]:
    """Return exported names that no importing module mentions. `modules`: texts by path; `others`: further texts that
    may mention them.
    """
    words = {name: set(re.findall(r"\w+", text)) for name, text in modules.items()}
    named = {"Panel", *re.findall(r"\w+", others)}  # kit/lazy.js loads a panel by this name
    known = {name: set(named) for name in modules}
    for name, text in modules.items():
        for target in _IMPORT.findall(text):  # types too, which comments import
            known.get(normpath(join(name, "..", target)), set()).update(words[name])
    return [
        f"{name}: {exported}"
        for name, text in modules.items()
        for names in _EXPORT.findall(text)
        for exported in re.findall(r"\w+", names)
        if exported not in known[name]
    ]


def test_each_exported_name_is_imported_somewhere() -> None:
    tests = ROOT / "tests"
    paths = [*JS.rglob("*.js"), *(tests / "js").rglob("*.mjs")]
    modules = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}
    programs = (path.read_text("utf-8") for path in tests.rglob("*.py"))
    found = unused_exports(modules, "".join(text for text in programs if "/static/js/" in text))
    assert [name for name in found if name.startswith("static/")] == []


def test_an_unused_export_is_found() -> None:
    modules = {
        "a.js": 'import { b } from "./c/b.js";\nexport const [used, d] = [b, 1];\n',
        "c/b.js": 'import { used } from "../a.js";\nexport const b = () => used;\nexport async function e() {}\n',
    }
    assert unused_exports(modules) == ["a.js: d", "c/b.js: e"]
    assert unused_exports(modules, "page.evaluate('e()')") == ["a.js: d"]


def test_no_style_is_newer_than_the_browsers_that_are_promised() -> None:
    """`light-dark()` is newer than Chrome 120 and Safari 16.4 (docs/reference/compatibility.md)."""
    styles = [*(ROOT / "templates").rglob("*.css"), *(ROOT / "static" / "css").rglob("*.css")]
    assert styles and not [style.name for style in styles if "light-dark(" in style.read_text(encoding="utf-8")]
