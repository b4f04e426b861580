"""Guards raise errors with the rule and numbers that the page needs for a sentence in its language."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest

from app.page.words import languages, words_of
from engine.cache.block_pool import BlockPool
from engine.cache.block_table import check_tables
from engine.cache.guards import IntegrityError, Rule, objection_of
from engine.trace.records import Objection

ROOT = Path(__file__).resolve().parent.parent.parent.parent


def objections(language: str) -> dict[str, str]:
    """Return the page's sentence of each rule."""
    texts = words_of(language)["texts"]
    return {key.removeprefix("objection."): text for key, text in texts.items() if key.startswith("objection.")}


def unknown_hash(pool: BlockPool) -> None:
    pool.blocks[0].block_hash = b"h"


def ref_count(pool: BlockPool) -> None:
    pool.blocks[0].ref_count = 3


@pytest.mark.parametrize(
    ("damage", "stated", "counted"),
    [(unknown_hash, None, None), (ref_count, 3, 0)],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_each_inconsistency_names_its_rule(
    damage: Callable[[BlockPool], None], stated: int | None, counted: int | None
) -> None:
    """Block 0 of two is held, and no table names it."""
    pool = BlockPool(2)
    pool.allocate()
    damage(pool)
    with pytest.raises(IntegrityError) as caught:
        pool.check_integrity()
        check_tables({}, pool, 4, {}, 0)
    assert objection_of(caught.value) == Objection(
        rule=damage.__name__, text=str(caught.value), block_id=0, said=stated, counted=counted
    )


def test_an_error_without_rule_becomes_its_text() -> None:
    assert objection_of(ValueError("block 0 is shared")) == Objection(text="block 0 is shared")


def guards() -> Iterator[tuple[str, list[ast.expr], set[str]]]:
    """Yield the location, the arguments after the sentence and the keyword names of every guard call in the engine."""
    rule_index = {"MisuseError": 1, "IntegrityError": 1, "ensure": 2}
    for path in (ROOT / "engine").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name in rule_index and path.name != "guards.py":
                yield f"{path.name}:{node.lineno}", node.args[rule_index[name] :], {k.arg or "" for k in node.keywords}


def test_every_guard_names_its_rule() -> None:
    """Lacking a rule the sentence would be English on every page."""
    assert not [where for where, rest, _ in guards() if len(rest) != 1]


def test_the_pages_sentences_use_only_numbers_of_their_guards() -> None:
    texts = [objections(language) for language in languages()]
    for where, (rule,), numbers in guards():
        assert isinstance(rule, ast.Constant) and isinstance(rule.value, str)
        for sentence in (text[rule.value] for text in texts):
            assert set(re.findall(r"\{(\w+)[|}]", sentence)) <= numbers, (where, sentence)


def test_the_format_and_the_page_know_every_rule() -> None:
    rules = set(get_args(Rule))
    table = (ROOT / "docs/reference/trace-format.md").read_text().split("### Objections")[1].split("## Capture")[0]
    assert {rule.strip('`"') for rule in re.findall(r'^\| (`\w+`|"") \|', table, re.M)} == rules | {""}
    for language in languages():
        assert set(objections(language)) == rules | {"other"}, language
