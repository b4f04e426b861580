"""Models in GGUF files compute the same as from safetensors, with the file's tokenizer and chat template."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from app.cli import main
from engine.bench.peers.foreign.gguf_file import ARCHITECTURES
from engine.model import gguf_hub
from engine.model.errors import ModelError
from engine.model.loader import load_model
from engine.model.weighing import estimated_weight_bytes
from engine.setup.unloaded_model import architecture_of
from tests import gguf_files
from tests.parity.harness import Driver, mixed_schedule, random_prompt
from tests.tiny_models import byte_level_tokenizer
from tests.unit.prompts.sessions import chat


@pytest.mark.parametrize("is_quantized", [False, True], ids=["f32", "q8_0"])
@pytest.mark.parametrize("family", ARCHITECTURES)
def test_the_same_logits_as_from_safetensors(family: str, is_quantized: bool, tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    plain = gguf_files.write(family, file, is_quantized)
    folder = tmp_path / "plain"
    plain.save_pretrained(folder)
    byte_level_tokenizer().save_pretrained(folder)
    models = [load_model(str(one), dtype="float32", device="cpu") for one in (file, folder)]
    sequences = {seq: random_prompt(length, 250, seq) for seq, length in {5: 14, 9: 18, 2: 11}.items()}
    drivers = [Driver(model, 4, 16) for model in models]
    for driver in drivers:
        mixed_schedule(driver, sequences)
    for key, logits in drivers[0].logits.items():
        torch.testing.assert_close(logits, drivers[1].logits[key], rtol=1e-5, atol=1e-5)
        assert logits.argmax() == drivers[1].logits[key].argmax()
    given, expected = models
    assert given.facts.name == "tiny.gguf" and given.facts.num_params == expected.facts.num_params
    assert given.tokenizer is not None and expected.tokenizer is not None
    text = "Each has wörds, 的."
    # the merge of t and h, which the folder's tokenizer has not
    assert given.tokenizer.encode(text) == expected.tokenizer.encode(text)
    assert given.tokenizer.encode("this") == [gguf_files.FIRST_UNUSED, *expected.tokenizer.encode("is")]
    assert given.tokenizer_facts.eos_token_ids == [256]
    token_ids = given.tokenizer.chat([{"role": "user", "content": "Hi"}])
    assert b"".join(map(given.tokenizer.token_bytes, token_ids)) == b"<user>Hi"
    form, each = ("Q8_0", 34 / 32) if is_quantized else ("F32", 4)  # 32 weights, and a scale of two bytes
    assert given.stored is not None and given.stored.form == f"GGUF {form}"
    weights = given.facts.num_params
    assert given.stored.stored_bytes == pytest.approx(each * weights, rel=0.03)  # norms and biases are float32
    assert given.stored.taken_bytes == estimated_weight_bytes(str(file), "float32", "cpu") >= 4 * weights
    assert architecture_of(str(file)).shipped.each == pytest.approx(each, rel=0.03)


def test_prompts_are_counted_and_rendered_by_the_files_tokenizer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file's merges determine the count; its chat template, which writes nothing before an answer, causes the
    break.
    """
    file, day = tmp_path / "tiny.gguf", tmp_path / "day.jsonl"
    gguf_files.write("qwen2", file, True)
    bodies = [chat(turns, "This is the zh of the moth.") for turns in (1, 2)]
    day.write_text("\n".join(map(json.dumps, bodies)))
    assert main(["prompts", str(day), "--tokenizer", f"mine={file}", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    tokenizer = load_model(str(file), dtype="float32", device="cpu").tokenizer
    assert tokenizer is not None and found["rendered"]
    for body, request in zip(bodies, found["requests"], strict=True):
        assert request["num_tokens"] == len(tokenizer.chat(body["messages"]))
    assert found["requests"][1]["parted"]["cause"] == "template_differs"


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tiny.gguf"
    gguf_files.write("qwen3", file, True)
    assert main(["info", str(file)]) == 0
    assert "in GGUF Q8_0, expanded to" in capsys.readouterr().out
    assert main(["size", str(file)]) == 0
    assert capsys.readouterr().out.startswith("tiny.gguf\n")
    assert main(["generate", "ab", "--model", str(file), "--max-tokens", "3", "--temperature", "0"]) == 0
    assert len(capsys.readouterr().out) > 1
    assert main(["template", "check", str(file)]) == 1  # the file's template begins no answer
    assert "breaks" in capsys.readouterr().out


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tiny.gguf"
    with pytest.raises(ModelError, match=r"there is no file .*tiny\.gguf"):
        load_model(str(file))
    file.write_bytes(b"GGUF and nothing that follows from it")
    with pytest.raises(ModelError, match=r"tiny\.gguf is not a readable GGUF file \(it begins with 'GGUF"):
        load_model(str(file), device="cpu")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"pip install 'kvtheater\[gguf\]'"):
        load_model(str(file))


FILES = ["README.md", "Tiny-0.1B-Q8_0.gguf", "tiny.Q4_K_M.gguf", "mmproj-F16.gguf", "Tiny-BF16-00001-of-00002.gguf"]


class Hub:
    """Fake hub with one repository, and another name without GGUF files."""

    def list_repo_files(self, repository: str, revision: str | None = None) -> list[str]:
        if repository != "owner/tiny-GGUF":
            raise OSError("404")
        return FILES


def test_a_file_of_the_hub_is_named_by_its_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub's listing and download are replaced, since tests have no network."""
    gguf_files.write("qwen3", tmp_path / FILES[1], True)
    downloads = []

    def downloaded(repository: str, name: str, revision: str | None = None) -> str:
        downloads.append((repository, name, revision))
        return str(tmp_path / name)

    monkeypatch.setattr(gguf_hub, "HfApi", Hub)
    monkeypatch.setattr(gguf_hub, "hf_hub_download", downloaded)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model = load_model("owner/tiny-GGUF:q8_0", device="cpu")
    assert model.facts.name == "owner/tiny-GGUF:q8_0" and model.stored is not None
    assert model.stored.form == "GGUF Q8_0" and downloads == [("owner/tiny-GGUF", FILES[1], None)]
    with pytest.raises(ModelError, match=r"has no GGUF file 'Q5_0'; it has Q8_0, Q4_K_M$"):
        load_model("owner/tiny-GGUF:Q5_0", device="cpu")
    with pytest.raises(ModelError, match="no GGUF file of owner/other was found"):
        load_model("owner/other:Q8_0", device="cpu")


def test_a_repository_of_gguf_files_alone_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_hub, "HfApi", Hub)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    expected = r"has only GGUF files \(Q8_0, Q4_K_M\): select one, for example owner/tiny-GGUF:Q8_0"
    with pytest.raises(ModelError, match=expected):
        load_model("owner/tiny-GGUF", device="cpu")
