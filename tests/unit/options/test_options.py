"""Options of the settings: flags, checks, texts, and the page's table."""

import argparse
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Struct

from app.cli import options as command_line
from app.cli.options import add_engine_options, add_options, add_sampling_options, engine_config, sampling_params
from app.session.messages import parse_config
from engine.config import ConfigError, EngineConfig, FaultName, KVCacheDtype, SamplingParams
from engine.options import payload
from engine.options.check import MAX_WHOLE, out_of_range, over_served_max
from engine.options.option import Control, Option
from engine.options.payload import options_payload, tables_of
from engine.options.table import table_of
from engine.options.words import OptionWords, languages, words_in
from engine.trace import limits

STRUCTS = [EngineConfig, SamplingParams]
NEW = {
    "en": OptionWords(label="Watermark", help="Blocks kept free", none="no block"),
    "zh": OptionWords(label="水位", help="留着不用的块", none="不留"),
}


class WithOneMore(EngineConfig, frozen=True, kw_only=True):
    """Engine settings with a new option, as a developer would add it."""

    watermark: Annotated[
        int | None, Option(ge=0, le=8, served_max=4, control=Control(group="scheduler", usual=(0, 2), none_as=0))
    ] = None


@pytest.fixture
def with_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def words(language: str) -> dict[str, OptionWords]:
        return {**words_in(language), "watermark": NEW[language]}

    monkeypatch.setattr(command_line, "words_in", words)
    monkeypatch.setattr(payload, "words_in", words)


def test_integers_outside_the_logs_range_are_refused_by_every_option() -> None:
    """The limit applies to all options with integers, with or without a range."""
    assert MAX_WHOLE == limits.MAX_WHOLE
    for struct in STRUCTS:
        for name, row in table_of(struct).items():
            large: dict[str, Any] = {"integer": MAX_WHOLE + 1, "list": [MAX_WHOLE + 1], "map": {MAX_WHOLE + 1: 0.0}}
            if row.kind in large and row.items[:1] != (str,):
                wrong = out_of_range(struct(**{name: large[row.kind]}))
                assert wrong is not None and (name in wrong), name


@pytest.mark.usefixtures("with_words")
def test_a_new_option_has_a_flag_with_help() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser.add_argument_group("engine"), WithOneMore)
    assert parser.parse_args([]).watermark is None
    assert parser.parse_args(["--watermark", "3"]).watermark == 3
    assert "blocks kept free (default: no block)" in parser.format_help()


def test_a_new_option_is_checked() -> None:
    assert out_of_range(WithOneMore()) is None and out_of_range(WithOneMore(watermark=8)) is None
    assert out_of_range(WithOneMore(watermark=9)) == "watermark must be between 0 and 8, not 9"
    assert over_served_max(WithOneMore(watermark=4)) is None
    assert over_served_max(WithOneMore(watermark=5)) == "watermark 5 is over the limit of 4"
    assert parse_config({"watermark": 2}, WithOneMore()) == WithOneMore(watermark=2)


@pytest.mark.usefixtures("with_words")
def test_a_new_option_is_sent_to_the_page_with_its_texts() -> None:
    payload = msgspec.to_builtins(options_payload(tables_of(engine=WithOneMore)))
    assert payload["tables"]["engine"][-1] == {
        "name": "watermark",
        "kind": "integer",
        "default": None,
        "optional": True,
        "ge": 0,
        "le": 4,  # the server's maximum, which is below the engine's
        "control": {"group": "scheduler", "usual": (0, 2), "none_as": 0},
    }
    labels = {language: words["watermark"]["label"] for language, words in payload["words"].items()}
    assert labels == {"en": "Watermark", "zh": "水位"}


def test_a_field_without_an_option_is_refused() -> None:
    class WithoutOption(Struct):
        size: int = 1

    with pytest.raises(TypeError, match="size needs a default and one Option"):
        table_of(WithoutOption)


@pytest.mark.parametrize("language", languages())
def test_every_language_has_texts_for_every_option_and_value(language: str) -> None:
    words = words_in(language)
    rows = {name: row for settings in STRUCTS for name, row in table_of(settings).items()}
    assert set(words) == set(rows)
    for name, row in rows.items():
        texts = words[name]
        assert texts.label and texts.help and not texts.help.endswith((".", "。")), name
        assert not row.optional or texts.none, f"{name} may be None, and {language} has no text for None"
        assert set(texts.values) | set(texts.values_help) <= set(row.choices), name
        assert set(texts.values) == set(words_in("en")[name].values), name
        assert set(texts.values_help) == set(words_in("en")[name].values_help), name
        assert bool(texts.number) == bool(words_in("en")[name].number), name


