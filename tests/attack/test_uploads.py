"""Guests' uploads are bounded on the server's disk, and hostile files are bounded in every list."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from msgspec.structs import replace

from app.ground.errors import AppError
from app.ground.settings import MIB
from app.recordings.quota import Quota
from app.session.messages import SubmittedPrompt
from engine.config import EngineConfig, SamplingParams
from engine.trace import codec
from engine.trace.codec import MAX_HEADER, TraceFormatError
from engine.trace.log import TraceReader, TraceWriter
from engine.trace.records import Header
from tests.server.conftest import Server
from tests.server.fake import FakeModel


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a sound trace of one record."""
    path = tmp_path_factory.mktemp("trace") / "a.kvtrace"
    engine = FakeModel().build(EngineConfig(block_size=4, num_blocks=16), path)
    engine.submit([SubmittedPrompt(text="abc")], SamplingParams(max_tokens=5))
    engine.close()
    return path.read_bytes()


def header_of(trace: bytes, path: Path) -> Header:
    path.write_bytes(trace)
    with TraceReader(path) as reader:
        return reader.header


def upload(server: Server, content: bytes, name: str = "a") -> requests.Response:
    return requests.post(f"{server.url}/api/recordings", params={"name": name}, data=content, timeout=60)


def own(server: Server) -> list[dict[str, Any]]:
    listed = requests.get(f"{server.url}/api/recordings", timeout=60).json()["recordings"]
    return [r for r in listed if r["source"] == "library"]


def test_the_number_of_recordings_is_limited(make_server: Callable[..., Server], tmp_path: Path, trace: bytes) -> None:
    server = make_server(data_dir=tmp_path, max_recordings=3)
    client = server.client()
    kept = [upload(server, trace).json()["id"] for _ in range(3)]
    refused = upload(server, trace)
    assert refused.status_code == 422 and "--max-recordings" in refused.json()["error"]["message"]
    theater = client.do("create")["theater"]
    assert "3 recordings" in client.refused("record", theater=theater)["message"]
    assert len(own(server)) == 3 and len(list((tmp_path / "recordings").iterdir())) == 4  # the index too
    assert requests.delete(f"{server.url}/api/recordings/{kept[0]}").ok
    assert upload(server, trace).status_code == 201


def test_the_bytes_of_recordings_are_limited(make_server: Callable[..., Server], tmp_path: Path, trace: bytes) -> None:
    """The limit is two and a half uploads: two are stored, and the remaining half accepts a recording that fits."""
    server = make_server(data_dir=tmp_path, max_library_bytes=len(trace) * 5 // 2)
    assert [upload(server, trace).status_code for _ in range(4)] == [201, 201, 422, 422]
    message = upload(server, trace).json()["error"]["message"]
    assert "--max-library-mib" in message and "delete some" in message
    assert sum(path.stat().st_size for path in (tmp_path / "recordings").glob("*.kvtrace")) == 2 * len(trace)


def test_simultaneous_uploads_do_not_share_the_last_slot(
    make_server: Callable[..., Server], tmp_path: Path, trace: bytes
) -> None:
    server = make_server(data_dir=tmp_path, max_recordings=4)
    with ThreadPoolExecutor(12) as pool:
        statuses = list(pool.map(lambda _: upload(server, trace).status_code, range(12)))
    assert sorted(statuses) == [201] * 4 + [422] * 8


def test_a_file_that_was_just_renamed_is_one_file(tmp_path: Path) -> None:
    """An upload that is renamed and still claimed counts once: two places for two files of 10 bytes, and no
    byte more.
    """
    room = Quota(tmp_path, max_files=2, max_bytes=20)
    with room.claimed("rec-1.part", 10):
        (tmp_path / "rec-1.kvtrace").write_bytes(bytes(10))
        with room.claimed("rec-2.part", 10):
            (tmp_path / "rec-2.kvtrace").write_bytes(bytes(10))
            with pytest.raises(AppError, match="at most 2 recordings"):
                room.claim("rec-3.part", 0)


def test_a_failed_upload_frees_its_space(make_server: Callable[..., Server], tmp_path: Path, trace: bytes) -> None:
    server = make_server(data_dir=tmp_path, max_recordings=1, max_library_bytes=len(trace))
    for _ in range(3):
        assert upload(server, b"x" * len(trace)).status_code == 400
    assert upload(server, trace).status_code == 201


def test_a_recording_ends_at_the_size_limit_and_the_run_continues(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = make_server(data_dir=tmp_path, max_library_bytes=20_000)
    client = server.client()
    theater = client.do("create")["theater"]
    client.do("record", theater=theater)
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 500})
    count = client.do("step", theater=theater, count=60)["num_records"]
    assert count == 61
    (entry,) = own(server)
    assert entry["ended"] == "write_failed" and "--max-library-mib" in entry["ended_detail"]
    assert 0 < entry["summary"]["num_records"] < 61 and entry["summary"]["num_bytes"] <= 20_000
    assert entry["summary"]["damage"] is None


def test_a_header_of_long_texts_is_not_sent_with_every_list(
    make_server: Callable[..., Server], tmp_path: Path, trace: bytes
) -> None:
    """Each text of the header has 100,000 characters, and the list entry stays under 8 KiB."""
    header = header_of(trace, tmp_path / "a")
    long = "x" * 100_000
    hostile = replace(
        header,
        generator=long,
        created=long,
        model=replace(header.model, name=long),
        engine={**header.engine, "strategy": long, long: 1, "much": 2**60, **{f"s{i}": i for i in range(9999)}},
    )
    path = tmp_path / "b"
    TraceWriter(hostile, path).close()
    server = make_server(data_dir=tmp_path / "data")
    answer = upload(server, path.read_bytes())
    assert answer.status_code == 201, answer.text
    assert len(answer.content) < 8192
    (entry,) = own(server)
    config = entry["summary"]["config"]
    assert config["block_size"] == 4 and not {"strategy", "much"} & config.keys() and len(config) == 64
    assert entry["summary"]["generator"].endswith("…")


def test_a_header_has_a_bound(make_server: Callable[..., Server], tmp_path: Path, trace: bytes) -> None:
    header = header_of(trace, tmp_path / "a")
    huge = replace(header, generator="x" * (20 * MIB))
    with pytest.raises(TraceFormatError, match="header"):
        TraceWriter(huge, tmp_path / "b")
    payload = codec.encode(replace(header, generator="x" * MAX_HEADER))
    head = bytes([1]) + len(payload).to_bytes(4, "little") + b"\0" * 4
    server = make_server(data_dir=tmp_path / "data")
    answer = upload(server, codec.MAGIC + head + payload)
    assert answer.status_code == 400 and "header" in answer.json()["error"]["message"]
