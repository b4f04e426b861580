"""`kvtheater template check` names a missing file, without a request to the hub."""

from pathlib import Path

import pytest

from app.cli import main


@pytest.mark.parametrize("name", ["absent.jinja", "./absent.jinja", "absent/template.jinja", "absent.gguf", "./absent"])
def test_a_missing_template_file_is_named_in_the_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert main(["template", "check", name]) == 2
    assert capsys.readouterr().err == f"kvtheater: there is no file or folder {name}\n"
