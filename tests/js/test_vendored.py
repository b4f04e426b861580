"""The vendored files are as they were fetched. The page's own unit tests: `python -m tests.js`."""

import json
from pathlib import Path

from tools import vendor

ROOT = Path(__file__).resolve().parent.parent.parent


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
    assert set(wanted) - set(served) == {"typescript", "@biomejs/biome", "eslint", "eslint-plugin-compat"}
