"""The port answers before the model is loaded: answers until then, and both outcomes of loading."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from app.ground.errors import RETRY_AFTER, sentence_of
from app.ground.settings import ServerSettings
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.server.application import create_app
from app.server.events import EVENTS
from app.server.lesson_events import LESSON_EVENTS
from app.server.listener import Listener, bind
from engine.config import EngineConfig
from engine.model.errors import ModelError
from engine.model.loading_stages import IN_WORDS, LOADING_STAGES
from engine.options.refusal import sentence
from tests.conftest import ROOT
from tests.server.conftest import Client, wait_for
from tests.server.fake import FakeModel

NEEDS_MODEL: dict[str, dict[str, Any]] = {
    "create": {},
    "tokenize": {"text": "x"},
    "lesson_open": {"lesson": "not-yet", "language": "en"},
    "fork": {"theater": "rec-moon", "at": 2, "change": {"kind": "token", "seq_id": 0, "token_id": 1}},
}
NEEDS_RUN: dict[str, dict[str, Any]] = {
    "submit": {"prompts": [{"text": "x"}]},
    "step": {},
    "prefill": {},
    "run": {"speed": 1},
    "pause": {},
    "abort": {"request_id": "a"},
    "record": {},
    "record_stop": {},
    "reset": {},
    "configure": {"config": {}},
    "join": {},
    "focus": {"layers": [0], "heads": None},
    "recompute": {"seq_id": 0, "layer": 0},
    "projection": {"layer": 0, "part": "q", "head": 0},
    "lesson_look": {"language": "en"},
    "lesson_go": {"item": 0},
    "lesson_answer": {"item": 0, "given": 0},
    "leave": {},
    "read": {"from": 0, "to": 1},
}
NEEDS_NEITHER = {"bench_follow", "bench_run", "bench_stop", "lesson_retell"}


class StatusViewer(Client):
    """Viewer that stores the model's status messages."""

    def __init__(self, url: str) -> None:
        self.models: list[dict[str, Any]] = []
        super().__init__(url)

    def _listen(self) -> None:
        super()._listen()
        self.io.on("model", self.models.append)


