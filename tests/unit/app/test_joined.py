"""Bundled modules: exports and imports are unchanged, and modules that cannot be bundled are refused."""

import json
import subprocess
from pathlib import Path

import pytest

from app.page.joined import JOINED, bundled, identifier, rewrite_imports
from tools.node import node

FILES = {
    "a.js": "export const one = 1;\nexport function two() {\n  return 2;\n}\nexport class Three {}\n",
    "b.js": 'import { one as first, two } from "./a.js";\nimport * as a from "./a.js";\n'
    'const four = first + two() + a.one;\nexport { four };\nexport { Three as Again } from "./a.js";\n'
    "export default function () {\n  return 5;\n}\n",
    "in/late.js": 'import five from "../b.js";\nimport {\n  Again,\n  four,\n} from "../b.js";\n'
    "export const told = [four, five(), Again.name];\n",
    "main.js": 'import { four } from "./b.js";\nglobalThis.told = [four];\n'
    'globalThis.later = import("./in/late.js").then((found) => globalThis.told.push(...found.told));\n',
    "in/other.js": 'import { told } from "./late.js";\nimport { two } from "../a.js";\n'
    'export const all = async () => [told, two(), (await import("../b.js")).four];\n',
}
NAMES = ["a.js", "b.js", "in/late.js", "main.js"]
LATER = {"in/late.js"}


@pytest.mark.slow
def test_bundled_modules_behave_like_separate_ones(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (tmp_path / JOINED).write_text(bundled(NAMES, LATER, "main.js", FILES.__getitem__), encoding="utf-8")
    other = rewrite_imports("in/other.js", FILES["in/other.js"], NAMES, LATER)
    (tmp_path / "in/other.js").write_text(other, encoding="utf-8")
    (tmp_path / "try.js").write_text(
        'import "./first.js";\nimport { all } from "./in/other.js";\nawait globalThis.later;\n'
        "console.log(JSON.stringify([globalThis.told, await all()]));\n",
        encoding="utf-8",
    )
    output = subprocess.run([node(), "try.js"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert json.loads(output) == [[4, 4, 5, "Three"], [[4, 5, "Three"], 2, 4]]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("export let count = 0;\n", "because of this line: export let count = 0;"),
        ('export * from "./a.js";\n', "because of this line"),
        ('import { x } from "./nowhere.js";\n', "nowhere.js, which is not in the bundle"),
    ],
)
def test_a_module_that_cannot_be_bundled_is_named(text: str, sentence: str) -> None:
    files = {"a.js": "", "b.js": text, "main.js": ""}
    with pytest.raises(ValueError, match=sentence.replace("*", r"\*")) as error:
        bundled(list(files), [], "main.js", files.__getitem__)
    assert str(error.value).startswith("b.js")


def test_a_modules_identifier_is_derived_from_its_path() -> None:
    assert identifier("js/core/log.js") == "js_core_log_js"
