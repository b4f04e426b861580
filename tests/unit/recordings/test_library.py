"""Library of recordings: lists, changes, deletions, and repairs at the start."""

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from app.ground.errors import AppError
from app.recordings.library import Library
from app.recordings.rows import INDEX_FILE
from app.recordings.shelf import Shelf, recording_id
from app.session.run import Run
from engine.trace.log import TraceReader
from tests.unit.recordings.conftest import steps

MakeTrace = Callable[[Path], Path]


def kinds(library: Library) -> list[str]:
    return [finding.kind for finding in library.findings]


def test_an_unused_library_creates_no_folder(folder: Path) -> None:
    library = Library(folder)
    assert library.entries() == [] and library.can_keep and not folder.exists()
    library.close()


def test_names_tags_and_notes_survive_a_restart(library: Library, folder: Path, run: Run) -> None:
    recorder = library.record(run, "moon", [])
    recorder.end("stopped")
    library.change(recorder.recording_id, name="月", tags=["poem", "诗"], notes="for the lecture")
    library.close()
    again = Library(folder)
    (entry,) = again.entries()
    assert (entry.name, entry.tags, entry.notes) == ("月", ["poem", "诗"], "for the lecture")
    assert entry.ended == "stopped" and again.findings == []
    again.close()


def test_a_recording_is_deleted_with_its_file_unless_it_is_being_recorded(
    library: Library, folder: Path, run: Run
) -> None:
    recorder = library.record(run, "moon", [])
    with pytest.raises(AppError, match="being recorded"):
        library.delete(recorder.recording_id)
    recorder.end("stopped")
    library.delete(recorder.recording_id)
    assert library.entries() == [] and not recorder.path.exists()
    with pytest.raises(AppError, match="there is no recording"):
        library.delete(recorder.recording_id)


def test_a_killed_servers_recording_is_repaired_up_to_the_last_complete_record(
    library: Library, folder: Path, run: Run, tmp_path: Path
) -> None:
    """A killed server leaves an entry that is being recorded, and a file that ends within a record."""
    recorder = library.record(run, "moon", [])
    steps(run, 2)
    size_before = recorder.path.stat().st_size
    killed = tmp_path / "killed"
    shutil.copytree(folder, killed)
    with (killed / recorder.path.name).open("ab") as file:
        file.write(b"\x02\xff\x00\x00\x00half")
    after = Library(killed)
    assert kinds(after) == ["interrupted"]
    message = "the server ended while it was recorded: 5 records kept, 9 bytes of an unfinished one removed"
    assert after.findings[0].message == f"“moon”: {message}"
    (entry,) = after.entries()
    assert (entry.ended, entry.ended_detail, entry.recording) == ("interrupted", message, False)
    assert (killed / recorder.path.name).stat().st_size == size_before
    after.close()
    assert kinds(Library(killed)) == []


def test_a_record_with_truncated_arrays_is_removed(library: Library, folder: Path, run: Run) -> None:
    """Lacking its announced capture, a validator would reject the last record."""
    recorder = library.record(run, "moon", [])
    with TraceReader(recorder.path) as reader:
        capture = reader._captures[2]
        record = reader._records[2]
    killed = folder.with_name("killed")
    shutil.copytree(folder, killed)
    with (killed / recorder.path.name).open("r+b") as file:
        file.truncate(capture.offset + 20)
    after = Library(killed)
    assert after.entries()[0].summary.num_records == 2
    assert (killed / recorder.path.name).stat().st_size == record.offset - 9
    after.close()


def test_recordings_of_other_servers_are_untouched(library: Library, folder: Path, run: Run) -> None:
    recorder = library.record(run, "moon", [])
    other = Library(folder)  # the recorder holds the lock
    assert other.findings == []
    (entry,) = other.entries()
    assert entry.recording and entry.summary.num_records == 3
    steps(run, 1)
    assert other.entries()[0].summary.num_records == 4
    other.close()
    assert recorder.ended is None


def test_unknown_traces_are_added_and_other_files_are_left(folder: Path, make_trace: MakeTrace) -> None:
    make_trace(folder / "Vorlesung 3.kvtrace")
    (folder / "letter.kvtrace").write_text("dear library")
    library = Library(folder)
    assert sorted(kinds(library)) == ["adopted", "not_a_trace"]
    (entry,) = library.entries()
    assert entry.name == "Vorlesung 3" and entry.id == recording_id("Vorlesung 3") and entry.summary.num_records == 6
    library.close()
    assert kinds(Library(folder)) == ["not_a_trace"]
    assert (folder / "letter.kvtrace").read_text() == "dear library"


