"""Every refusal in the code has a text in each language of the page."""

import ast
import re
from collections.abc import Iterator
from string import Formatter

import pytest

from app.classroom import refusing
from app.ground.errors import AppError, app_sentence, one_sentence, refuse, refused, sentence_of
from app.ground.plain import to_json
from app.page.words import languages
from engine.accounting import impossible
from engine.model.errors import ModelError
from engine.options.refusal import Refused, Sentence, Sentences, sentence
from engine.requests.request_spec import RequestError
from tests.conftest import ROOT

FILES = sorted([*ROOT.glob("engine/**/*.py"), *ROOT.glob("app/**/*.py")])
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
# a message that our page never sends, an internal error, and errors before any page (`app/page/door.py`)
NOT_WORDED = {"bad_request", "internal", "token_required", "forbidden"}


def classes() -> set[str]:
    """Return the names of `Refused` and its subclasses."""
    found, bases = (
        {"Refused"},
        [
            (node.name, {base.id for base in node.bases if isinstance(base, ast.Name)})
            for tree in TREES.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
        ],
    )
    while more := {name for name, of in bases if of & found} - found:
        found |= more
    return found


def calls(*names: str) -> Iterator[tuple[str, ast.Call]]:
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def is_text(node: ast.expr) -> bool:
    """Return whether this is a text in one language: a literal or a composed string."""
    if isinstance(node, ast.BinOp):
        return is_text(node.left) or is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def literal(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_refusal_classes_include_those_reported_to_the_page() -> None:
    assert {
        "ConfigError",
        "RequestError",
        "RecomputeError",
        "RerunError",
        "ProjectionError",
        "ModelError",
        "OutOfMemory",
    } <= classes()


def test_no_refusal_of_the_engine_is_in_one_language_only() -> None:
    found = [where for where, call in calls(*classes()) if call.args and is_text(call.args[0])]
    assert found == []


def test_no_refusal_of_the_application_is_in_one_language_only() -> None:
    found = [
        f"{where} {literal(call.args[0])}"
        for where, call in calls("AppError")
        if len(call.args) > 1 and literal(call.args[0]) not in NOT_WORDED and is_text(call.args[1])
    ]
    assert found == []


@pytest.mark.parametrize(
    ("file", "names", "place"),
    [(app_sentence, ("refuse", "app_sentence"), 1), (sentence, ("sentence",), 0)],
    ids=["app", "engine"],
)
def test_every_sentence_key_is_used_and_every_used_key_exists(
    file: Sentences, names: tuple[str, ...], place: int
) -> None:
    known = file.texts
    code = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
    used = {
        literal(call.args[0 if call.func.id == "app_sentence" else place])  # type: ignore[attr-defined]
        for where, call in calls(*names)
        if call.args and where.startswith("app/") == (file is app_sentence)
    }
    assert {key for key in used if key} <= known.keys()
    prefixes = re.findall(r'f"([a-z_]+\.)\{', code)  # of composed keys
    assert [key for key in known if f'"{key}"' not in code and not key.startswith(tuple(prefixes))] == []


@pytest.mark.parametrize("known", [app_sentence, sentence, refusing.sentence, impossible.sentence])
def test_each_sentence_exists_in_each_language(known: Sentences) -> None:
    for key, by_language in known.texts.items():
        assert sorted(by_language) == languages(), key
        assert all(text.strip() for text in by_language.values()), key
        fields = [{name for _, name, _, _ in Formatter().parse(text) if name} for text in by_language.values()]
        assert fields[1] <= fields[0] or fields[0] <= fields[1], key
        words = re.sub(r"\{[^}]*\}", "", by_language["en"])
        if re.search(r"[a-z]{4}", words) and not key.startswith("kind.switch"):
            assert re.search(r"[\u3400-\u9fff]", by_language["zh"]), key


def test_every_sentence_of_a_class_is_used() -> None:
    files = [*ROOT.glob("app/classroom/*.py"), *ROOT.glob("app/server/*events.py")]
    code = "\n".join(path.read_text("utf-8") for path in files)
    used = set(re.findall(r'refusal\(\s*"\w+",\s*"([\w.]+)"', code))
    assert used == refusing.sentence.texts.keys()
    error = refusing.refusal("refused", "seat.full", n=1200).as_map()["error"]
    assert error["message"] == "this class is full: it has 1200 seats"
    assert list(error["said"]) == ["zh"] and "1200" in error["said"]["zh"]


def test_nested_refusals_keep_their_translations() -> None:
    inner = RequestError(sentence("request.empty"))
    outer = refuse("refused", "lesson.wrong", error=inner)
    assert outer.message == "the lesson fails: the prompt is empty: it needs at least one token"
    assert outer.translations and outer.translations["zh"].endswith("提示词是空的：至少需要一个词元")
    assert refused(inner).translations == inner.translations
    assert AppError("refused", Sentence.of({"en": "no", "zh": "不"})).as_map()["error"]["said"] == {"zh": "不"}
    assert Refused("no").translations == {}


def test_an_error_in_one_line_keeps_its_translations() -> None:
    failed = sentence_of(ModelError(sentence("model.no_folder", name="./mine")))
    assert isinstance(failed, Sentence) and failed.translations == {"zh": "没有文件夹 ./mine"}
    assert type(one_sentence(ModelError(failed))) is str
    assert app_sentence("step.failed", error=failed).translations == {"zh": "这一步失败了：没有文件夹 ./mine"}


def test_a_sentence_in_json_is_its_english_text() -> None:
    assert to_json({"refused": Sentence.of({"en": "no", "zh": "不"})}) == b'{"refused":"no"}'
