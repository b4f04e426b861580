"""`kvtheater doctor`: each part is reported, a failing one hides no other, and the home folder's name does not
appear.
"""

from pathlib import Path
from typing import Any

import pytest

from app.__main__ import main
from app.cli import doctor
from app.server.listener import bind
from engine.setup import diagnosis


@pytest.fixture
def home(monkeypatch, tmp_path: Path) -> Path:
    """Set a home folder of a user called annsmith, who stores compiled code elsewhere."""
    home = tmp_path / "annsmith"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/scratch/annsmith/cache")
    monkeypatch.setenv("TMPDIR", str(home / "tmp"))
    monkeypatch.setitem(doctor.PARTS, "compiled pass", lambda: {"is_there": False, "why": f"{home}/x is not safe"})
    return home


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_name_of_the_home_folder_is_nowhere(capsys, home: Path, options: list[str]) -> None:
    assert main(["doctor", *options]) == 0
    out = capsys.readouterr().out
    assert "annsmith" not in out
    assert "~/x is not safe" in out and "~/tmp" in out and "scratch/USER/cache" in out


def test_a_failing_part_hides_no_other(capsys, home: Path, monkeypatch) -> None:
    def broken() -> dict[str, Any]:
        raise ImportError("libtorch.so: no such file")

    monkeypatch.setitem(doctor.PARTS, "torch", broken)
    with bind("127.0.0.1", None) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["doctor"]) == 0
    lines = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert lines["torch"] == "ImportError: libtorch.so: no such file"
    assert lines["ports"].startswith("8765 to 8784: in use: ") and str(port) in lines["ports"]


def test_doctor_omits_secrets_of_the_environment() -> None:
    given = {"KVTHEATER_API_KEY": "sk-1", "HF_TOKEN": "hf_1", "OMP_NUM_THREADS": "1", "HF_HOME": "/models"}
    assert diagnosis.variables(given) == {"HF_HOME": "/models", "OMP_NUM_THREADS": "1"}


def test_supported_versions_are_those_of_the_package() -> None:
    found = diagnosis.versions("1.2.3")
    assert found["kvtheater"]["version"] == "1.2.3" and found["python"]["supported"] == "3.11 to 3.14"
    assert found["torch"]["supported"].startswith(">=2.") and found["flask-socketio"]["supported"].startswith(">=5.")


@pytest.mark.slow
def test_doctor_reports_a_missing_compiled_pass(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert diagnosis.compiled_pass() == {
        "is_there": False,
        "why": "not compiled yet: kvtheater serve does it in the background",
    }
    (tmp_path / "kvtheater").chmod(0o777)
    assert "must belong to this user alone" in diagnosis.compiled_pass()["why"]
    monkeypatch.setenv("PATH", "")
    assert diagnosis.compiled_pass()["why"].startswith("no C++ compiler was found: ")
