"""Cache of compiled code for later starts: entries of files in a private folder of the user.

    compiled/<hash of the key>/    entry.json: key, hash of every file, facts      the files

An entry is used only if its key is equal, its files belong to the user, and their hashes match. An invalid entry counts
as a missing one, and the code is compiled again. An entry is written under another name and then renamed, so that no
process finds an incomplete one. Nothing in it is pickled.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from engine.model.own_folder import all_compiled, compiled_folder

log = logging.getLogger(__name__)
FOLDER = "compiled"
MAX_ENTRIES = 48  # the least recently used entries are evicted


class _Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str
    hashes: dict[str, str]  # by the file's name
    facts: dict[str, Any]


class CacheEntry(NamedTuple):
    """Cache entry: the folder of its files, and metadata."""

    folder: Path
    facts: dict[str, Any]


def find(key: str) -> CacheEntry | None:
    """Return the entry of `key`, or None if there is no valid one."""
    try:
        folder = compiled_folder(FOLDER) / _name(key)
        _check(folder, is_folder=True)
        entry = msgspec.json.decode(_read(folder / "entry.json"), type=_Entry)
        if entry.key != key:
            return None
        for name, expected in entry.hashes.items():
            if Path(name).name != name or blake2b(_read(folder / name), digest_size=16).hexdigest() != expected:
                log.warning("cached compiled code is damaged and is compiled again: %s", folder / name)
                return None
        os.utime(folder)
    except (OSError, RuntimeError, ValueError, msgspec.DecodeError):
        return None
    return CacheEntry(folder, entry.facts)


def store(key: str, files: Mapping[str, Path], facts: Mapping[str, Any]) -> CacheEntry | None:
    """Copy `files`, by their names in the entry, into the entry of `key`. Return None if nothing can be cached here."""
    new = None
    try:
        cache = compiled_folder(FOLDER)
        new = Path(tempfile.mkdtemp(prefix="new-", dir=cache))  # private to this user
        for name, source in files.items():
            shutil.copyfile(source, new / name)
            (new / name).chmod(0o600)
        hashes = {name: blake2b((new / name).read_bytes(), digest_size=16).hexdigest() for name in files}
        entry = _Entry(key=key, hashes=hashes, facts=dict(facts))
        (new / "entry.json").write_bytes(msgspec.json.encode(entry))
        (new / "entry.json").chmod(0o600)
        shutil.rmtree(cache / _name(key), ignore_errors=True)  # a damaged entry; processes that use it have it open
        with contextlib.suppress(OSError):  # another process was faster: its entry is equivalent
            new.rename(cache / _name(key))
        _evict_oldest(cache)
    except (OSError, RuntimeError) as error:
        log.info("compiled code is not cached: %s", " ".join(str(error).split()))
    finally:
        if new is not None:
            shutil.rmtree(new, ignore_errors=True)
    return find(key)


@contextlib.contextmanager
def entry_lock(key: str) -> Iterator[None]:
    """Hold the lock of a key's entry inside the `with`: other processes wait, and then find the entry. Without a cache
    folder or file locks there is no lock.
    """
    with contextlib.ExitStack() as cleanup:
        with contextlib.suppress(OSError, RuntimeError, ImportError):
            import fcntl  # not on Windows

            path = compiled_folder(FOLDER) / f"{_name(key)}.lock"
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            cleanup.callback(os.close, file)
            fcntl.flock(file, fcntl.LOCK_EX)
            cleanup.callback(path.unlink, missing_ok=True)  # waiters have it open, and later ones find the entry
        yield


def all_facts() -> Iterator[dict[str, Any]]:
    """Yield the facts of all entries for all machines. Their files are not checked, so this is only a hint."""
    for folder in all_compiled(FOLDER):
        for file in folder.glob("*/entry.json"):
            with contextlib.suppress(OSError, ValueError, msgspec.DecodeError):
                yield msgspec.json.decode(_read(file), type=_Entry).facts


def _name(key: str) -> str:
    return blake2b(key.encode(), digest_size=16).hexdigest()


def _check(path: Path, is_folder: bool) -> None:
    """Raise OSError unless the path is a plain file or folder that belongs to the user and others cannot write."""
    found = path.lstat()
    kind = stat.S_ISDIR if is_folder else stat.S_ISREG
    if not kind(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise OSError(f"{path} does not belong to this user alone")


def _read(path: Path) -> bytes:
    _check(path, is_folder=False)
    return path.read_bytes()


def _evict_oldest(cache: Path) -> None:
    entries = sorted((entry for entry in cache.iterdir() if entry.is_dir()), key=lambda entry: entry.stat().st_mtime)
    for entry in entries[:-MAX_ENTRIES]:
        shutil.rmtree(entry, ignore_errors=True)
