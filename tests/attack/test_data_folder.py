"""Faults of the data folder under a running server are reported, survived, and healed once the cause is gone."""

import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from msgspec.structs import replace

from app.recordings import index
from app.recordings.rows import INDEX_FILE
from engine.trace.log import TraceReader, TraceWriter
from tests.server.conftest import Client, Server, wait_for

Fault = Callable[[Path], None]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the timeout of locks and the interval of checks after a fault."""
    monkeypatch.setattr(index, "LOCK_SECONDS", 0.1)
    monkeypatch.setattr("app.recordings.rows.RETRY_SECONDS", 0.0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def folder(data: Path) -> Path:
    return data / "recordings"


@pytest.fixture
def server(make_server: Callable[..., Server], data: Path) -> Server:
    return make_server(data_dir=data)


def listed(server: Server) -> dict[str, Any]:
    answer = requests.get(f"{server.url}/api/recordings", timeout=20)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def own(server: Server) -> list[dict[str, Any]]:
    return [r for r in listed(server)["recordings"] if r["source"] == "library"]


def sentences(server: Server) -> str:
    return " | ".join(f["message"] for f in listed(server)["findings"])


def recorded(client: Client, name: str, tags: list[str]) -> str:
    """A finished recording of four records."""
    theater = client.do("create")["theater"]
    recording = client.do("record", theater=theater, name=name, tags=tags)["status"]["recording"]["id"]
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 3})
    client.do("step", theater=theater, count=3)
    client.do("record_stop", theater=theater)
    return str(recording)


def file_of(folder: Path) -> Path:
    (path,) = folder.glob("*.kvtrace")
    return path


@pytest.fixture
def locked(folder: Path) -> Iterator[Callable[[], sqlite3.Connection]]:
    """Yield a function that locks the index as another program would; closing the returned connection unlocks it."""
    connections: list[sqlite3.Connection] = []

    def lock() -> sqlite3.Connection:
        connection = sqlite3.connect(folder / INDEX_FILE, isolation_level=None)
        connection.execute("begin exclusive")
        connections.append(connection)
        return connection

    yield lock
    for connection in connections:
        connection.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the file system takes such names on Linux only")
def test_an_undecodable_name_does_not_prevent_the_start(make_server, data, folder, client):
    source = Path(os.fsdecode(bytes(folder) + b"/\xff\xfe run.kvtrace"))
    folder.mkdir(parents=True, exist_ok=True)
    theater = client.do("create")["theater"]
    client.do("submit", theater=theater, prompts=[{"text": "abc"}])
    source.write_bytes(requests.get(f"{client.io.connection_url}/api/theaters/{theater}/trace").content)
    Path(os.fsdecode(bytes(folder) + b"/\xff.kvtrace")).write_bytes(b"no trace")
    Path(os.fsdecode(bytes(folder) + b"/\xff.part")).write_bytes(b"half")
    for start in range(2):
        server = make_server(data_dir=data)
        (entry,) = own(server)
        assert ("run" in entry["name"] and "�" in entry["name"]) or start
        assert "not a .kvtrace file" in sentences(server)
        assert server.client().do("join", theater=entry["id"])["num_records"] == 1
        changed = requests.patch(f"{server.url}/api/recordings/{entry['id']}", json={"name": "mine", "tags": ["a"]})
        assert changed.ok
        assert own(server)[0]["tags"] == ["a"] and source.exists()
        server.theaters.close()


def test_a_locked_index_is_read_from_memory_and_heals(server, client, folder, locked):
    first = recorded(client, "first", ["kept"])
    theater = client.do("create")["theater"]
    client.do("record", theater=theater, name="second", tags=["too"])
    client.do("submit", theater=theater, prompts=[{"text": "abc"}])
    lock = locked()
    assert {r["name"]: r["tags"] for r in own(server)} == {"first": ["kept"], "second": ["too"]}
    assert "the index of the recordings cannot be used" in sentences(server)
    assert requests.get(f"{server.url}/api/recordings/{first}/trace").ok
    assert server.client().do("join", theater=first)["num_records"] == 4
    refused = requests.patch(f"{server.url}/api/recordings/{first}", json={"tags": ["x"]})
    assert refused.status_code == 422 and "locked" in refused.json()["error"]["message"]
    client.do("record_stop", theater=theater)
    assert {r["name"]: r["ended"] for r in own(server)} == {"first": "stopped", "second": "stopped"}
    lock.close()
    assert {r["name"]: r["ended"] for r in own(server)} == {"first": "stopped", "second": "stopped"}
    assert "cannot be used" not in sentences(server)
    with sqlite3.connect(folder / INDEX_FILE) as database:
        assert set(database.execute("select name, ended from recordings")) == {
            ("first", "stopped"),
            ("second", "stopped"),
        }


def test_an_index_that_is_locked_at_start_is_used_when_it_is_free(make_server, data, server, client, locked):
    recorded(client, "first", ["kept"])
    server.theaters.close()
    lock = locked()
    again = make_server(data_dir=data)
    found = listed(again)["recordings"]
    assert found and all(r["source"] == "shipped" for r in found)
    assert "locked" in sentences(again)
    lock.close()
    assert [r["tags"] for r in own(again)] == [["kept"]] and not sentences(again)


def overwritten(path: Path) -> None:
    path.write_bytes(b"something else" * 500)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def without_its_table(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("drop table recordings")


def with_another_table(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("drop table recordings")
        database.execute("create table recordings (x text)")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "fault", [overwritten, emptied, Path.unlink, without_its_table, with_another_table], ids=lambda f: f.__name__
)
def test_a_deleted_index_is_rebuilt_while_serving(make_server, data, server, client, folder, fault: Fault):
    recorded(client, "first", ["kept"])
    theater = client.do("create")["theater"]
    client.do("record", theater=theater, name="second", tags=["too"])
    assert len(own(server)) == 2
    fault(folder / INDEX_FILE)
    expected = {"first": ["kept"], "second": ["too"]}
    assert {r["name"]: r["tags"] for r in own(server)} == expected
    client.do("record_stop", theater=theater)
    assert {r["name"]: r["ended"] for r in own(server)} == {"first": "stopped", "second": "stopped"}
    assert "index" in sentences(server)
    recorded(client, "third", [])
    server.theaters.close()
    again = make_server(data_dir=data)
    assert {r["name"]: r["tags"] for r in own(again)} == {**expected, "third": []}


def test_a_foreign_file_at_the_index_is_reported_and_recovered_from(server, client, folder):
    recorded(client, "first", ["kept"])
    a_folder(folder / INDEX_FILE)
    assert [r["tags"] for r in own(server)] == [["kept"]]
    assert "the index of the recordings cannot be used" in sentences(server)
    (folder / INDEX_FILE).rmdir()
    assert [r["tags"] for r in own(server)] == [["kept"]]
    assert "cannot be used" not in sentences(server)


def test_an_invalid_clock_keeps_the_tags(make_server, data, server, client, folder):
    recording = recorded(client, "first", ["kept"])
    path = file_of(folder)
    with TraceReader(path) as reader:
        header, records = reader.header, [reader.record(i) for i in range(len(reader))]
    path.unlink()
    with TraceWriter(header, path) as writer:
        for record in records:
            timing = replace(record.timing, at=float("nan"))
            writer.append(replace(record, timing=timing, has_capture=False))
    for one in (server, make_server(data_dir=data)):
        (entry,) = own(one)
        assert (entry["id"], entry["name"], entry["tags"]) == (recording, "first", ["kept"])
        assert entry["summary"]["duration"] == 0 and "timing.at" in entry["summary"]["damage"]


def test_a_vanished_folder_affects_nothing_else(server, client, folder, tmp_path):
    first = recorded(client, "first", ["kept"])
    theater = client.do("create")["theater"]
    client.do("record", theater=theater, name="second")
    client.do("submit", theater=theater, prompts=[{"text": "abc"}])
    own(server)
    folder.rename(tmp_path / "away")
    shipped = [r["id"] for r in listed(server)["recordings"]]
    assert shipped and all(r["source"] == "shipped" for r in listed(server)["recordings"])
    assert "the folder of the recordings is gone" in sentences(server)
    assert server.client().do("join", theater=shipped[0])["num_records"] > 0
    assert client.refused("join", theater=first)["code"] == "not_found"
    client.do("reset", theater=theater)  # ends the recording of the session
    (tmp_path / "away").rename(folder)
    assert {r["name"]: (r["tags"], r["ended"]) for r in own(server)} == {
        "first": (["kept"], "stopped"),
        "second": ([], "reset"),
    }
    assert "is gone" not in sentences(server)


def test_a_deleted_folder_is_created_again(server, client, folder):
    recorded(client, "first", ["kept"])
    shutil.rmtree(folder)
    assert not own(server)
    recorded(client, "second", [])
    assert [r["name"] for r in own(server)] == ["second"]
    assert "“first” is gone" in sentences(server)


def test_a_file_that_no_reader_foresaw_is_left_alone(make_server, data, server, client, monkeypatch):
    recorded(client, "first", [])
    server.theaters.close()

    def fails(_: object) -> None:
        raise ZeroDivisionError("nobody thought of this")

    monkeypatch.setattr("app.recordings.repair.summarize", fails)
    shutil.copy(file_of(data / "recordings"), data / "recordings" / "other.kvtrace")
    again = make_server(data_dir=data)
    wait_for(lambda: "other.kvtrace was ignored: nobody thought of this" in sentences(again))
    assert [r["name"] for r in own(again)] == ["first"]
