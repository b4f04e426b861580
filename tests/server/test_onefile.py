"""A run as one HTML file: its content, its policy, and how it is downloaded."""

import base64
import gzip
import json
import re
from pathlib import Path

import msgspec
import pytest
import requests

from app.cli import main
from app.ground.paths import static_dir
from app.page import onefile
from app.page.assets import panel_sheets
from engine.trace.log import TraceReader, TraceWriter


def export(path: Path) -> str:
    with TraceReader(path) as log:
        return onefile.export_page(log).decode()


def block(page: str, name: str) -> bytes:
    """Return the content packed into the page under an id."""
    (found,) = re.findall(rf'<script type="application/gzip;base64" id="{name}">([^<]*)</script>', page)
    return gzip.decompress(base64.b64decode(found))


def test_the_log_inside_is_the_log(trace, tmp_path):
    inside = tmp_path / "inside.kvtrace"
    inside.write_bytes(block(export(trace), "embedded-log"))
    with TraceReader(trace) as log, TraceReader(inside) as found:
        assert found.damage is None and found.header_bytes == log.header_bytes and len(found) == len(log) > 5
        for index in range(len(log)):
            assert found.record_bytes(index) == log.record_bytes(index)
            assert found.capture_bytes(index) == log.capture_bytes(index)
        assert any(log.capture_bytes(index) for index in range(len(log)))


def test_modules_import_each_other_by_names_that_are_there(trace):
    modules = json.loads(block(export(trace), "page-modules"))
    assert modules == onefile.page_modules()
    named = set()
    for text in modules.values():
        assert not re.search(r"""^\s*(?:import|export)\b[^"'();]*["']\.""", text, re.MULTILINE), "no path is left"
        named |= set(re.findall(r"""(?:from|import)\s*\(?\s*["'](page/[^"']+)["']""", text))
    assert named <= set(modules)
    assert set(modules) - named == {"page/js/main.js"}
    # by a dynamic import, twice in a minified line, and deep in a package
    assert {"page/js/panels/export/panel.js", "page/vendor/signals-core/signals-core.js"} <= named
    assert "page/vendor/msgpack/utils/utf8.mjs" in named


def test_the_page_names_nothing_outside_itself_and_may_fetch_nothing(trace):
    page = export(trace)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy and policy[1].startswith("default-src 'none'; script-src 'nonce-")
    assert "unsafe" not in policy[1] and "connect-src" not in policy[1]
    nonce = re.search(r"script-src 'nonce-([0-9a-f]{32})' blob:;", policy[1])
    assert nonce
    head = page[: page.index('id="embedded-log"')]
    assert not re.findall(r'(?:src|href)="(?!data:)[^"]*"', head)
    assert "/static/" not in head and "@import" not in head and not re.findall(r"url\((?!data:)", head)
    scripts = re.findall(r"<script[^>]*>", page)
    assert [s for s in scripts if 'type="' not in s] == [f'<script nonce="{nonce[1]}">']
    of_others = {"bench", "bench_report", "documentation", "join", "scale"}
    own = [path for path in (static_dir() / "css").glob("*.css") if path.stem not in of_others]
    assert page.count("<style nonce=") == len(own) + len(panel_sheets(static_dir(), lazy=True))
    for package in ("preact", "msgpack", "fflate"):
        assert f"{package}\n\n" in page, "its licence goes along"


def test_the_same_log_gives_the_same_page(trace):
    assert export(trace) == export(trace)


def test_a_hostile_header_stays_text(trace, tmp_path):
    evil = "</title><script>alert(1)</script>"
    path = tmp_path / "evil.kvtrace"
    with TraceReader(trace) as log:
        header = msgspec.structs.replace(log.header, model=msgspec.structs.replace(log.header.model, name=evil))
    TraceWriter(header, path).close()
    page = export(path)
    assert evil not in page and "&lt;/title&gt;" in page


def test_a_log_that_no_page_can_hold_is_refused_with_its_size(trace, monkeypatch):
    monkeypatch.setattr(onefile, "MAX_LOG_BYTES", 1000)
    with pytest.raises(onefile.TooLarge, match="a page can have at most"):
        export(trace)


def test_the_command_writes_the_page_and_overwrites_only_on_request(trace, capsys):
    out = trace.with_suffix(".html")
    assert main(["export", str(trace)]) == 0
    assert capsys.readouterr().out == f"{out}: {out.stat().st_size:,} bytes\n"
    assert out.read_text(encoding="utf-8") == export(trace)
    assert main(["export", str(trace)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["export", str(trace), "-o", str(out), "--force"]) == 0


def test_the_readable_part_of_a_damaged_trace_is_exported(trace, tmp_path, capsys):
    cut = tmp_path / "cut.kvtrace"
    cut.write_bytes(trace.read_bytes()[:-10])
    assert main(["export", str(cut), "-o", str(tmp_path / "cut.html")]) == 1
    assert "is damaged" in capsys.readouterr().err
    inside = tmp_path / "inside.kvtrace"
    inside.write_bytes(block((tmp_path / "cut.html").read_text(encoding="utf-8"), "embedded-log"))
    with TraceReader(inside) as log:
        assert log.damage is None and len(log) > 3


@pytest.mark.parametrize("name", ["no.kvtrace", "no_trace.kvtrace"])
def test_exporting_a_non_trace_is_refused(tmp_path, capsys, name):
    (tmp_path / "no_trace.kvtrace").write_text("hello")
    assert main(["export", str(tmp_path / name)]) == 2
    assert not (tmp_path / name).with_suffix(".html").exists()
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_theater_hands_it_out(server, client, theater, monkeypatch):
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 3})
    client.do("step", theater=theater, count=10)
    address = f"{server.url}/api/theaters/{theater}/export.html"
    answer = requests.get(address)
    assert answer.headers["Content-Type"].startswith("text/html")
    assert answer.headers["Content-Disposition"] == f'attachment; filename="kvtheater-{theater}.html"'
    assert answer.headers["X-Epoch"] == "0"
    assert block(answer.text, "embedded-log").startswith(b"KVTRACE")
    assert requests.get(f"{server.url}/api/theaters/none/export.html").status_code == 404
    monkeypatch.setattr(onefile, "MAX_LOG_BYTES", 1000)
    refused = requests.get(address)
    assert refused.status_code == 422 and "a page can have at most" in refused.json()["error"]["message"]
