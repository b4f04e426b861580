"""The page's own unit tests, run by node; the vendored files are as they were fetched."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from app.pages import option_tables
from engine.options.words import languages, option_texts
from tools import vendor
from tools.node import node

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With the options that the server puts into the page: tests/js/options.mjs reads them."""
    path = tmp_path_factory.mktemp("js") / "options.json"
    texts = {language: option_texts(language) for language in languages()}
    path.write_text(json.dumps({"tables": option_tables(), "texts": texts}), encoding="utf-8")
    return {**os.environ, "KVTHEATER_OPTIONS": str(path)}


@pytest.mark.parametrize("file", sorted(p.name for p in (ROOT / "tests" / "js").glob("*.test.mjs")))
def test_javascript_units(file: str, environment: dict[str, str]) -> None:
    command = [node(), "--import", "./tests/js/options.mjs", "--test", f"tests/js/{file}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_vendored_files_are_as_they_were_fetched() -> None:
    assert vendor.check() == []


def test_vendored_modules_import_by_relative_paths_only() -> None:
    for path in (ROOT / "static" / "vendor").rglob("*.*js"):
        text = path.read_text(encoding="utf-8")
        for package in vendor.PACKAGES:
            assert f'from"{package.name}"' not in text and f"from '{package.name}'" not in text, path


def test_the_types_of_vendored_libraries_are_of_the_versions_that_are_served() -> None:
    wanted = json.loads((ROOT / "package.json").read_text())["devDependencies"]
    served = {package.name: package.version for package in vendor.PACKAGES}
    assert {name: served[name] for name in wanted if name in served} == {n: v for n, v in wanted.items() if n in served}
    assert set(wanted) - set(served) == {"typescript"}
