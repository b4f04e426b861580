"""Settings per model: their file, and the settings of a run that changes its model."""

import argparse
from pathlib import Path

import pytest

from app.cli.model_config import model_configs
from app.cli.options import UserError
from app.ground.settings import ServerSettings
from engine.config import EngineConfig

BASE = EngineConfig(block_size=8, max_num_seqs=4)


def configs(tmp_path: Path, text: str) -> dict[str, EngineConfig]:
    file = tmp_path / "models.toml"
    file.write_text(text)
    return model_configs(argparse.Namespace(model_config=file), ["bundled", "org/my.model"], BASE)


def test_unset_options_come_from_the_command_line(tmp_path: Path) -> None:
    found = configs(tmp_path, '["org/my.model"]\nblock_size = 2\nkv_cache_dtype = "int8"\n')
    assert found == {"org/my.model": EngineConfig(block_size=2, max_num_seqs=4, kv_cache_dtype="int8")}
    settings = ServerSettings(config=BASE, configs=found)
    assert settings.config_of("bundled") == settings.config_of(None) == BASE
    assert settings.config_of("org/my.model").block_size == 2
    assert model_configs(argparse.Namespace(model_config=None), ["bundled"], BASE) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[nobody]\nblock_size = 2", "this server has no model 'nobody'; its models are bundled, org/my.model"),
        ("[bundled]\nblock-size = 2", r"\[bundled\]: there is no option 'block-size'; did you mean block_size\?"),
        ("[bundled]\nprivate = true", "there is no option 'private'"),
        ("[bundled]\nblock_size = 0", r"\[bundled\]: block_size must be at least 1, not 0"),
        ("[bundled]\nblock_size = 'x'", r"\[bundled\]: block_size: expected `int`, got `str`"),
        ("[bundled]\nprefill = 1", "prefill must be the same for all models; set it on the command line"),
        ("block_size = 2", r"block_size is in no table; write \[MODEL\] above it"),
        ("[", "models.toml"),
    ],
)
def test_invalid_files_are_refused_with_the_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as refused:
        configs(tmp_path, text)
    assert str(refused.value).startswith("--model-config: ") and "\n" not in str(refused.value)
    with pytest.raises(UserError, match="cannot read "):
        model_configs(argparse.Namespace(model_config=tmp_path / "nowhere.toml"), ["bundled"], BASE)


def test_changing_the_model_keeps_chosen_options_and_uses_the_models_settings() -> None:
    custom = EngineConfig(block_size=2, max_num_seqs=9)
    settings = ServerSettings(config=BASE, configs={"b": custom})
    chosen = EngineConfig(block_size=16, max_num_seqs=4, enable_prefix_caching=False)
    moved = settings.moved(chosen, "a", "b")
    assert (moved.block_size, moved.max_num_seqs, moved.enable_prefix_caching) == (16, 9, False)
    assert settings.moved(custom, "b", "a") == BASE and settings.moved(chosen, "a", "a") == chosen
