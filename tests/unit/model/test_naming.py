"""A model's published name is never a path."""

import json
from pathlib import Path

import pytest

from app.cli import main
from app.ground.settings import ServerSettings
from app.models import live_model
from app.session.messages import SubmittedPrompt
from engine.config import EngineConfig, SamplingParams
from engine.model.naming import model_name
from engine.trace.log import TraceReader
from tests.tiny_models import tiny_model, tiny_tokenizer


def test_a_hub_name_is_unchanged() -> None:
    assert [model_name(name) for name in ("Qwen/Qwen3-0.6B", "gpt2", "bundled-gqa")] == [
        "Qwen/Qwen3-0.6B",
        "gpt2",
        "bundled-gqa",
    ]


@pytest.mark.parametrize("path", ["/home/ada/models/tiny", "/home/ada/models/tiny/", "./tiny", "~/tiny", "a/b/tiny"])
def test_a_path_is_named_by_its_last_part(path: str) -> None:
    assert model_name(path) == "tiny"


def test_a_folder_that_looks_like_a_hub_name_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ada" / "tiny").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert (model_name("ada/tiny"), model_name("ada/other")) == ("tiny", "ada/other")
    monkeypatch.chdir(tmp_path / "ada" / "tiny")
    assert model_name(".") == "tiny"


def test_a_hub_cache_folder_has_its_hub_name() -> None:
    cache = "/home/ada/.cache/huggingface/hub"
    assert model_name(f"{cache}/models--Qwen--Qwen3-0.6B/snapshots/c1899de2") == "Qwen/Qwen3-0.6B"


def test_the_root_folder_is_named_model() -> None:
    assert model_name("/") == "model"


def test_logs_pages_and_exports_do_not_contain_the_models_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "who-lives-here" / "tiny"
    module = tiny_model("llama_tied")
    module.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    model = live_model.load(str(folder), "auto", "cpu", ServerSettings(), lambda stage: None)
    assert (model.facts.name, model.tokenizer_facts.name) == ("tiny", "tiny")
    (tmp_path / "out").mkdir()
    log = tmp_path / "run.kvtrace"
    engine = model.build(EngineConfig(block_size=4, num_blocks=8, max_model_len=16), log)
    engine.submit([SubmittedPrompt(text="a b")], SamplingParams(max_tokens=2, ignore_eos=True))
    while engine.num_unfinished():
        engine.step()
    engine.close()
    with TraceReader(log) as reader:
        assert reader.header.model.name == "tiny"
    monkeypatch.chdir(tmp_path)
    assert main(["export", "run.kvtrace", "-o", "out/run.html"]) == 0
    for form in ("perfetto", "csv", "kv-events"):
        assert main(["trace", "export", "run.kvtrace", "--to", form, "-o", f"out/{form}"]) == 0
    for command in (["show"], ["explain"], ["check"]):
        assert main(["trace", *command, "run.kvtrace"]) == 0
    assert main(["info", str(folder), "--device", "cpu", "--json"]) == 0
    output = capsys.readouterr().out
    assert json.loads(output.splitlines()[-1])["model"]["name"] == "tiny"
    written = [path for path in (log, *(tmp_path / "out").rglob("*")) if path.is_file()]
    assert len(written) == 6  # the log, a page, one of Perfetto's, two tables, events
    assert not [path.name for path in written if b"who-lives-here" in path.read_bytes()]
    assert "who-lives-here" not in output
