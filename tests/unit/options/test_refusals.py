"""Refusals of settings, which exist in every language of the options' texts."""

import ast
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
from msgspec import Struct

from app.ground.errors import refused
from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.options.option import Option
from engine.options.table import OptionRow, table_of
from engine.options.words import languages
from engine.setup.resolve import resolve

parse = Formatter().parse
ROOT = Path(__file__).resolve().parent.parent.parent.parent
SHOWN_ON_THE_PAGE = ("engine/config.py", "engine/setup/*.py", "engine/speculate/*.py", "engine/cluster/build.py",
                   "app/models/live_engine.py", "app/models/live_cluster.py")  # fmt: skip


def wrong_values(row: OptionRow) -> list[Any]:
    """Return values of another type, and values outside each bound of the option."""
    option: Option = row.option
    found: list[Any] = [object()]
    if row.kind in ("integer", "number"):
        found += [bound - 1 for bound in (option.ge, option.gt) if bound is not None]
        found += [option.le + 1] if option.le is not None else []
        found += [1 << 60]
    if option.most is not None and row.kind == "list":
        found.append([row.items[0]("7")] * (option.most + 1))
    if option.most is not None and row.kind == "map":
        found.append(dict.fromkeys(map(row.items[0], range(option.most + 1)), row.items[1](0)))
    return found


def refusal_of(settings: type[Struct], name: str, value: Any) -> dict[str, str] | None:
    """Return the translations of the refusal of a value, or None if it is accepted."""
    try:
        instance = settings(**{name: value})
        if isinstance(instance, SamplingParams):
            instance.checked()
        elif isinstance(instance, EngineConfig):
            resolve(instance, 512)
    except ConfigError as error:
        return error.translations
    return None


@pytest.mark.parametrize("settings", [EngineConfig, SamplingParams])
def test_every_option_has_refusals_in_every_language(settings: type[Struct]) -> None:
    others = set(languages()) - {"en"}
    for name, row in table_of(settings).items():
        refusals = [found for value in wrong_values(row) if (found := refusal_of(settings, name, value)) is not None]
        assert refusals, name
        assert all(set(found) == others for found in refusals), name
        assert all(name in text or row.kind == "map" for found in refusals for text in found.values()), refusals


def test_refusals_of_settings_are_not_written_in_the_code() -> None:
    """A sentence in the code has no translation."""
    plain = []
    for pattern in SHOWN_ON_THE_PAGE:
        for path in ROOT.glob(pattern):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                match node:
                    case ast.Call(ast.Name("ConfigError"), [ast.Constant() | ast.JoinedStr(), *_]):
                        plain.append(f"{path.name}:{node.lineno}")
    assert plain == []


def test_combined_refusals_are_in_one_language() -> None:
    with pytest.raises(ConfigError) as found:
        resolve(
            EngineConfig(forget_policy="window", forget_budget=8, attention_window=8, fault="missing_causal_mask"), 512
        )
    error = refused(found.value).as_map()["error"]
    assert error["message"].endswith("leave out attention_window and fault")
    assert error["said"] == {"zh": "forget_policy 只能用于策略为 paged 的单个引擎；请去掉 attention_window、fault"}
    with pytest.raises(ConfigError) as found:
        resolve(EngineConfig(block_size=64, num_blocks=1 << 20), 512)
    assert found.value.translations["zh"] == "1048576 块 × 64 个槽位的块池超过了 16777216 个槽位"
