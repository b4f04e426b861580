"""Cached compiled code is executed, so only files that others cannot write are used."""

import getpass
import logging
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.conftest import ROOT

COMPILES = """
import torch
from engine.model.compiled import OPTIONS, _compile

class Twice(torch.nn.Module):
    def forward(self, x):
        return (x * 2).relu()

module = torch.export.export(Twice(), (torch.ones(3),)).module(check_guards=False)
graph = torch.fx.GraphModule(module, module.graph)
graph.graph.set_codegen(torch.fx.graph.CodeGen())
options = {**OPTIONS["cpu"], "cpp.vec_isa_ok": True}  # torch's own question to the processor takes as long again
assert _compile(graph, options)(torch.tensor([1.0, -1.0, 3.0]))[0].tolist() == [2.0, 0.0, 6.0]
"""


def test_compiled_code_is_neither_read_from_nor_written_to_the_folder_that_others_can_make(tmp_path: Path) -> None:
    """TorchInductor's default folder exists and is writable by all users; it stays empty."""
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    planted = temporary / f"torchinductor_{getpass.getuser()}"
    home.mkdir()
    planted.mkdir(parents=True)
    planted.chmod(0o777)
    ours = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME")
    environment = {k: v for k, v in os.environ.items() if k not in ours}
    environment |= {"HOME": str(home), "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", COMPILES], cwd=ROOT, env=environment, check=True, timeout=250)
    assert not list(planted.rglob("*"))
    (folder,) = home.rglob("kvtheater")
    (made_for,) = folder.iterdir()
    assert list((made_for / "inductor").rglob("*.so"))
    for one in (folder, made_for, made_for / "inductor"):
        assert stat.S_IMODE(one.stat().st_mode) == 0o700
        assert one.stat().st_uid == os.geteuid()


@pytest.fixture
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, "")  # so that it is as before afterwards
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def planted_open(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def planted_readable(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o750)


def planted_link(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    folder.symlink_to(elsewhere)


def planted_file(folder: Path) -> None:
    folder.write_text("")


def planted_by_another(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(folder, 12345, 12345)


def in_an_open_folder(folder: Path) -> None:
    folder.parent.chmod(0o777)


@pytest.mark.parametrize(
    "plant",
    [planted_open, planted_readable, planted_link, planted_file, planted_by_another, in_an_open_folder],
    ids=lambda plant: plant.__name__,
)
def test_a_shared_folder_is_replaced_by_one_of_this_process(
    cache_home: Path, plant: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    from engine.model.compiler_cache import use_own_cache

    plant(cache_home / "kvtheater")
    with caplog.at_level(logging.WARNING):
        use_own_cache()
    taken = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    assert cache_home not in taken.parents and stat.S_IMODE(taken.parent.stat().st_mode) == 0o700
    assert Path(os.environ["TRITON_CACHE_DIR"]).parent == taken.parent
    (message,) = caplog.messages
    assert str(cache_home) in message and "compiled" in message


def test_folders_that_the_user_chose_are_left(cache_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.model.compiler_cache import use_own_cache

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/somewhere/mine")
    use_own_cache()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "/somewhere/mine"
    triton = Path(os.environ["TRITON_CACHE_DIR"])
    assert triton.parent.parent == cache_home / "kvtheater" and triton.name == "triton"
    use_own_cache()
    assert os.environ["TRITON_CACHE_DIR"] == str(triton)


def test_code_is_cached_per_instruction_set(cache_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code compiled on one machine is not loaded on another with other instructions: a shared home, or torch limited
    below AVX-512.
    """
    from engine.model.compiler_cache import use_own_cache

    found = []
    for capability in ("AVX512", "AVX2", "DEFAULT", "AVX2"):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda capability=capability: capability)
        monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
        use_own_cache()
        found.append(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    assert len(set(found)) == 3 and found[1] == found[3]


def test_a_user_without_a_home_has_a_folder_of_this_process(cache_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.model.compiler_cache import use_own_cache

    def nowhere() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", nowhere)
    use_own_cache()
    assert stat.S_IMODE(Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).parent.stat().st_mode) == 0o700
