"""Modules of a server: one bundle for most visits, rebuilt when one of its modules changes."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from app.page.joined import JOINED
from app.page.modules import ENTRY, LATER, PAGE, PageModules
from tools.node import node

FILES = {
    ENTRY: 'import { log } from "./kit/log.js";\nlog.push("main");\n'
    'export const more = import("./page/workspace.js");\n',
    LATER: 'import { log } from "../kit/log.js";\nlog.push("workspace");\nexport default 7;\n',
    "js/kit/log.js": "export const log = [];\n",
    "js/other.js": 'import { log } from "./kit/log.js";\nlog.push("other");\nexport const entries = () => log;\n',
}
SCRIPT = """\
import seven from "./js/page/workspace.js";
import { log } from "./js/kit/log.js";
import { more } from "./js/main.js";
import { entries } from "./js/other.js";
console.log(JSON.stringify([log, entries() === log, seven, (await more).default]));
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def text(modules: PageModules, name: str) -> str:
    found = modules.find(name)
    assert found is not None
    return found[1](False).decode()


def mark(modules: PageModules, name: str) -> str:
    found = modules.find(name)
    assert found is not None
    return found[0]


def write(path: Path, text: str) -> None:
    """Write a new version with a new modification time, even if the file system's clock is coarse."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(before + 10**9, before + 10**9))


@pytest.mark.slow
def test_a_module_is_evaluated_once_under_both_of_its_names(folder: Path, tmp_path: Path) -> None:
    modules = PageModules(folder)
    sent = tmp_path / "sent"
    for name in (*FILES, JOINED):
        (sent / name).parent.mkdir(parents=True, exist_ok=True)
        (sent / name).write_text(text(modules, name), encoding="utf-8")
    (sent / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (sent / "says.js").write_text(SCRIPT, encoding="utf-8")
    output = subprocess.run([node(), "says.js"], cwd=sent, capture_output=True, text=True, check=True).stdout
    assert json.loads(output) == [["workspace", "main", "other"], True, 7, 7]


def test_a_changed_module_changes_the_version(folder: Path) -> None:
    modules = PageModules(folder)
    before = {name: mark(modules, name) for name in (*FILES, JOINED)}
    assert before == {name: mark(PageModules(folder), name) for name in before}
    write(folder / "js/kit/log.js", "export const log = [1];\nexport const size = 1;\n")
    assert "const log = [1];" in text(modules, JOINED)
    assert "export const size" in text(modules, "js/kit/log.js")  # the module's own name also gives the new version
    assert all(mark(modules, name) != was for name, was in before.items())
    write(folder / "js/other.js", "export const entries = () => [];\n")  # a module outside the bundle
    assert text(modules, "js/other.js") == "export const entries = () => [];\n"
    (folder / "js/kit/log.js").unlink()
    assert "js_kit_log_js" not in text(modules, JOINED)


def test_unbundleable_modules_are_served_separately(folder: Path) -> None:
    """An import cycle or a mutable export prevents bundling, although a browser accepts both."""
    modules = PageModules(folder)
    assert modules.preloads(ENTRY) == [JOINED]
    for wrong in ('import "../page/workspace.js";\nexport const log = [];\n', "export let log = [];\n"):
        write(folder / "js/kit/log.js", wrong)
        assert modules.preloads(ENTRY) == ["js/kit/log.js", *([LATER] if "workspace" in wrong else [])]
        assert [text(modules, name) for name in (ENTRY, "js/kit/log.js")] == [FILES[ENTRY], wrong]
    write(folder / "js/kit/log.js", FILES["js/kit/log.js"])
    assert modules.preloads(ENTRY) == [JOINED]


def test_the_pages_modules_are_in_one_bundle() -> None:
    assert PAGE.preloads(ENTRY) == [JOINED]
    assert LATER not in PAGE.preloads("js/bench/main.js")
    bundle = text(PAGE, JOINED)
    assert f"// {LATER}\n" in bundle and "// vendor/preact/preact.js\n" in bundle


def test_files_that_are_no_modules_are_not_served_as_modules() -> None:
    for name in (
        "js/none.js",
        "css/base.css",
        "js",
        "img/stage.png",
        "vendor/socket.io-client/socket.io.msgpack.min.js",
    ):
        assert PAGE.find(name) is None
