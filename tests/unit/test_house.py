"""Rules of the repository: valid links, unique keys, no import cycles, and an engine without web packages."""

import ast
import json
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
import yaml

ROOT = Path(__file__).parents[2]


DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = "engine|app|kvtheater|static|templates|tests|tools|training|examples"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_file_named_in_a_document_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    named = re.findall(rf"`((?:{FOLDERS})/[\w./-]*)`", text)
    assert not [name for name in named if not (ROOT / name).exists()]
    links = re.findall(r"\]\((?!\w+:|#|[=~])([\w./-]+)", text)
    assert not [link for link in links if not (document.parent / link).exists()]


def repeated_keys(text: str) -> list[str]:
    """Return keys that appear twice in one object of a JSON text. A parser silently takes the last one."""
    found: list[str] = []

    def collect(pairs: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in pairs]
        found.extend(sorted({name for name in names if names.count(name) > 1}))
        return dict(pairs)

    json.loads(text, object_pairs_hook=collect)
    return found


def test_a_repeated_key_is_found_at_any_depth() -> None:
    assert repeated_keys('{"a": {"b": 1, "c": 2, "b": 3}, "d": [{"e": 1, "e": 1}]}') == ["b", "e"]


def test_no_json_file_repeats_a_key() -> None:
    tables = [
        path
        for folder in ("app", "engine", "static", "tests")
        for path in sorted((ROOT / folder).rglob("*.json"))
        if "vendor" not in path.parts
    ]
    assert len(tables) > 100
    found = {str(path.relative_to(ROOT)): repeated_keys(path.read_text(encoding="utf-8")) for path in tables}
    assert {name: keys for name, keys in found.items() if keys} == {}


def test_no_module_is_in_an_import_cycle() -> None:
    """Imports within functions count too. The error names the cycle."""
    graph = grimp.build_graph("app", "engine", "kvtheater", exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()


def test_no_test_imports_a_test() -> None:
    """Shared code is in modules that are not tests, so that each test can be changed or deleted."""
    importing = re.compile(r"^\s*(?:from|import) [\w.]*\btest_\w+(?:\.py)?\b|^\s*from [\w.]+ import .*\btest_\w+", re.M)
    found = [
        f"{path.relative_to(ROOT)}: {line[0].strip()}"
        for path in (ROOT / "tests").rglob("*.py")
        for line in importing.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not found


@pytest.mark.slow
def test_the_engine_runs_without_web_packages() -> None:
    program = """
import sys

WEB = {'flask', 'flask_socketio', 'socketio', 'engineio', 'werkzeug', 'gevent', 'wsproto', 'app'}

class NoWeb:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in WEB:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoWeb())
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from tests.unit.engine.runs import tiny_llama

with Engine(tiny_llama(), EngineConfig(block_size=4, num_blocks=8)) as engine:
    request = engine.add_request([1, 2, 3], SamplingParams(max_tokens=2, ignore_eos=True))
    while engine.has_unfinished():
        engine.step()
    assert len(request.output_token_ids) == 2
assert not any(name.split('.')[0] in WEB for name in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_workflows_and_issue_forms_are_yaml() -> None:
    files = [*(ROOT / ".github").rglob("*.yml"), ROOT / "CITATION.cff"]
    assert len(files) > 4
    for path in files:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert isinstance(found, dict), path
        for job in found.get("jobs", {}).values():
            assert job["runs-on"] and all(("uses" in step) != ("run" in step) for step in job["steps"]), path


IMPORTED = re.compile(r"^from ((?:app|engine|tests)[\w.]*) import ([\w, ]+)$", re.MULTILINE)


@pytest.mark.slow
def test_imports_of_programs_in_strings_exist(tmp_path: Path) -> None:
    """Tests run such programs in child processes, and no checker reads them."""
    programs = set[str]()
    for path in [path for folder in ("app", "engine", "tests") for path in (ROOT / folder).rglob("*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        programs |= {text for text in strings if isinstance(text, str) and IMPORTED.search(text)}
    for number, program in enumerate(filter(_is_program, sorted(programs))):
        (tmp_path / f"{number}.py").write_text(program, encoding="utf-8")
    check = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "F821", str(tmp_path)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert len(programs) > 10 and done.returncode == 0, done.stdout
    found = {
        (module, name)
        for program in programs
        for module, names in IMPORTED.findall(program)
        for name in names.split(",")
    }
    assert [
        f"{module}:{name}" for module, name in sorted(found) if not _exists(module, name.split(" as ")[0].strip())
    ] == []


def _is_program(text: str) -> bool:
    try:
        return bool(ast.parse(text))
    except SyntaxError:  # a fragment of code, or prose
        return False


def _exists(module: str, name: str) -> bool:
    file = ROOT.joinpath(*module.split("."))
    if any(file.joinpath(name + ending).exists() for ending in ("", ".py")):
        return True
    code = file.with_suffix(".py") if file.with_suffix(".py").exists() else file / "__init__.py"
    defined = rf"^(?:class|(?:async )?def) {name}\b|^{name}\b *[:=]|^from .* import .*\b{name}\b|^    {name},$"
    return code.exists() and re.search(defined, code.read_text(encoding="utf-8"), re.MULTILINE) is not None
