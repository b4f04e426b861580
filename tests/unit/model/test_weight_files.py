"""Damaged downloads of models are refused with the reason before any library reads them."""

from pathlib import Path

import pytest

from app.cli import main
from engine.model.errors import ModelError
from engine.model.model_files import model_files
from engine.prompts.tokens import open_encoder
from tests import gguf_files
from tests.tiny_models import tiny_model

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
PAGE = b"\n<!DOCTYPE html><html><head><title>Access denied</title></head></html>"


@pytest.fixture(scope="module", params=["GGUF", "safetensors"])
def weights(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model's weight file in GGUF or safetensors."""
    folder = tmp_path_factory.mktemp("whole")
    if request.param == "safetensors":
        tiny_model("llama").save_pretrained(folder)
        return folder / "model.safetensors"
    gguf_files.write("llama", folder / "tiny.gguf", True)
    return folder / "tiny.gguf"


def test_a_damaged_file_is_refused_with_the_reason(weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, is_gguf = weights.read_bytes(), weights.suffix == ".gguf"
    name, form = (weights, "GGUF") if is_gguf else (weights.parent, "safetensors")
    model_files(str(name))
    size = f"{len(data):,}"
    header_ends = r" ends within its header, after 100 bytes: .* download it again$"
    for content, expected in {
        data[: len(data) // 2]: rf" has {len(data) // 2:,} bytes, but its header states {size}: .* download it again$",
        data[:-4]: rf" has {len(data) - 4:,} bytes, but its header states {size}: ",
        data[:100]: header_ends,
        b"": " is empty: download it again",
        PAGE: f" is a web page, not a {form} file: download the file itself",
        POINTER: " is a Git LFS pointer, not the file itself: run 'git lfs pull'",
        b"PK\3\4" + bytes(500): rf" is not a readable {form} file \(it begins with 'PK",
        b"GGUF\3\0\0\0" + b"\xff" * 500: " ends within its header"
        if is_gguf
        else " is not a readable safetensors file",
    }.items():
        weights.write_bytes(content)
        with pytest.raises(ModelError, match=f"{weights.name}{expected}"):
            model_files(str(name))
        if is_gguf:
            with pytest.raises(ModelError, match=f"{weights.name}{expected}"):
                open_encoder(str(name))
    assert main(["generate", "ab", "--model", str(name)]) == 2
    assert f"{weights.name} " in capsys.readouterr().err
    if not is_gguf:
        (weights.parent / "tokenizer.json").write_bytes(POINTER)
        with pytest.raises(ModelError, match=r"tokenizer\.json is a Git LFS pointer"):
            model_files(str(name))
    weights.write_bytes(data)
