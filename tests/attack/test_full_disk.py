"""The server continues with a full temporary folder, and clients get one sentence with the remedy."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.server.conftest import Client
from tests.server.process import Process


@pytest.fixture
def errors(tmp_path: Path) -> Path:
    return tmp_path / "errors.txt"


@pytest.fixture
def server(tmp_path: Path, errors: Path) -> Iterator[Process]:
    """Start a server whose temporary folder is a file system of 256 KiB, 64 KiB of them occupied."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    ballast = f"head -c 65536 /dev/zero > '{temporary}/ballast'"
    mount = f"mount -t tmpfs -o size=256k none '{temporary}'"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a file system")
    within = ["unshare", "-rm", "sh", "-c", f'{mount} && {ballast} && exec "$@"', "sh"]
    server = Process(tmp_path / "data", within, errors, TMPDIR=str(temporary))
    yield server
    server.kill()


def advises(message: str) -> bool:
    return "No space left on device" in message and "free space in" in message and "TMPDIR" in message


def free_ballast(server: Process, tmp_path: Path) -> None:
    Path(f"/proc/{server.process.pid}/root{tmp_path}/tmp/ballast").unlink()


def test_a_log_an_engine_and_an_export_on_a_full_disk(server: Process, errors: Path, tmp_path: Path) -> None:
    viewer = Client(server.url)
    theater = viewer.do("create")["theater"]
    viewer.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 900})
    for _ in range(2):  # the log repeats the advice
        error = viewer.refused("step", theater=theater, count=900)
        assert error["code"] == "refused" and advises(error["message"]), (error, errors.read_text())
    status = viewer.do("pause", theater=theater)["status"]
    assert status["mode"] == "paused" and advises(status["error"]) and status["num_records"] > 10

    others = [viewer.ask("create") for _ in range(12)]  # some fit, since a new log has only a header
    refused = [other["error"] for other in others if not other["ok"]]
    assert refused and all(error["code"] == "refused" and advises(error["message"]) for error in refused)

    answer = requests.get(f"{server.url}/api/recordings")
    shipped = answer.json()["recordings"][0]["id"]
    answer = requests.get(f"{server.url}/api/recordings/{shipped}/export/csv")
    assert answer.status_code == 422 and advises(answer.json()["error"]["message"])
    assert advises(viewer.refused("reset", theater=theater)["message"])
    free_ballast(server, tmp_path)
    assert viewer.do("reset", theater=theater)["epoch"] == 1
    viewer.do("submit", theater=theater, prompts=[{"text": "abc"}])
    assert viewer.do("step", theater=theater)["performed"] == 1
    viewer.io.disconnect()
    assert "Traceback" not in errors.read_text()


def test_requests_of_the_api_without_room(server: Process, errors: Path, tmp_path: Path) -> None:
    """The request whose log ends may be sent again: the next one begins a new log in the room of the old one."""

    def ask(num_tokens: int) -> requests.Response:
        body = {"model": "fake", "prompt": "abc", "max_tokens": num_tokens}
        return requests.post(f"{server.url}/v1/completions", json=body, timeout=60)

    answers = [ask(20)]
    while answers[-1].ok and len(answers) < 100:
        answers.append(ask(20))
    assert len(answers) > 2
    for refused in (answers[-1], ask(900)):  # the log of one that is too long fills the disk again
        assert refused.status_code == 503 and "Retry-After" in refused.headers, errors.read_text()
        assert advises(refused.json()["error"]["message"])
        assert ask(20).ok
    assert ask(900).status_code == 503
    free_ballast(server, tmp_path)
    assert ask(20).ok
    lines = errors.read_text()
    assert lines.count("the log cannot be written") == 3 and "Traceback" not in lines