def test_the_data_of_a_missing_file_is_kept_until_it_returns(
    folder: Path, make_trace: MakeTrace, tmp_path: Path
) -> None:
    path = make_trace(folder / "a.kvtrace")
    library = Library(folder)
    library.change("rec-a", notes="mine")
    library.close()
    path.rename(tmp_path / "away")
    without = Library(folder)
    assert kinds(without) == ["missing"] and without.entries() == []
    with pytest.raises(AppError):
        without.open("rec-a")
    without.close()
    (tmp_path / "away").rename(path)
    again = Library(folder)
    assert again.findings == [] and again.entries()[0].notes == "mine"
    again.close()


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 4096])
def test_a_damaged_index_is_moved_aside_and_rebuilt(folder: Path, make_trace: MakeTrace, content: bytes) -> None:
    make_trace(folder / "a.kvtrace")
    Library(folder).close()
    (folder / INDEX_FILE).write_bytes(content)
    library = Library(folder)
    assert kinds(library) == ["index_rebuilt", "adopted"] and len(library.entries()) == 1
    (aside,) = folder.glob(f"{INDEX_FILE}.damaged-*")
    assert aside.read_bytes() == content
    library.close()


def test_damaged_indexes_of_the_same_second_get_different_names(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.recordings.repair.time.strftime", lambda _: "20260101-000000")
    for content in (b"no database at all" * 100, b"none either" * 200, b"nor this" * 300):
        folder.mkdir(exist_ok=True)
        (folder / INDEX_FILE).write_bytes(content)
        Library(folder).close()
    contents = {
        path.name.removeprefix(INDEX_FILE): path.read_bytes()[:8] for path in folder.glob(f"{INDEX_FILE}.damaged-*")
    }
    assert contents == {
        ".damaged-20260101-000000": b"no datab",
        ".damaged-20260101-000000-2": b"none eit",
        ".damaged-20260101-000000-3": b"nor this",
    }


def test_a_file_that_was_damaged_after_indexing_is_found(folder: Path, make_trace: MakeTrace) -> None:
    path = make_trace(folder / "a.kvtrace")
    Library(folder).close()
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    library = Library(folder)
    assert kinds(library) == ["damaged"]
    damage = library.entries()[0].summary.damage
    assert damage is not None and "fails its checksum" in damage
    with library.open("rec-a") as reader:  # earlier records are readable
        assert reader.record(len(reader) - 1).index == len(reader) - 1
    library.close()


def test_abandoned_uploads_are_removed_unless_they_are_being_written(folder: Path, make_trace: MakeTrace) -> None:
    make_trace(folder / "a.kvtrace")
    Library(folder).close()
    abandoned, writing = folder / "x.part", folder / "y.part"
    abandoned.write_bytes(b"half")
    with writing.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        library = Library(folder)
    assert kinds(library) == ["upload_removed"] and not abandoned.exists() and writing.exists()
    library.close()


def test_read_only_recordings_cannot_be_changed(folder: Path, tmp_path: Path, make_trace: MakeTrace) -> None:
    path = make_trace(tmp_path / "shown" / "tour.kvtrace")
    path.with_suffix(".json").write_text(
        '{"title": {"en": "A tour", "zh": "导览"}, "text": {"en": "x", "zh": "y"}, "command": "kvtheater generate x"}'
    )
    bad = tmp_path / "shown" / "bad.kvtrace"
    bad.write_bytes(b"no")
    library = Library(folder, [Shelf("shipped", [path, bad])])
    (entry,) = library.entries()
    assert (entry.id, entry.source, entry.name) == ("rec-tour", "shipped", "A tour")
    assert entry.title is not None and entry.title["zh"] == "导览" and entry.command == "kvtheater generate x"
    for change in (lambda: library.delete("rec-tour"), lambda: library.change("rec-tour", name="z")):
        with pytest.raises(AppError, match="not stored on this server"):
            change()
    with library.open("rec-tour") as reader:
        assert len(reader) == 6