def test_both_languages_exist() -> None:
    assert languages()[:1] == ("en",) and "zh" in languages()
    assert any(ord(c) > 0x3000 for c in words_in("zh")["block_size"].label)


@pytest.mark.parametrize("settings", STRUCTS)
def test_defaults_are_in_range(settings: type[Struct]) -> None:
    assert out_of_range(settings()) is None and over_served_max(settings()) is None
    for name, row in table_of(settings).items():
        control = row.option.control
        if control is not None and control.initial is not None:
            assert out_of_range(msgspec.structs.replace(settings(), **{name: control.initial})) is None, name
        for value in control.usual if control is not None else ():
            assert value == control.none_as or row.option.admits(value), name  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"temperature": float("nan")}, "temperature must be between 0 and 100, not nan"),
        ({"top_p": 0.0}, "top_p must be over 0 and at most 1, not 0.0"),
        ({"top_k": -1}, "top_k must be at least 0, not -1"),
        ({"min_p": 2}, "min_p must be between 0 and 1, not 2"),
        ({"repetition_penalty": 0}, "repetition_penalty must be over 0"),
        ({"max_tokens": 0}, "max_tokens must be at least 1, not 0"),
        ({"stop_token_ids": [1] * 129}, "stop_token_ids must be at most 128"),
        ({"stop": [""]}, "stop must be at most 16 strings, none empty"),
        ({"logit_bias": {3: 101.0}}, "logit_bias must be at most 300 token ids"),
        ({"prompt_logprobs": 21}, "prompt_logprobs must be between 0 and 20, not 21"),
        ({"n": 3, "best_of": 2, "temperature": 1.0}, r"best_of must be at least n \(3\), not 2"),
        ({"max_tokens": 4, "min_tokens": 5}, r"min_tokens must be between 0 and max_tokens \(4\), not 5"),
    ],
)
def test_invalid_sampling_parameters_are_refused_by_name(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SamplingParams(**fields).checked()


def test_flags_have_the_defaults_of_the_settings() -> None:
    parser = argparse.ArgumentParser()
    add_sampling_options(parser)
    add_engine_options(parser)
    arguments = parser.parse_args([])
    assert engine_config(arguments) == EngineConfig() and sampling_params(arguments) == SamplingParams()


def test_flags_set_the_options() -> None:
    parser = argparse.ArgumentParser()
    add_sampling_options(parser)
    add_engine_options(parser)
    flags = "--seed 7 --no-enable-prefix-caching --kv-cache-dtype int8 --stop a --stop b --logit-bias 7=-2.5"
    arguments = parser.parse_args([*flags.split(), "--stop-token-ids", "3", "--temperature", "0.5", "--top-p", "0.9"])
    assert engine_config(arguments) == EngineConfig(seed=7, enable_prefix_caching=False, kv_cache_dtype="int8")
    assert sampling_params(arguments) == SamplingParams(
        stop=["a", "b"], logit_bias={7: -2.5}, stop_token_ids=[3], temperature=0.5, top_p=0.9
    )


def test_choices_are_the_values_of_the_literal_types() -> None:
    rows = table_of(EngineConfig)
    assert rows["kv_cache_dtype"].choices == KVCacheDtype.__args__  # type: ignore[attr-defined]
    assert rows["fault"].choices == FaultName.__args__ and rows["fault"].optional  # type: ignore[attr-defined]


@pytest.mark.parametrize("settings", STRUCTS)
def test_values_of_wrong_types_are_refused_by_constructor_and_replace(settings: type[Struct]) -> None:
    wrong: dict[str, list[Any]] = {
        "choice": ["x" * 9, 1, True],
        "switch": ["false", 0, 1],
        "integer": ["4", 4.0, True],
        "number": ["4", False],
        "text": [4],
        "list": ["ab", [None]],
        "map": [[1], {"a": "b"}],
    }
    for name, row in table_of(settings).items():
        for value in [*wrong[row.kind], *([] if row.optional else [None])]:
            with pytest.raises(ConfigError, match=f"^{name} must be "):
                settings(**{name: value})
            with pytest.raises(ConfigError, match=f"^{name} must be "):
                msgspec.structs.replace(settings(), **{name: value})


def test_a_misspelt_choice_is_refused_with_a_suggestion() -> None:
    with pytest.raises(
        ConfigError, match=r"^strategy must be one of paged, .*, not 'contigous'; did you mean contiguous"
    ):
        EngineConfig(strategy="contigous")  # type: ignore[arg-type]
