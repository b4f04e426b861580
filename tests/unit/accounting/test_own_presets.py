"""Models, GPUs and links of a user, in addition to the shipped ones."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from werkzeug.datastructures import MultiDict

from app.cli import main
from app.scale.placement import answer as placements
from app.scale.roofline import RooflineContext, subject
from app.scale.size import own_presets
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

[[model.sources]]
says = "my notes"

[[gpu]]
id = "t4"
name = "My T4"
memory_bytes = 15_000_000_000
bytes_per_second = 300e9
flops_per_second = { float16 = 60e12 }
usable_bytes = 14_000_000_000

[[gpu.sources]]
says = "measured at my desk"
checked = 2026-01-02
against = "what it did on another day"

[[gpu.sources]]
figures = ["usable_bytes"]
says = "what my driver says"
"""


def test_own_presets_replace_shipped_ones(tmp_path: Path) -> None:
    folder = tmp_path / "presets"
    folder.mkdir()
    (folder / "a.toml").write_text(OWN)
    known = presets(own_presets(tmp_path))
    assert list(known.models)[-1] == "mine" and known.gpus["t4"].name == "My T4"
    assert known.gpus["t4"].room_bytes == 14 * 10**9 and presets().gpus["t4"].room_bytes == 15 * 2**30
    assert known.links == presets().links and presets().gpus["t4"].name != "My T4"


def test_size_reads_presets_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    assert main(["size", "mine", "--presets", str(tmp_path / "own.toml"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["says"] for one in found["model"]["sources"]] == ["my notes"]
    assert {one["id"]: one["value"] for one in found["sizes"]}["kv_token"] == 2 * 2 * 8 * 2


TIMED = """
[[model]]
id = "mine"
name = "Mine"
num_params = 7_000_000_000
num_layers = 32
num_kv_heads = 8
head_dim = 128
num_heads = 32
hidden_size = 4096
intermediate_size = 11_008
vocab_size = 32_000
max_position = 4096

[[model.sources]]
says = "my notes"

[[gpu]]
id = "desk"
name = "My card"
memory_bytes = 48_000_000_000
bytes_per_second = 900e9
flops_per_second = { float16 = 180e12 }

[[gpu.sources]]
says = "my notes"

[[layer]]
gpu = "desk"
model = "mine"
tensor_parallel = 1
tokens = [1, 512, 4096]
milliseconds = [0.5, 2.0, 16.0]
source = "measured at my desk"
"""


def test_own_presets_are_usable_for_placement_roofline_and_simulation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model's layers were timed, so it can be placed and simulated, and its figures suffice for the roofline."""
    file = tmp_path / "own.toml"
    file.write_text(TIMED)
    placed = placements(MultiDict({"model": "mine", "prefill_gpu": "desk", "decode_gpu": "desk"}), presets([file]))
    assert placed["times_source"] == "measured at my desk"
    assert [way["placement"] is not None for way in placed["ways"]] == [True, True, True]
    elsewhere = placements(MultiDict({"model": "mine"}), presets([file]))["ways"][0]["refused"] or {}
    assert "the layers of Mine were not measured on A100 SXM 80GB, only on desk" in elsewhere["en"]
    models = SimpleNamespace(is_live=False, first=SimpleNamespace(is_loading=False))
    context = RooflineContext(cast("Any", None), cast("Any", models), tmp_path, presets=file)
    steps = subject(context, MultiDict({"model": "mine", "gpu": "desk"}))
    assert (steps.shape.name, steps.roof.bytes_per_second) == ("Mine", 900e9)
    requests = tmp_path / "requests.jsonl"
    requests.write_text('{"timestamp": 0, "input_length": 512, "output_length": 2, "hash_ids": [1]}\n')
    arguments = ["simulate", str(requests), "--model", "mine", "--gpu", "desk"]
    assert main([*arguments, "--presets", str(file), "--json"]) == 0
    assert "layers of Mine on 1 × My card (measured at my desk)" in json.loads(capsys.readouterr().out)["source"]
    assert main(arguments) == 2
    assert (
        "--model 'mine' is unknown, or its layers were not measured; use one of llama-2-7b" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("[1, 512, 4096]", "[1, 512]"), "needs a time for each number of tokens"),
        (("[1, 512, 4096]", "[512, 1, 4096]"), "must be above 0 and ascending"),
        (("0.5, 2.0", "0.0, 2.0"), "must be above 0"),
        (("tensor_parallel = 1", "tensor_parallel = 2"), "needs all_reduce"),
    ],
)
def test_invalid_layer_times_are_explained_in_one_sentence(
    tmp_path: Path, change: tuple[str, str], sentence: str
) -> None:
    (tmp_path / "own.toml").write_text(TIMED.replace(*change))
    with pytest.raises(ImpossibleInput, match=sentence):
        presets([tmp_path / "own.toml"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[model]]\nid = 1", "cannot be read"),
        ("[[", "cannot be read"),
        (OWN + "colour = 1", "colour"),
        (OWN.replace("float16", "int8"), "needs float16"),
        (OWN.replace("60e12", "60e12, float17 = 1e12"), "float17"),
        (OWN.replace("60e12", "0"), "above 0"),
        (OWN.replace('[[model.sources]]\nsays = "my notes"', ""), "missing required field `sources`"),
        (
            OWN.replace('says = "my notes"', 'says = "my notes"\nfigures = ["num_layers"]'),
            "num_params of mine has no source",
        ),
        (OWN.replace('"my notes"', '" "'), "needs `says`"),
        (
            OWN.replace('usable_bytes"]', 'flops_per_second.int8"]'),
            "'flops_per_second.int8', which is not one of its figures",
        ),
        (OWN.replace("figures = ", "# "), "the rest of t4 has 2 sources"),
        (OWN.replace('["usable_bytes"]', '["usable_bytes", "usable_bytes"]'), "usable_bytes of t4 has 2 sources"),
    ],
)
def test_an_invalid_file_is_explained_in_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(ImpossibleInput, match=sentence):
        presets([tmp_path / "own.toml"])
    with pytest.raises(ImpossibleInput, match="No such file"):
        presets([tmp_path / "none.toml"])
