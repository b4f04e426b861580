"""Cache of compiled code for the next start: entries of files in a private folder of the user.

    compiled/<hash of the key>/    entry.json: key, hash of every file, facts      the files

An entry is used only if its key is exactly this one, its files belong to the user, and their hashes match. Any fault
counts as a missing entry, and the code is compiled again. An entry is written under another name and then renamed, so
that no process finds an incomplete one. Nothing in it is pickled.
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
MOST = 48  # entries; the least recently used ones are evicted


class _Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str
    hashes: dict[str, str]  # by the file's name
    facts: dict[str, Any]


class CacheEntry(NamedTuple):
    """Cache entry: the folder of its files, and its facts."""

    folder: Path
    facts: dict[str, Any]


def find(key: str) -> CacheEntry | None:
    """Return the entry of that key, or None if there is no valid one."""
    try:
        folder = compiled_folder(FOLDER) / _name(key)
        _check(folder, is_folder=True)
        entry = msgspec.json.decode(_read(folder / "entry.json"), type=_Entry)
        if entry.key != key:
            return None
        for name, expected in entry.hashes.items():
            if Path(name).name != name or blake2b(_read(folder / name), digest_size=16).hexdigest() != expected:
                log.warning("what was compiled before is damaged and is compiled again: %s", folder / name)
                return None
        os.utime(folder)
    except (OSError, RuntimeError, ValueError, msgspec.DecodeError):
        return None
    return CacheEntry(folder, entry.facts)


def keep(key: str, files: Mapping[str, Path], facts: Mapping[str, Any]) -> CacheEntry | None:
    """Copy files, given by their names in the entry, into an entry of that key; None if nothing can be cached here."""
    made = None
    try:
        place = compiled_folder(FOLDER)
        made = Path(tempfile.mkdtemp(prefix="new-", dir=place))  # private to this user
        for name, source in files.items():
            shutil.copyfile(source, made / name)
            (made / name).chmod(0o600)
        hashes = {name: blake2b((made / name).read_bytes(), digest_size=16).hexdigest() for name in files}
        entry = _Entry(key=key, hashes=hashes, facts=dict(facts))
        (made / "entry.json").write_bytes(msgspec.json.encode(entry))
        (made / "entry.json").chmod(0o600)
        shutil.rmtree(place / _name(key), ignore_errors=True)  # a damaged one, whose readers keep their open files
        with contextlib.suppress(OSError):  # another process was first: its entry is equivalent
            made.rename(place / _name(key))
        _forget_oldest(place)
    except (OSError, RuntimeError) as error:
        log.info("nothing compiled is kept: %s", " ".join(str(error).split()))
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
    return find(key)


@contextlib.contextmanager
def making(key: str) -> Iterator[None]:
    """Hold the lock of a key's entry inside the `with`: other processes wait, and then find the entry. Without a cache
    folder or file locks there is no lock.
    """
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError, RuntimeError, ImportError):
            import fcntl  # not on Windows

            path = compiled_folder(FOLDER) / f"{_name(key)}.lock"
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            held.callback(os.close, file)
            fcntl.flock(file, fcntl.LOCK_EX)
            held.callback(path.unlink, missing_ok=True)  # waiters have it open, and later ones find the entry
        yield


def facts_of_all() -> Iterator[dict[str, Any]]:
    """Yield the facts of each entry, for any machine; a hint, since no entry is checked."""
    for folder in all_compiled(FOLDER):
        for file in folder.glob("*/entry.json"):
            with contextlib.suppress(OSError, ValueError, msgspec.DecodeError):
                yield msgspec.json.decode(_read(file), type=_Entry).facts


def _name(key: str) -> str:
    return blake2b(key.encode(), digest_size=16).hexdigest()


def _check(path: Path, is_folder: bool) -> None:
    """Raise OSError unless the path is the user's own, not writable by others, and a plain file or folder."""
    found = path.lstat()
    kind = stat.S_ISDIR if is_folder else stat.S_ISREG
    if not kind(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise OSError(f"{path} is not this user's alone")


def _read(path: Path) -> bytes:
    _check(path, is_folder=False)
    return path.read_bytes()


def _forget_oldest(place: Path) -> None:
    entries = sorted((one for one in place.iterdir() if one.is_dir()), key=lambda one: one.stat().st_mtime)
    for one in entries[:-MOST]:
        shutil.rmtree(one, ignore_errors=True)