class Early:
    """Server whose model is loading until the test says otherwise."""

    def __init__(self) -> None:
        self.served = ModelEntry.loading("held")
        settings = ServerSettings(config=EngineConfig(block_size=4, num_blocks=64))
        self.app = create_app(Models(self.served, [ModelEntry.unloaded("bundled", "at_hand")]), settings)
        self.listener = Listener(self.app, bind("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.port}"
        self.viewer = StatusViewer(self.url)
        wait_for(lambda: self.viewer.models, "the greeting")

    def get(self, address: str) -> requests.Response:
        return requests.get(self.url + address, timeout=20)

    def close(self) -> None:
        self.viewer.io.disconnect()
        self.listener.close()


@pytest.fixture
def early() -> Iterator[Early]:
    server = Early()
    yield server
    server.close()


def test_pages_without_a_model_answer_during_loading(early: Early) -> None:
    for address in ("/", "/bench", "/static/js/main.js", "/words/zh.json", "/api/recordings", "/api/theaters"):
        assert early.get(address).status_code == 200, address
    assert early.get("/api/bench").json()["can_run"] is True
    assert early.viewer.do("join", theater="rec-moon")["num_records"] > 5
    assert early.get("/api/theaters/rec-moon/records/1?format=json").json()["index"] == 1


def test_the_page_of_scale_asks_again_until_this_machine_can_be_chosen(early: Early) -> None:
    first = early.get("/api/scale/roofline").json()
    assert first["is_loading"] and "here" not in [one["id"] for one in first["models"]]
    early.served.set_model(FakeModel())
    then = early.get("/api/scale/roofline").json()
    assert not then["is_loading"] and then["models"][0]["id"] == "here"


def test_requests_that_need_a_model_get_retry_after(early: Early) -> None:
    health = early.get("/api/health").json()
    assert health["ok"] is True and health["model"]["state"] == "loading" and health["model"]["stage"] is None
    early.served.set_stage("weights")
    for address in ("/api/model", "/api/machine"):
        answer = early.get(address)
        assert answer.status_code == 503 and answer.headers["Retry-After"] == str(RETRY_AFTER), address
        error = answer.json()["error"]
        assert error["code"] == "loading"
        assert error["message"] == "the model held is not loaded yet (reading its weights); retry in a moment"


def test_every_event_is_answered_before_there_is_a_model(early: Early) -> None:
    assert {*EVENTS, *LESSON_EVENTS} == {*NEEDS_MODEL, *NEEDS_RUN, *NEEDS_NEITHER}
    for event, fields in NEEDS_MODEL.items():
        assert early.viewer.refused(event, **fields)["code"] == "loading", event
    for event, fields in NEEDS_RUN.items():
        assert early.viewer.refused(event, theater="t", **fields)["code"] == "unknown_theater", event
    assert early.viewer.do("bench_follow")["status"]["state"] == "idle"


def test_connected_clients_get_each_loading_stage_in_order(early: Early) -> None:
    for stage in LOADING_STAGES:
        early.served.set_stage(stage)
    early.served.set_model(FakeModel())
    early.served.set_compiled("under_way")
    early.served.set_compiled("failed", "there is no compiler")
    sent = early.viewer.models
    wait_for(lambda: len(sent) == 1 + len(LOADING_STAGES) + 3, "everything")
    assert [m["stage"] for m in sent] == [None, *LOADING_STAGES, None, None, None]
    assert [m["state"] for m in sent] == ["loading"] * (1 + len(LOADING_STAGES)) + ["ready"] * 3
    assert [m["compiled"] for m in sent[-3:]] == ["off", "under_way", "failed"]
    assert {m["name"] for m in sent[:-3]} == {"held"} and sent[-1]["name"] == "fake"  # as the header will have it
    assert sent[-1]["error"] == "there is no compiler" and sent[-1]["stages"] == list(LOADING_STAGES)
    assert sent[0]["seconds"] <= sent[-2]["seconds"] == sent[-1]["seconds"]
    facts = early.get("/api/model").json()
    assert facts["live"] is True and facts["model"]["name"] == "fake"
    theater = early.viewer.do("create")["theater"]
    early.viewer.do("submit", theater=theater, prompts=[{"text": "abc"}])
    assert early.viewer.do("step", theater=theater)["num_records"] == 2


def test_late_clients_get_the_current_loading_stage(early: Early) -> None:
    early.served.set_model(FakeModel())
    late = StatusViewer(early.url)
    wait_for(lambda: late.models)
    assert late.models[0]["state"] == "ready"
    late.io.disconnect()


def test_a_model_that_cannot_be_opened_is_refused_permanently(early: Early) -> None:
    early.served.set_stage("weights")
    early.served.set_failed(sentence_of(ModelError(sentence("gguf.empty", path="held.gguf"))))
    text = "the model held cannot be opened: held.gguf has no weights"
    refused = early.viewer.refused("create")
    assert (refused["code"], refused["message"]) == ("refused", text)
    assert refused["said"]["zh"].endswith("held.gguf 中没有权重")
    answer = early.get("/api/model")
    assert answer.status_code == 422 and "Retry-After" not in answer.headers
    assert answer.json()["error"]["message"] == text
    wait_for(lambda: early.viewer.models[-1]["state"] == "failed")
    assert early.viewer.models[-1]["said"] == {"zh": "held.gguf 中没有权重"}
    assert early.viewer.models[-1]["stage"] == "weights"  # at which it failed


def test_a_server_of_recordings_loads_no_model() -> None:
    served = ModelEntry(None)
    assert served.status()["state"] == "none" and not served.is_live and served.facts is None


def test_the_options_table_is_completed_by_the_model(early: Early) -> None:
    """A page opened before gets the same table, with the model's facts."""
    model = FakeModel()
    model.facts = type(model.facts)(**{**_fields(model.facts), "max_position": 4096})

    def initial(rows: list[dict[str, Any]]) -> dict[str, Any]:
        return {row["name"]: row["control"].get("initial") for row in rows if row.get("control")}

    def in_page() -> dict[str, Any]:
        found = re.search(r'id="options">(.*?)</script>', early.get("/").text)
        assert found
        return initial(requests.compat.json.loads(found[1])["engine"])  # type: ignore[attr-defined]

    assert in_page()["num_blocks"] == 64
    before = in_page()["block_size"]
    early.served.set_model(model)
    assert in_page() == initial(early.get("/api/model").json()["options"]["tables"]["engine"])
    assert (before, in_page()["num_blocks"]) == (4, 64)  # as the server was started


def _fields(struct: Any) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


# The whole command, in a process of its own. The model opener is replaced by a controllable one.

COMMAND = """
import sys, types
from app.cli import main
from tests.server.fake import FakeModel

class Opened(FakeModel):
    is_compiling = False
    stored = only_eager = dropped = ""
    def check(self, config):
        if config.num_blocks == 7:
            raise ValueError("num_blocks 7 is none of the numbers that work")
    def compared(self):
        return "equal to itself"
    def compile_in_background(self, ended):
        ended("")

def load(name, dtype, device, settings, on_progress, tiers=None, workers_of=None):
    on_progress("weights")
    what, _, why = sys.stdin.readline().strip().partition(" ")
    if what == "ready":
        return Opened()
    raise {"fail": ValueError, "break": RuntimeError}[what](why)

live_model = types.ModuleType("app.models.live_model")
live_model.load = load
sys.modules["app.models.live_model"] = live_model
raise SystemExit(main(["serve", "--port", "0", *sys.argv[1:]]))
"""


class Command:
    """`kvtheater serve` up to the line with its address; `say` controls the loading of its model."""

    def __init__(self, *options: str) -> None:
        pipes: dict[str, Any] = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        self.process = subprocess.Popen([sys.executable, "-c", COMMAND, *options], cwd=ROOT, text=True, **pipes)
        self.first = self.process.stdout.readline()  # type: ignore[union-attr]
        found = re.search(r"http://\S+/", self.first)
        assert found, self.process.communicate()
        self.address = found.group()

    def say(self, what: str) -> None:
        self.process.stdin.write(what + "\n")  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]

    def end(self) -> tuple[int, list[str], list[str]]:
        """Return the exit status, and the lines that were written after the address."""
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out.splitlines(), err.splitlines()


@pytest.fixture
def command() -> Iterator[Callable[..., Command]]:
    started: list[Command] = []

    def start(*options: str) -> Command:
        started.append(Command(*options))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()


@pytest.mark.slow
def test_the_address_is_printed_and_answers_during_loading(command: Callable[..., Command]) -> None:
    serve = command()
    assert re.fullmatch(r"bundled, being opened: http://127\.0\.0\.1:\d+/\n", serve.first)
    wait_for(lambda: state(serve.address)["stage"] == "weights")
    assert requests.get(serve.address).ok
    serve.say("ready")
    wait_for(lambda: state(serve.address)["compiled"] == "done")
    serve.process.send_signal(signal.SIGINT)
    status, (ready, *rest), err = serve.end()
    assert status == 0 and re.fullmatch(r"fake is ready on none after \d+\.\d s, equal to itself", ready)
    kept, *rest = rest
    assert re.fullmatch(r"\d+ layers? keeps? keys and values, [\d,]+ bytes a token", kept)
    assert rest == ["stopping: closing 0 sessions with 0 viewers; interrupt again to stop at once", "stopped"]
    assert err == [f"kvtheater: loading bundled: {IN_WORDS[stage]}" for stage in ("torch", "weights")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message", "sentence"),
    [
        ([], "fail it has no safetensors", "it has no safetensors"),
        (["--num-blocks", "7"], "ready", "num_blocks 7 is none of the numbers that work"),
    ],
)
def test_a_failed_load_ends_the_command_and_viewers_get_the_reason(
    command: Callable[..., Command], options: list[str], message: str, sentence: str
) -> None:
    serve = command(*options)
    viewer = StatusViewer(serve.address)
    serve.say(message)
    wait_for(lambda: viewer.models and viewer.models[-1]["state"] == "failed", "the reason")
    assert viewer.models[-1]["error"] == sentence
    status, out, err = serve.end()
    assert (status, out, err[-1]) == (2, [], f"kvtheater: {sentence}")


@pytest.mark.slow
def test_a_programming_error_during_loading_ends_the_command_with_a_traceback(command: Callable[..., Command]) -> None:
    serve = command()
    serve.say("break nobody expected this")
    status, out, err = serve.end()
    assert (status, out, err[-1]) == (1, [], "RuntimeError: nobody expected this")


@pytest.mark.slow
def test_the_server_can_be_stopped_while_loading(command: Callable[..., Command]) -> None:
    serve = command()
    wait_for(lambda: state(serve.address)["stage"] == "weights")
    serve.process.send_signal(signal.SIGTERM)
    status, out, _ = serve.end()
    assert (status, out[-1]) == (0, "stopped")


def state(address: str) -> dict[str, Any]:
    found: dict[str, Any] = requests.get(f"{address}api/health", timeout=20).json()["model"]
    return found


@pytest.mark.slow
def test_the_real_server_answers_before_it_has_imported_torch_and_is_stopped_at_any_time() -> None:
    command = [sys.executable, "-m", "app", "serve", "--port", "0", "--enforce-eager"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and server.stderr is not None
        address = re.search(r"http://\S+/", server.stdout.readline())
        assert address
        first = state(address.group())
        assert first["state"] == "loading" and first["stage"] in (None, "torch")
        server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=20)
    assert server.returncode == 0 and out.splitlines()[-1] == "stopped"
    assert {line.partition(": ")[2] for line in err.splitlines()} <= {
        f"loading bundled: {IN_WORDS[stage]}" for stage in LOADING_STAGES
    }
