"""Strict type check of the page's JSDoc, against the trace's types generated from Python."""

import subprocess
from pathlib import Path

import pytest

from tools.node import node

ROOT = Path(__file__).resolve().parent.parent.parent
TSC = ROOT / "node_modules" / "typescript" / "bin" / "tsc"


def errors(project: Path) -> list[str]:
    done = subprocess.run(
        [node(), str(TSC), "--project", str(project), "--pretty", "false"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return [line for line in done.stdout.splitlines() if ": error " in line]


@pytest.fixture(scope="module", autouse=True)
def checker() -> None:
    assert TSC.is_file(), "run `make types`: it installs the page's type checker"


def test_the_page_has_no_type_errors() -> None:
    assert errors(ROOT / "jsconfig.json") == []


def test_a_field_that_a_record_does_not_have_is_an_error(tmp_path: Path) -> None:
    """Renaming a field in Python makes the check fail for each reader of the old name."""
    types = (ROOT / "static/js/core/trace.d.ts").read_text()
    core = tmp_path / "core"
    core.mkdir()
    (core / "trace.d.ts").write_text(types.replace("  block_id: number;", "  block: number;"))
    (core / "ndarray.d.ts").write_text("export class NdArray {}\n")
    (core / "reader.js").write_text(
        '/** @param {import("./trace.js").Allocate} op */\nexport const blockOf = (op) => op.block_id;\n'
    )
    (tmp_path / "jsconfig.json").write_text(
        '{{"extends": "{}", "include": ["core"]}}'.format((ROOT / "jsconfig.json").as_posix())
    )
    (error,) = errors(tmp_path / "jsconfig.json")
    assert "Property 'block_id' does not exist on type 'Allocate'" in error


def test_features_missing_in_old_browsers_are_type_errors(tmp_path: Path) -> None:
    """Iterator helpers came with Safari 18.4; "lib" in jsconfig.json is what older ones have."""
    (tmp_path / "page.js").write_text("export const odd = [1, 2].keys().filter((index) => index % 2);\n")
    (tmp_path / "jsconfig.json").write_text(
        '{{"extends": "{}", "include": ["page.js"]}}'.format((ROOT / "jsconfig.json").as_posix())
    )
    assert [error for error in errors(tmp_path / "jsconfig.json") if "'filter' does not exist" in error]
