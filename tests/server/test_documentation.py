"""Documentation at /docs: every page, every link, and no other file of the machine."""

import http.client
import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from posixpath import join, normpath

import pytest
import requests

from app.documentation.render import navigation, page, render
from app.ground.paths import docs_dir
from tests.conftest import ROOT
from tests.server.conftest import Server

FOLDER = docs_dir()
NAMES = [entry.name for entry in navigation(FOLDER)]


def test_every_file_is_in_the_navigation_once() -> None:
    files = {path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.md")}
    assert sorted(NAMES) == sorted(files)


def test_every_link_leads_to_a_page_and_a_heading() -> None:
    anchors = {one: {heading.anchor for heading in page(FOLDER, one).headings} for one in NAMES}
    pictures = {f"img/{path.name}" for path in (FOLDER / "img").iterdir()}
    for name in NAMES:
        html = page(FOLDER, name).html
        for kind, link in re.findall(r'<(a|img)[^>]* (?:href|src)="([^"]*)"', html):
            if re.match(r"\w+:", link):
                continue
            target, _, anchor = unescape(link).partition("#")
            found = normpath(join(name, "..", target)) if target else name
            assert found in (anchors if kind == "a" else pictures), link
            assert not anchor or anchor in anchors[found], link


def test_text_is_text() -> None:
    """HTML of a page is escaped, and comments for writers are dropped."""
    html = render(
        "# A<b>c\n\n<!-- note\n-->\n\n<script>alert(1)</script> [x](javascript:alert(1)) [y](a/b.md#c)\n"
    ).html
    assert "<script" not in html and "note" not in html and 'href="javascript' not in html
    assert 'href="a/b#c"' in html and '<h1 id="abc">A&lt;b&gt;c</h1>' in html


def test_dates_do_not_break_at_their_hyphens() -> None:
    html = render("Seen 2026-11-24 & [again](https://example.org/2026-11-24).").html
    assert html == (
        '<p>Seen <span class="date">2026-11-24</span> &amp; <a href="https://example.org/2026-11-24">again</a>.</p>\n'
    )


def test_headings_of_one_name_have_anchors_of_their_own() -> None:
    assert [heading.anchor for heading in render("# 标题\n\n## Same\n\n## Same\n").headings] == ["_1", "same", "same_1"]


def test_pages_and_pictures_are_served(server: Server) -> None:
    for name in NAMES:
        answer = requests.get(f"{server.url}/docs/{name}", timeout=10)
        assert answer.status_code == 200 and 'aria-current="page"' in answer.text, name
        assert not re.search(r"<script|<style|style=", answer.text), "the policy allows neither"
        assert not re.search(r'(?:href|src)="/', answer.text), "a proxy may serve this below another path"
        sheet = re.findall(r'<link rel="stylesheet" href="([^"]*)"', answer.text)[0]
        assert normpath(join(f"docs/{name}", "..", sheet)) == "static/documentation.css"
    for address in ("/docs", "/docs/"):
        assert requests.get(server.url + address, timeout=10).url == f"{server.url}/docs/index"
    for name in NAMES:
        answer = requests.get(f"{server.url}/docs/{name}/", timeout=10)
        assert (answer.status_code, answer.url) == (200, f"{server.url}/docs/{name}")
    picture = requests.get(f"{server.url}/docs/img/stage.png", timeout=10)
    assert picture.headers["Content-Type"] == "image/png" and picture.content == (FOLDER / "img/stage.png").read_bytes()
    assert requests.get(f"{server.url}/static/documentation.css", timeout=10).status_code == 200


@pytest.mark.parametrize(
    "path",
    ["../README", "%2e%2e/README", "..%2fapp/server/pages", "img/../nav.json", "img/%2e%2e/nav.json", "nav.json", "nav",
     "index.md", "/etc/passwd", "img/", "img", "index%00", "concepts"],
)  # fmt: skip
def test_nothing_else_is_served(server: Server, path: str) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.request("GET", f"/docs/{path}")  # as it stands: `requests` would normalize it
    assert connection.getresponse().status in (404, 308)  # 308: to the address without the second slash
    connection.close()


@pytest.mark.slow
def test_mkdocs_builds_the_site_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert (tmp_path / "site" / "reference" / "options" / "index.html").is_file()
