"""`kvtheater size` prints what the page shows."""

from __future__ import annotations

import json

import pytest

from app.cli import main


def test_the_numbers_and_their_formulas(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["size", "gpt-3", "--batch", "16", "--context", "1024", "--gpu", "h200", "--explain"]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "72.000 GiB" in text and "2 · L · Hkv · D · bytes = 2 · 96 · 96 · 128 · 2" in text
    assert "H200" in text and "T4" not in text


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "qwen-72b", "--batch", "32", "--json"]) == 0
    sizes = {one["id"]: one["value"] for one in json.loads(capsys.readouterr().out)["sizes"]}
    assert sizes["kv_batch"] == 160 * 2**30


def test_an_unknown_model_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "gpt-9"]) == 2
    assert "model 'gpt-9' is unknown; use one of gpt2" in capsys.readouterr().err
