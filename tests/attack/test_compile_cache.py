"""Cached compiled code is loaded only if it is this user's, complete, and built for exactly this machine."""

import ctypes
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from engine.model import native
from engine.model.compile_cache import MAX_ENTRIES, CacheEntry, find, store


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "cache"
    home.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    return home


def kept(tmp_path: Path, key: str = "torch 1", content: bytes = b"machine code") -> CacheEntry:
    (tmp_path / "made").write_bytes(content)
    found = store(key, {"a.so": tmp_path / "made"}, {"made": "here"})
    assert found is not None
    return found


def test_an_entry_is_found_again_by_its_key_alone(tmp_path: Path) -> None:
    entry = kept(tmp_path)
    assert find("torch 1") == entry and entry.facts == {"made": "here"}
    assert (entry.folder / "a.so").read_bytes() == b"machine code"
    assert find("torch 2") is None
    assert [path.suffix for path in sorted(entry.folder.iterdir())] == [".so", ".json"], "and nothing that is pickled"


def test_the_later_of_two_entries_is_used(tmp_path: Path) -> None:
    kept(tmp_path, content=b"damaged somehow")
    assert (kept(tmp_path).folder / "a.so").read_bytes() == b"machine code"


def flipped(entry: CacheEntry) -> None:
    content = bytearray((entry.folder / "a.so").read_bytes())
    content[3] ^= 1
    (entry.folder / "a.so").write_bytes(content)


def cut(entry: CacheEntry) -> None:
    (entry.folder / "a.so").write_bytes(b"machine")


def missing(entry: CacheEntry) -> None:
    (entry.folder / "a.so").unlink()


def no_json(entry: CacheEntry) -> None:
    (entry.folder / "entry.json").write_text("{")


def of_another_key(entry: CacheEntry) -> None:
    """Copy the entry of another version to this version's path."""
    text = (entry.folder / "entry.json").read_text(encoding="utf-8")
    (entry.folder / "entry.json").write_text(text.replace("torch 1", "torch 0"))


def named_outside(entry: CacheEntry) -> None:
    (entry.folder.parent / "a.so").write_bytes((entry.folder / "a.so").read_bytes())
    text = (entry.folder / "entry.json").read_text(encoding="utf-8")
    (entry.folder / "entry.json").write_text(text.replace('"a.so"', '"../a.so"'))


def writable_file(entry: CacheEntry) -> None:
    (entry.folder / "a.so").chmod(0o666)


def writable_entry(entry: CacheEntry) -> None:
    entry.folder.chmod(0o777)


def writable_folder(entry: CacheEntry) -> None:
    entry.folder.parent.chmod(0o777)


def link(entry: CacheEntry) -> None:
    elsewhere = entry.folder.parent / "elsewhere.so"
    (entry.folder / "a.so").rename(elsewhere)
    (entry.folder / "a.so").symlink_to(elsewhere)


def _given_away(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path, 12345, 12345)


def file_of_another(entry: CacheEntry) -> None:
    _given_away(entry.folder / "a.so")


def entry_of_another(entry: CacheEntry) -> None:
    _given_away(entry.folder)


@pytest.mark.parametrize(
    "harm",
    [
        flipped, cut, missing, no_json, of_another_key, named_outside, writable_file, writable_entry, writable_folder,
        link, file_of_another, entry_of_another,
    ],
    ids=lambda harm: harm.__name__,
)  # fmt: skip
def test_an_entry_that_is_not_as_it_was_written_is_never_used(
    tmp_path: Path, harm: Callable[[CacheEntry], None]
) -> None:
    entry = kept(tmp_path)
    assert find("torch 1") is not None
    harm(entry)
    assert find("torch 1") is None


def test_the_least_recently_used_entries_are_deleted(tmp_path: Path) -> None:
    for number in range(MAX_ENTRIES):
        os.utime(kept(tmp_path, f"torch {number}").folder, (number, number))
    assert find("torch 0"), "used now"
    kept(tmp_path, "one more")
    assert find("torch 0") and find("torch 2") and find("one more")
    assert find("torch 1") is None


def test_nothing_is_found_without_a_usable_cache_folder(tmp_path: Path, cache_home: Path) -> None:
    (cache_home / "kvtheater").mkdir(mode=0o777)
    (cache_home / "kvtheater").chmod(0o777)
    (tmp_path / "made").write_bytes(b"machine code")
    assert store("torch 1", {"a.so": tmp_path / "made"}, {}) is None
    assert find("torch 1") is None
    assert not list((cache_home / "kvtheater").iterdir())


def test_kernels_are_compiled_once_for_their_source_and_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    run = subprocess.run

    def counted(command: list[str], **options: object) -> object:
        calls.append(command)
        return run(command, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "run", counted)
    first = native._built("logits.c")
    assert len(calls) == 1
    second = native._built("logits.c")
    assert len(calls) == 1 and isinstance(second, ctypes.CDLL)
    x = torch.tensor([[0.0, 1.0, 2.0]])
    for library in (first, second):
        total, ids, _ = native.LogitKernels(library).summarize(x, 1)
        assert ids == [[2]] and torch.allclose(total, x.logsumexp(-1))
    monkeypatch.setattr(native, "FLAGS", (*native.FLAGS, "-DOTHER"))
    native._built("logits.c")
    assert len(calls) == 2, "other flags, another library"
