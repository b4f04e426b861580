"""Lint of names, docstrings, comments and documents by the rules of language that can be checked automatically."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

FOLDERS = ("app", "engine", "kvtheater", "tools", "training", "tests", "examples")
README_WORDS = 900
CHANGELOG_COLUMNS = 120
GENERATED = ("schema.js",)
# former names of modules, now named by standard terms
RETIRED_MODULES = {
    "ahead", "anew", "around", "attached", "desk", "door_view", "flights", "heard", "heard_ranks", "heard_rows",
    "heard_standings", "kept", "kept_states", "lanes", "late", "late_words", "learn", "mending", "moment",
    "opened", "own_runs", "retold", "served", "shown", "stage_moment", "stories", "survey", "surveyed", "tell",
    "telling", "telling_record", "theaters", "told", "trouble", "wall", "whole",
}  # fmt: skip


# former names that stood for several kinds of classes and types
RETIRED_TYPES = {"Asked", "Choice", "Lane", "Lanes", "Part", "Room", "Served", "Source", "Stage"}
RETIRED_WORDS = {"Asked", "Heard", "Nobody", "Said", "Told"}  # not allowed within the name of a type
RETIRED_NAMES = {"asked", "heard", "nobody", "said", "somebody", "told", "whoever"}  # of variables and functions
FIELD_TYPES = {"app/openai/call.py": "Choice", "static/js/runs/lane.js": "Lane"}  # OpenAI's choice; one of several runs


# first words of docstrings and JSDoc that are no verb and do not name the thing, such as those of a condition
ODD = (
    r"(?:What|One|Of|Who|Whose|Also|After|As(?! defined)|At(?! (?:most|least))|Before|Beside|By|Else|Everybody"
    r"|From|How|If|In|It|Its|Like|Neither|Nobody|None|On|Or|Ours|So|That|There|They|Those|To|Under|Until|Whatever|When"
    r"|Where|Which|Why|With|Without)\b"
)


def sources() -> Iterator[tuple[Path, ast.Module]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def odd_docstrings() -> list[str]:
    """Return docstrings that begin with an ODD word."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, kinds) and re.match(ODD, ast.get_docstring(node) or "")
    ]


def odd_names() -> list[str]:
    """Return parameters, local variables and functions with a retired name."""
    found = []
    for path, tree in sources():
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        names = {(node.lineno, node.name) for node in functions}
        inside = [node for function in functions for node in ast.walk(function)]
        names |= {(node.lineno, node.arg) for node in inside if isinstance(node, ast.arg)}
        names |= {(n.lineno, n.id) for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        found += [f"{path.relative_to(ROOT)}:{line}: {name}" for line, name in names if name in RETIRED_NAMES]
    return found


def most_names() -> list[str]:
    """Return assignments of constants that are named MOST_… instead of MAX_…."""
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id.startswith("MOST_")
    ] + [
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "static" / "js").rglob("*.js")
        for name in re.findall(r"\bconst (MOST\w*)", path.read_text("utf-8"))
    ]


def odd_comments() -> list[str]:
    """Return JSDoc comments and file headers of scripts that begin with an ODD word."""
    found = []
    for path in sorted([*(ROOT / "static" / "js").rglob("*.js"), *(ROOT / "tests" / "js").glob("*.mjs")]):
        if path.name in GENERATED:
            continue
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(rf"(?:\A//|/\*\*)[\s*]*{ODD}", text):
            found.append(f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}")
    return found


def odd_test_names() -> list[str]:
    """Return names of tests with personal pronouns, which hide the subject."""
    word = r"(?<![^\W_])(?:nobody|nobodys|somebody|anybody|whoever|whom)(?![^\W_])"
    scripts = [(path, path.read_text("utf-8")) for path in sorted((ROOT / "tests" / "js").glob("*.test.mjs"))]
    return [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and re.search(word, node.name)
    ] + [
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in scripts
        for name in re.findall(r'\btest\("([^"]+)"', text)
        if re.search(word, name)
    ]


def retired_modules() -> list[str]:
    """Return modules and folders below app, engine and static/js with a retired name."""
    files = [path for folder in ("app", "engine", "static/js") for path in (ROOT / folder).rglob("*") if path.is_file()]
    paths = [path.relative_to(ROOT) for path in files if "__pycache__" not in path.parts]
    return [str(path) for path in paths if {part.split(".")[0] for part in path.parts} & RETIRED_MODULES]


def types_of(path: Path) -> set[str]:
    """Return the names of classes and aliases of a module, and of components and typedefs of a script."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        return set(re.findall(r"\b(?:class|function|const) (\w+)", text)) | set(re.findall(r"\}+ (\w+)", text))
    tree = ast.parse(text)
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    aliases = [node.targets for node in tree.body if isinstance(node, ast.Assign)]
    names |= {target.id for targets in aliases for target in targets if isinstance(target, ast.Name)}
    return {name.lstrip("_") for name in names}


def retired_types() -> list[str]:
    """Return types below app, engine, kvtheater and static/js with a retired name or word."""
    found = []
    for folder, suffix in [("app", "py"), ("engine", "py"), ("kvtheater", "py"), ("static/js", "js")]:
        for path in sorted((ROOT / folder).rglob(f"*.{suffix}")):
            name = path.relative_to(ROOT).as_posix()
            types = types_of(path)
            found += [f"{name}: {word}" for word in types & RETIRED_TYPES - {FIELD_TYPES.get(name)}]
            found += [f"{name}: {word}" for word in types if RETIRED_WORDS & set(re.findall("[A-Z][a-z]+", word))]
    return found


def test_no_type_has_a_retired_name() -> None:
    assert not retired_types()


def test_no_module_has_a_retired_name() -> None:
    assert not retired_modules()


def test_docstrings_begin_with_a_verb_or_name_the_thing() -> None:
    assert not odd_docstrings(), odd_docstrings()


def test_comments_of_scripts_begin_with_a_verb_or_name_the_thing() -> None:
    assert not odd_comments(), odd_comments()


def test_no_function_or_variable_has_a_retired_name() -> None:
    assert not odd_names(), odd_names()


def test_names_of_tests_have_no_personal_pronouns() -> None:
    assert not odd_test_names(), odd_test_names()


def test_limits_are_named_max() -> None:
    assert not most_names(), most_names()


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= README_WORDS


def test_each_change_is_one_line() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if len(line) > CHANGELOG_COLUMNS]
    assert not [line for line in lines if line.startswith(" ")]  # no continuation lines
