"""`kvtheater size` prints what the page shows."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import main


def test_explain_prints_numbers_with_their_formulas(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["size", "gpt-3", "--batch", "16", "--context", "1024", "--gpu", "h200", "--explain"]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "72.000 GiB" in text and "2 · L · Hkv · D · bytes = 2 · 96 · 96 · 128 · 2" in text
    assert "H200" in text and "T4" not in text


def test_contexts_over_the_models_limit_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "gpt2", "--max-model-len", "2048"]) == 0
    assert "GPT-2 (124M) has 1,024 positions, and max_model_len is 2,048" in capsys.readouterr().out
    assert main(["size", "gpt2", "--context", "512", "--max-model-len", "1024"]) == 0
    assert "positions" not in capsys.readouterr().out


def test_json_has_the_sizes_in_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "qwen-72b", "--batch", "32", "--json"]) == 0
    sizes = {one["id"]: one["value"] for one in json.loads(capsys.readouterr().out)["sizes"]}
    assert sizes["kv_batch"] == 160 * 2**30


def test_an_unknown_model_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "gpt-9"]) == 2
    assert "model 'gpt-9' is unknown; use one of gpt2" in capsys.readouterr().err


def test_an_own_configuration_is_sized(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama", "num_hidden_layers": 2}')
    assert main(["size", str(tmp_path), "--gpu", "t4"]) == 0
    assert "32,768 B" in capsys.readouterr().out, "2 · 2 layers · 32 heads · 128 · 2 bytes"
    assert main(["size", str(tmp_path / "nothing"), "--gpu", "t4"]) == 2
    assert "is neither a preset nor a config.json nor a folder" in capsys.readouterr().err


def test_transfer_times_and_common_mistakes_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["size", "opt-66b", "--context", "512", "--arrivals", "10", "--link", "infiniband-xdr", "--explain"]
    assert main([*command, "--gpu", "t4"]) == 0
    text = capsys.readouterr().out
    assert "96.64 Gbit/s" in text and "12.08 ms" in text and "not 61.467 GiB" in text
    assert main([*command, "--gpu", "t5"]) == 2
    assert "--gpu 't5' is unknown" in capsys.readouterr().err


@pytest.mark.slow
def test_sizing_a_preset_does_not_import_torch() -> None:
    code = "import sys; from app.cli import main; main(['size', 'gpt-3']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_a_context_raises_the_default_of_max_model_len(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["size", "gpt-3", "--batch", "16", "--context", "32768", "--gpu", "h200"]
    assert main(arguments) == 0
    assert "2,304.000 GiB" in capsys.readouterr().out
    assert main([*arguments, "--max-model-len", "8192"]) == 2
    assert "longer than max_model_len = 8192" in capsys.readouterr().err


def test_unread_fields_of_a_configuration_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"model_type": "llama", "num_hidden_layers": 2, "quantization_config": {"quant_method": "hqq"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert main(["size", str(tmp_path), "--gpu", "t4"]) == 0
    assert "Not read in this configuration, and so not in these sizes: quantization_config of quant_method 'hqq'" in (
        capsys.readouterr().out
    )
