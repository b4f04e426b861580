"""Each reader of TOML refuses a file that is nested too deeply in one sentence with the file's name."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from app.cli import main
from app.ground.settings import Policy
from app.lessons.parse import read_lesson
from app.openai.keys import read_keys
from engine.accounting.presets import read_presets
from engine.bench.scenario import read_scenario

DEEP = f"x = {'[' * 5000}{']' * 5000}\n"


@pytest.mark.parametrize(
    "read", [read_presets, read_scenario, functools.partial(read_keys, default=cast("Policy", None))]
)
def test_a_deeply_nested_file_is_refused_in_one_sentence(read: Callable[[Path], object], tmp_path: Path) -> None:
    file = tmp_path / "deep.toml"
    file.write_text(DEEP)
    with pytest.raises(Exception, match=r"deep.toml.*nested too deeply") as refused:
        read(file)
    assert not isinstance(refused.value, RecursionError)


@pytest.mark.parametrize("text", [f"+++\n{DEEP}+++\n", f"+++\nid = 'a'\n+++\n## One\n::: do: set {DEEP}"])
def test_a_lesson_with_deeply_nested_toml_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "deep.md"
    file.write_text(text)
    with pytest.raises(Exception) as refused:
        read_lesson(file)
    assert not isinstance(refused.value, RecursionError)
    assert main(["lesson", "check", str(file)]) in (1, 2)
    output = "".join(capsys.readouterr())
    assert "deep.md" in output and "Traceback" not in output
