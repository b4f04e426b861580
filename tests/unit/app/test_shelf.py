"""Files named on the command line: unique ids, in the order of the command line."""

import shutil
from pathlib import Path

from app.cli.listening import _address
from app.ground.paths import static_dir
from app.ground.settings import ServerSettings
from app.recordings.library import open_library
from app.recordings.shelf import Shelf

SHIPPED = static_dir() / "recordings" / "prefix.kvtrace"


def copies(folder: Path, *names: str) -> list[Path]:
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SHIPPED, path)
    return paths


def test_files_of_the_same_name_are_prefixed_with_their_folders(tmp_path: Path) -> None:
    files = copies(tmp_path, "b/run.kvtrace", "a/run.kvtrace", "other.kvtrace")
    shelf = Shelf("file", [*files, files[0]])
    assert [entry.name for entry in shelf.entries()] == ["b/run", "a/run", "other"]
    assert [shelf.path(found) for found in shelf.ids] == files
    assert set(Shelf("file", reversed(files)).ids) == set(shelf.ids)  # ids do not depend on the order
    assert shelf.ids[2] == "rec-other"


def test_a_file_named_like_a_shipped_recording_does_not_hide_it(tmp_path: Path) -> None:
    files = copies(tmp_path, "prefix.kvtrace")
    library = open_library(ServerSettings(), files)
    ids = [entry.id for entry in library.entries()]
    assert len(ids) == len(set(ids)) and "rec-prefix" in ids
    first = library.first_given_file()
    assert first is not None and first != "rec-prefix"
    assert (library.path(first), library.path("rec-prefix")) == (files[0], SHIPPED)


def test_the_first_file_of_the_command_line_is_in_the_address(tmp_path: Path) -> None:
    files = copies(tmp_path, "z.kvtrace", "a.kvtrace")
    assert open_library(ServerSettings(), files).first_given_file() == "rec-z"
    assert open_library(ServerSettings()).first_given_file() is None
    view = {"recording": "rec-z"}
    assert _address(ServerSettings(), 8765, view) == "http://127.0.0.1:8765/?recording=rec-z"
    assert _address(ServerSettings(), 8765, {}) == "http://127.0.0.1:8765/"
    with_token = ServerSettings(host="10.0.0.1", token="t")
    assert _address(with_token, 1, view) == "http://10.0.0.1:1/?token=t&recording=rec-z"
