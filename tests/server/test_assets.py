"""The page's own files are preloaded, compressed, and revalidated cheaply."""

import gzip
import http.client
import re
import socket
from pathlib import Path

import pytest
import requests

from app.ground.paths import static_dir
from app.page.assets import modules_from, served, without_comments
from app.page.modules import PAGE


def sent(name: str) -> bytes:
    """Return a file below static/ as a browser gets it."""
    module = PAGE.find(name)
    return module[1](False) if module else served(static_dir() / name)


def test_a_page_preloads_its_imports(server):
    """The page names the bundle, and further modules if it has any."""
    named = {
        path: re.findall(r'modulepreload" href="([^"]+)"', requests.get(server.url + path).text)
        for path in ("/", "/bench")
    }
    assert named["/"] == ["static/first.js"]
    assert {"static/first.js", "static/js/bench/report.js"} <= set(named["/bench"])
    assert len(named["/bench"]) == len(set(named["/bench"])) > 10
    for address in ("static/first.js", named["/bench"][-1]):
        answer = requests.get(f"{server.url}/{address}")
        assert answer.status_code == 200 and answer.headers["Content-Type"].startswith("text/javascript")


def test_modules_are_found_through_every_form_of_import(tmp_path: Path):
    """Module a imports b and c; c re-exports d and imports a again; lazy imports are not named."""
    (tmp_path / "js").mkdir()
    (tmp_path / "js/a.js").write_text(
        'import "./b.js";\nimport {\n  one,\n  two,\n} from "./deep/c.js";\nimport("./late.js");'
    )
    (tmp_path / "js/b.js").write_text('// import "./comment.js" is no import\nconst text = "from";')
    (tmp_path / "js/deep").mkdir()
    (tmp_path / "js/deep/c.js").write_text('export { x } from "../d.js";\nimport * as all from "../a.js";')
    (tmp_path / "js/d.js").write_text('import "./not_there.js";\nexport const x = 1;')
    assert modules_from(tmp_path, "js/a.js") == ["js/b.js", "js/deep/c.js", "js/d.js"]
    (tmp_path / "js/d.js").write_text('import "./b.js";\nimport "./e.js";\n')  # a change is noticed
    (tmp_path / "js/e.js").write_text("")
    assert modules_from(tmp_path, "js/a.js")[-1] == "js/e.js"


@pytest.mark.parametrize("name", ["first.js", "js/main.js", "css/base.css", "vendor/preact/preact.js", "icon.svg"])
def test_text_is_compressed_for_clients_that_accept_it(server, name):
    address = f"{server.url}/static/{name}"
    content = sent(name)
    plain = requests.get(address, headers={"Accept-Encoding": "identity"})
    assert plain.content == content and "Content-Encoding" not in plain.headers
    packed = requests.get(address, headers={"Accept-Encoding": "gzip"}, stream=True)
    assert packed.headers["Content-Encoding"] == "gzip" and packed.headers["Vary"] == "Accept-Encoding"
    raw = packed.raw.read()
    assert gzip.decompress(raw) == content and len(raw) == int(packed.headers["Content-Length"])
    again = requests.get(address, headers={"Accept-Encoding": "gzip", "If-None-Match": packed.headers["ETag"]})
    assert again.status_code == 304 and not again.content


def test_modules_are_sent_without_their_comments_and_with_their_lines():
    module = (
        "// head\n\n/**\n * What it is.\n */\nexport const a = 1; // stays\n  /* b */\n"
        'const c = "// d";\nconst e = 2 /* f */ * 3;\n'
    )
    assert without_comments(module) == (
        '\n\n\n\n\nexport const a = 1; // stays\n\nconst c = "// d";\nconst e = 2 /* f */ * 3;\n'
    )


def test_a_library_keeps_the_licence_in_its_head(tmp_path):
    for path in (tmp_path / "plotly.min.js", static_dir() / "vendor/socket.io-client/socket.io.msgpack.min.js"):
        if not path.exists():
            path.write_text("/**\n * Licensed under MIT\n */\nlet a;\n")
        assert served(path) == path.read_bytes()


def test_no_template_has_a_line_that_looks_like_a_comment():
    """The number of backticks before each removed line is even."""
    paths = sorted((static_dir() / "js").rglob("*.js"))
    assert len(paths) > 300
    for path in paths:
        only_comments_go(path)


def only_comments_go(path: Path) -> None:
    kept = served(path).decode().split("\n")
    lines = path.read_text(encoding="utf-8").split("\n")
    assert len(kept) == len(lines), path
    open_ticks = 0
    for line, sent in zip(lines, kept, strict=True):
        assert line.strip() == sent.strip() or open_ticks % 2 == 0, (path, line)
        open_ticks += re.sub(r'(?:^|\s)//\s.*|\\`|"`"', "", sent).count("`")


def test_pictures_and_missing_files_are_left_alone(server):
    picture = requests.get(f"{server.url}/static/preview.png")
    assert picture.status_code == 200 and "Content-Encoding" not in picture.headers
    assert requests.get(f"{server.url}/static/js/none.js").status_code == 404
    assert requests.get(f"{server.url}/static/../app/server/application.py").status_code == 404


@pytest.mark.parametrize(
    "path",
    ["%2e%2e/app/server/application.py", "/etc/passwd", "js/../../README.md", "js", "", "js/main.js%00", "a%0ab"],
)
def test_nothing_outside_the_folder_is_a_file_of_the_page(server, path):
    host, port = server.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port))
    connection.request("GET", f"/static/{path}")  # as it stands: `requests` would tidy it up
    assert connection.getresponse().status in (404, 308)  # 308: to the address without the second slash
    connection.close()


def test_byte_ranges_of_a_file_are_served(server):
    whole = (static_dir() / "preview.png").read_bytes()
    part = requests.get(f"{server.url}/static/preview.png", headers={"Range": "bytes=10-19"})
    assert part.status_code == 206 and part.content == whole[10:20]
    head = requests.head(f"{server.url}/static/preview.png")
    assert head.status_code == 200 and not head.content and int(head.headers["Content-Length"]) == len(whole)


def test_one_connection_serves_many_requests(server):
    """Every response is complete and leaves the connection open."""
    host, port = server.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.connect()
    first = connection.sock
    for name in ("js/main.js", "none.js", "css/base.css", "js/main.js"):
        connection.request("GET", f"/static/{name}")
        answer = connection.getresponse()
        body = answer.read()
        assert connection.sock is first, "the same connection"
        if name == "none.js":
            assert answer.status == 404
        else:
            assert body == sent(name)
    connection.request("HEAD", "/static/js/main.js")
    assert connection.getresponse().read() == b"" and connection.sock is first
    connection.request("GET", "/static/js/main.js", headers={"If-None-Match": '"x"'})
    assert connection.getresponse().read() and connection.sock is first
    connection.request("GET", "/api/health")
    answer = connection.getresponse()
    assert answer.status == 200 and b"true" in answer.read() and connection.sock is first


def test_a_request_to_close_is_followed_also_by_an_old_client(server):
    host, port = server.url.removeprefix("http://").split(":")
    for lines in (
        "GET /static/icon.svg HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        "GET /static/icon.svg HTTP/1.0\r\nHost: {}\r\n\r\n",
    ):
        with socket.create_connection((host, int(port)), timeout=10) as plain:
            plain.sendall(lines.format(f"{host}:{port}").encode())
            received = b""
            while chunk := plain.recv(65536):  # until the server closes
                received += chunk
        assert received.endswith((static_dir() / "icon.svg").read_bytes())
