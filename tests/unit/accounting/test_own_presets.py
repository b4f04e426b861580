"""A user's own models, GPUs and links beside those that come with the program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli import main
from app.scale_size import own_presets
from engine.accounting.impossible import ImpossibleInput
from engine.accounting.presets import presets

OWN = """
[[model]]
id = "mine"
name = "Mine"
num_params = 1_000
num_layers = 2
num_kv_heads = 1
head_dim = 8
element_bytes = 2
source = "my notes"
dated = 2026-01-02

[[gpu]]
id = "t4"
name = "My T4"
memory_bytes = 15_000_000_000
bytes_per_second = 300e9
flops_per_second = { float16 = 60e12 }
source = "measured at my desk"
announced = 2026-01-02
usable_bytes = 14_000_000_000
sources = { usable_bytes = "what my driver says" }
"""


def test_they_come_last_and_replace_those_of_the_same_name(tmp_path: Path) -> None:
    folder = tmp_path / "presets"
    folder.mkdir()
    (folder / "a.toml").write_text(OWN)
    known = presets(own_presets(tmp_path))
    assert list(known.models)[-1] == "mine" and known.gpus["t4"].name == "My T4"
    assert known.gpus["t4"].room_bytes == 14 * 10**9 and presets().gpus["t4"].room_bytes == 15 * 2**30
    assert known.links == presets().links and presets().gpus["t4"].name != "My T4"


def test_the_command_takes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    assert main(["size", "mine", "--presets", str(tmp_path / "own.toml"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["model"]["source"] == "my notes"
    assert {one["id"]: one["value"] for one in found["sizes"]}["kv_token"] == 2 * 2 * 8 * 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[model]]\nid = 1", "cannot be read"),
        ("[[", "cannot be read"),
        (OWN + "colour = 1", "colour"),
        (OWN.replace("float16", "int8"), "needs float16"),
        (OWN.replace("60e12", "60e12, float17 = 1e12"), "float17"),
        (OWN.replace("60e12", "0"), "above 0"),
    ],
)
def test_a_file_that_is_none_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(ImpossibleInput, match=sentence):
        presets([tmp_path / "own.toml"])
    with pytest.raises(ImpossibleInput, match="No such file"):
        presets([tmp_path / "none.toml"])
