"""Style sheets of a page, joined into one or two files that are rebuilt when a sheet changes."""

import gzip
import os
from pathlib import Path

import pytest

from app.ground.paths import static_dir
from app.page.assets import panel_sheets
from app.page.sheets import FILES, FIRST, OVER, SHEETS, PageSheets

SHEET_TEXTS = {
    "css/tokens.css": ":root { --a: 1px; }",
    "js/panels/b/style.css": ".b { left: 0; }",
    "js/panels/a/style.css": ".a { left: 0; }",
    "js/panels/a/lazy.css": ".lazy { left: 0; }",
    "css/overlays.css": "dialog { left: 0; }",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in SHEET_TEXTS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def sent(sheets: PageSheets, name: str) -> tuple[str, str]:
    """Return the version mark, and the text."""
    found = sheets.find(name)
    assert found is not None
    mark, body = found
    assert gzip.decompress(body(True)) == body(False)
    return mark, body(False).decode()


def test_sheets_are_joined_in_page_order_without_lazy_ones(folder: Path) -> None:
    sheets = PageSheets(folder)
    assert sent(sheets, FIRST)[1] == "\n".join(
        SHEET_TEXTS[name] for name in ("css/tokens.css", "js/panels/a/style.css", "js/panels/b/style.css")
    )
    assert sent(sheets, OVER)[1] == SHEET_TEXTS["css/overlays.css"]
    assert sheets.find("css/tokens.css") is None and sheets.find("other.css") is None


def test_a_changed_sheet_changes_the_version(folder: Path) -> None:
    """The version changes when a sheet is changed, added or removed."""
    sheets = PageSheets(folder)
    marks = [sent(sheets, FIRST)[0]]
    over = sent(sheets, OVER)
    path = folder / "css/tokens.css"
    path.write_text(":root { --a: 2px; }", encoding="utf-8")
    os.utime(path, ns=(10**18, 10**18))
    assert "--a: 2px" in sent(sheets, FIRST)[1]
    marks.append(sent(sheets, FIRST)[0])
    (folder / "js/panels/c").mkdir()
    (folder / "js/panels/c/style.css").write_text(".c { left: 0; }", encoding="utf-8")
    assert sent(sheets, FIRST)[1].endswith(".c { left: 0; }")
    marks.append(sent(sheets, FIRST)[0])
    (folder / "js/panels/b/style.css").unlink()
    assert ".b" not in sent(sheets, FIRST)[1]
    marks.append(sent(sheets, FIRST)[0])
    assert len(set(marks)) == 4 and sent(sheets, OVER) == over


def test_every_sheet_is_part_of_a_pages_file() -> None:
    """All sheets in static/css are included, except that of the join page."""
    files = [name for page in FILES for name in FILES[page]]
    known = {part for name in files for part in SHEETS.parts(name)}
    on_disk = {path.relative_to(static_dir()).as_posix() for path in (static_dir() / "css").glob("*.css")}
    assert on_disk - {"css/join.css"} | set(panel_sheets(static_dir())) == known
    for name in files:
        text = sent(SHEETS, name)[1]
        parts = [(static_dir() / part).read_text(encoding="utf-8") for part in SHEETS.parts(name)]
        places = [text.index(part) for part in parts]
        assert places == sorted(places) and len(text) == sum(len(part) + 1 for part in parts) - 1


@pytest.mark.parametrize(("page", "charts"), [("index", FIRST), ("bench", "bench.css"), ("scale", "scale.css")])
def test_the_link_with_the_charts_sheet_is_marked(page: str, charts: str) -> None:
    """Lacking the mark, Plotly would add its own rules, which the content security policy forbids."""
    assert [link.name for link in SHEETS.links(page) if link.has_charts] == [charts]
    assert [link.name for link in SHEETS.one_by_one() if link.has_charts] == ["css/charts.css"]


def test_no_sheet_has_rules_that_prevent_joining() -> None:
    for path in [*(static_dir() / "css").glob("*.css"), *(static_dir() / "js").rglob("*.css")]:
        text = path.read_text(encoding="utf-8")
        assert not any(word in text for word in ("@import", "@charset", "@namespace", "url(")), path
