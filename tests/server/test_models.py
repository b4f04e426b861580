"""Several models in one server: each is loaded on demand, shared, bounded, and unloaded."""

import argparse
import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import requests

from app.cli.loading_thread import LoadingThread
from app.ground.settings import MIB, ApiSettings, ServerSettings
from app.models.live_model import LiveModel
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.server.application import create_app
from app.server.listener import Listener, bind
from engine.config import EngineConfig
from engine.model.loader import from_module
from engine.trace import codec
from engine.trace.operations import Submit
from engine.trace.records import Header, StepRecord
from tests.server.conftest import Client, Server, wait_for
from tests.server.fake import FakeModel
from tests.tiny_models import tiny_model, tiny_tokenizer
from tests.unit.engine.runs import tiny_llama

SIZES = {"one": 40 * MIB, "two": 40 * MIB, "three": 30 * MIB}
SETTINGS = ServerSettings(config=EngineConfig(block_size=4, num_blocks=64))


class FakeOpener:
    """Opens fake models of these sizes when permitted, and counts the openings."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.let = threading.Event()
        self.let.set()
        self.broken: str | None = None

    def weigh(self, name: str) -> int:
        return SIZES[name]

    def open(self, served: ModelEntry) -> None:
        served.set_stage("weights")
        assert self.let.wait(10)
        if self.broken:
            raise ValueError(self.broken)
        self.opened.append(served.name)
        served.set_model(FakeModel(served.name, SIZES[served.name]))


class Several(Server):
    """Server of a first model of 20 MiB and three others, with a total limit of 100 MiB."""

    def __init__(self, settings: ServerSettings = SETTINGS) -> None:
        self.model, self.opener = FakeModel("first", 20 * MIB), FakeOpener()
        others = [
            ModelEntry.unloaded("one", "named"),
            ModelEntry.unloaded("two", "named"),
            ModelEntry.unloaded("three", "at_hand"),
        ]
        models = Models(ModelEntry(self.model), others, self.opener, lambda: 100 * MIB)
        self.app = create_app(models, settings)
        self.models = models
        self.theaters = self.app.extensions["kvtheater"]
        self.listener = Listener(self.app, bind("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.port}"
        self.clients: list[Client] = []

    def listed(self) -> dict[str, dict[str, Any]]:
        return {one["status"]["name"]: one for one in requests.get(f"{self.url}/api/models").json()["models"]}


class StatusViewer(Client):
    """Client that stores the models' status messages."""

    def _listen(self) -> None:
        super()._listen()
        self.models: list[dict[str, Any]] = []
        self.io.on("model", self.models.append)


@pytest.fixture
def server() -> Iterator[Several]:
    made = Several()
    yield made
    made.close()


def test_a_theater_uses_the_model_that_it_names_also_after_a_reset(server: Several, client: Client) -> None:
    first, other = client.do("create")["theater"], client.do("create", model="one")["theater"]
    assert [server.theaters.get(one).model_name for one in (first, other)] == ["first", "one"]
    client.do("reset", theater=other)
    client.do("configure", theater=other, config={"block_size": 8})
    header = requests.get(f"{server.url}/api/theaters/{other}/header?format=json").json()
    assert header["model"]["name"] == "one" and header["engine"]["block_size"] == 8
    assert server.opener.opened == ["one"], "its weights are read once"
    listed = requests.get(f"{server.url}/api/theaters").json()["theaters"]
    assert {one["theater"]: one["model"] for one in listed} == {first: "first", other: "one"}


def test_a_run_on_another_model_replaces_one(server: Several, client: Client) -> None:
    theater = client.do("create")["theater"]
    begun = client.do("configure", theater=theater, config={}, model="two")
    assert begun["epoch"] == 1 and server.theaters.get(theater).model_name == "two"
    assert server.listed()["two"]["theaters"] == 1 and server.listed()["first"]["theaters"] == 0
    error = client.refused("configure", theater=theater, config={"block_size": 0}, model="one")
    assert error["code"] == "refused" and server.theaters.get(theater).model_name == "two"
    unknown = client.refused("create", model="none")
    assert unknown["code"] == "not_found"
    assert unknown["message"] == "this server has no model 'none'; it has first, one, two, three"


def test_two_simultaneous_requests_share_one_reading(server: Several) -> None:
    server.opener.let.clear()
    made: list[dict[str, Any]] = []
    clients = [server.client(), server.client()]
    asking = [threading.Thread(target=lambda c=c: made.append(c.do("create", model="one"))) for c in clients]
    for one in asking:
        one.start()
    wait_for(lambda: server.listed()["one"]["status"]["stage"] == "weights")
    assert not made and server.listed()["one"]["status"]["state"] == "loading"
    server.client().do("create")  # no other client waits for that
    server.opener.let.set()
    for one in asking:
        one.join()
    assert len(made) == 2 and server.opener.opened == ["one"]
    assert server.listed()["one"]["theaters"] == 2


def test_a_request_for_a_slow_model_is_answered_loading(
    server: Several, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.models.registry.WAIT", 0.5)
    server.opener.let.clear()
    sentence = "the model one is not loaded yet (reading its weights); retry in a moment"
    refused = client.refused("create", model="one")
    assert (refused["code"], refused["message"]) == ("loading", sentence)
    answer = requests.get(f"{server.url}/api/model?model=one")
    assert answer.status_code == 503 and answer.json()["error"]["message"] == sentence
    server.opener.let.set()
    wait_for(lambda: server.listed()["one"]["status"]["state"] == "ready")
    assert requests.get(f"{server.url}/api/model?model=one").json()["model"]["name"] == "one"
    assert requests.get(f"{server.url}/api/model").json()["model"]["name"] == "first"


def test_idle_models_are_unloaded_least_recently_used_first(server: Several, client: Client) -> None:
    """The models take 20 + 40 + 40 of 100 MiB; a third one of 30 requires one of them to be unloaded."""
    theaters = {name: client.do("create", model=name)["theater"] for name in ("one", "two")}
    error = client.refused("create", model="three")
    assert error["code"] == "refused"
    assert error["message"] == (
        "the model three cannot be opened: its weights take 30 MiB, but of the limit of 100 MiB for all models, "
        "100 MiB are in use (first 20, one 40, two 40); close their sessions, or start the server with a larger "
        "--max-model-mib"
    )
    for name in ("two", "one"):  # both idle, `two` for longer
        client.do("configure", theater=theaters[name], config={}, model="first")
        time.sleep(0.01)
    client.do("create", model="three")
    found = {name: one["status"]["state"] for name, one in server.listed().items()}
    assert found == {"first": "ready", "one": "ready", "two": "unloaded", "three": "ready"}
    totals = requests.get(f"{server.url}/api/models").json()
    assert totals["bytes"] == 90 * MIB and totals["max_bytes"] == 100 * MIB
    client.do("create", model="two")
    assert server.opener.opened == ["one", "two", "three", "two"]
    assert server.listed()["one"]["status"]["state"] == "unloaded"


def test_a_session_being_read_keeps_its_log_but_not_its_model(server: Several, client: Client) -> None:
    theater = client.do("create", model="one")["theater"]
    with server.theaters.get(theater).run.reading() as log:
        client.do("configure", theater=theater, config={}, model="first")
        assert server.models.find("one").leases == 0
        assert log.header.model.name == "one"


def test_a_model_that_fails_to_load_is_retried(server: Several, client: Client) -> None:
    """A client that polls while it loads sees the failure; a request after that tries again."""
    sentence = "the model one cannot be opened: its weights are no safetensors"
    server.opener.broken = "its weights are no safetensors"
    server.opener.let.clear()
    assert requests.get(f"{server.url}/api/model?model=one").status_code == 503
    server.opener.let.set()
    wait_for(lambda: server.listed()["one"]["status"]["state"] == "failed")
    server.opener.broken = None
    answer = requests.get(f"{server.url}/api/model?model=one")
    assert answer.status_code == 422 and answer.json()["error"]["message"] == sentence
    server.opener.broken = "its weights are no safetensors"
    assert client.refused("create", model="one")["message"] == sentence
    assert server.models.find("one").leases == 0
    server.opener.broken = None
    client.do("create", model="one")


def test_all_clients_get_the_loading_status(server: Several) -> None:
    viewer = StatusViewer(server.url)
    server.clients.append(viewer)
    wait_for(lambda: len(viewer.models) == 3)
    assert [(m["name"], m["place"], m["state"]) for m in viewer.models] == [
        ("first", "first", "ready"),
        ("one", "named", "unloaded"),
        ("two", "named", "unloaded"),
    ]
    del viewer.models[:]
    viewer.do("create", model="three")
    wait_for(lambda: len(viewer.models) == 3)
    assert [(m["name"], m["state"], m["stage"], m["bytes"]) for m in viewer.models] == [
        ("three", "loading", None, 0),
        ("three", "loading", "weights", 0),
        ("three", "ready", None, 30 * MIB),
    ]


def test_text_is_read_as_the_theaters_model_reads_it(server: Several, client: Client) -> None:
    theater = client.do("create", model="one")["theater"]
    model = server.models.find("one").model
    model.normalize = lambda text: text.upper()  # type: ignore[method-assign]
    assert client.do("tokenize", text="abc", theater=theater)["text"] == "ABC"
    assert client.do("tokenize", text="abc")["text"] == "abc"
    client.do("submit", theater=theater, prompts=[{"text": "abc"}])
    wait_for(lambda: client.records())
    (submitted,) = codec.decode(client.records()[0], StepRecord).ops
    assert isinstance(submitted, Submit) and bytes(submitted.prompt_token_ids) == b"ABC"


class LiveOpener:
    """Opens small random models for the real engine, with weak references to their modules."""

    def __init__(self) -> None:
        self.modules: list[weakref.ref[Any]] = []

    def weigh(self, name: str) -> int:
        return MIB

    def open(self, served: ModelEntry) -> None:
        model = from_module(tiny_model("llama"), tiny_tokenizer(), served.name)
        self.modules.append(weakref.ref(model.module))
        served.set_model(LiveModel(model, False, SETTINGS))


@pytest.fixture
def live() -> Iterator[Callable[[], tuple[Models, LiveOpener, Client]]]:
    ended: list[Callable[[], object]] = []

    def make() -> tuple[Models, LiveOpener, Client]:
        opener = LiveOpener()
        others = [ModelEntry.unloaded("one", "named"), ModelEntry.unloaded("two", "named")]
        first = ModelEntry(LiveModel(tiny_llama(), False, SETTINGS))
        models = Models(first, others, opener, lambda: first.num_bytes + MIB)  # room for one beside it
        listener = Listener(create_app(models, SETTINGS), bind("127.0.0.1", 0))
        client = Client(f"http://127.0.0.1:{listener.port}")
        ended.extend([client.io.disconnect, listener.close])
        return models, opener, client

    yield make
    for end in ended:
        end()


def test_sessions_share_weights_and_an_unloaded_model_is_free(
    live: Callable[[], tuple[Models, LiveOpener, Client]],
) -> None:
    """Two sessions with real engines share one module, which is freed after the last run on it."""
    models, opener, client = live()
    theaters = [client.do("create", model="one")["theater"] for _ in range(2)]
    found = client.do("create", model="one")["theater"]
    assert len(opener.modules) == 1
    for theater in theaters:
        client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 4})
        assert client.do("step", theater=theater, count=9)["performed"] == 4
    assert models.find("one").leases == 3
    forked = client.do("fork", theater=theaters[0], at=2, change=None)["theater"]
    assert models.find("one").leases == 4, "a run that is made again is on the model that it was on"
    for theater in (*theaters, found, forked):
        client.do("configure", theater=theater, config={}, model=None)
        client.do("configure", theater=theater, config={}, model=models.first.name)
    gc.collect()
    assert models.find("one").leases == 0 and opener.modules[0]() is not None, "it stays as long as there is room"
    client.do("create", model="two")
    assert opener.modules[0]() is None, "its weights are freed"
    assert not models.find("one").is_loaded and models.find("two").is_loaded


def test_the_command_that_opens_models_holds_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second model of `kvtheater serve bundled-mqa bundled-gqa` is compiled, unloaded for a third one, and
    freed.
    """
    monkeypatch.setattr(LiveModel, "compile_in_background", lambda self, ended: ended(""))
    given = argparse.Namespace(model=["bundled-mqa", "bundled-gqa"], dtype="auto", device="cpu")
    first = ModelEntry.loading("bundled-mqa")
    second, third = ModelEntry.unloaded("bundled-gqa", "named"), ModelEntry.unloaded("bundled-mha", "at_hand")
    opening = LoadingThread(given, msgspec.structs.replace(SETTINGS, max_model_bytes=8 * MIB), first)
    models = Models(first, [second, third], opening, opening.most_bytes)
    opening.start(threading.Event())
    wait_for(lambda: first.status()["compiled"] == "done", seconds=60)
    models.lease("bundled-gqa").close()
    assert second.status()["compiled"] == "done", "it was named"
    module = weakref.ref(second.model._model.module)  # type: ignore[attr-defined]
    models.lease("bundled-mha").close()
    assert [one.is_loaded for one in (first, second, third)] == [True, False, True]
    assert module() is None and third.status()["compiled"] == "off" and not opening.is_at_work
    assert second.facts is not None, "what is known of it stays"


def test_a_models_size_is_known_before_loading() -> None:
    from app.models.live_model import weigh
    from engine.model.loader import load_model
    from engine.model.weighing import weight_bytes

    for name, dtype in (
        ("bundled-mqa", "auto"),
        ("bundled", "auto"),
        ("bundled", "float32"),
        ("bundled", "int8-weights"),
        ("bundled", "int4-weights"),
    ):
        expected = weigh(name, dtype, "cpu")
        found = weight_bytes(load_model(name, dtype, "cpu").module)
        assert 0.97 * found <= expected <= found, "norms are kept a second time"


def test_a_model_is_unloaded_on_request_when_nothing_runs_on_it(server: Several, client: Client) -> None:
    def ask(name: str) -> requests.Response:
        return requests.delete(f"{server.url}/api/models/{name}")

    theater = client.do("create", model="one")["theater"]
    refused = ask("one")
    assert refused.status_code == 422 and refused.json()["error"]["message"] == "1 run uses one; close it first"
    client.do("configure", theater=theater, config={}, model="two")
    assert server.listed()["one"]["status"]["state"] == "ready"
    (one,) = [listed for listed in ask("one").json()["models"] if listed["status"]["name"] == "one"]
    assert one["status"]["state"] == "unloaded" and one["status"]["bytes"] == 0
    assert ask("one").json()["error"]["message"] == "one is not in memory"
    assert "cannot be unloaded" in ask("first").json()["error"]["message"] and ask("none").status_code == 404
    client.do("create", model="one")
    assert server.opener.opened == ["one", "two", "one"]


def test_each_model_has_its_own_settings_on_the_page_and_for_the_api() -> None:
    configs = {"one": EngineConfig(block_size=2, num_blocks=40, max_model_len=50)}
    server = Several(msgspec.structs.replace(SETTINGS, configs=configs, api=ApiSettings()))
    try:
        client = server.client()
        viewed = codec.decode(client.do("create", config={"max_num_seqs": 3})["header"], Header).engine
        assert (viewed["block_size"], viewed["num_blocks"], viewed["max_num_seqs"]) == (4, 64, 3)
        theater = client.do("create", config={"max_num_seqs": 3})["theater"]
        client.do("configure", theater=theater, config={}, model="one")
        with server.theaters.get(theater).run.reading() as log:
            moved = log.header.engine
        assert (moved["block_size"], moved["num_blocks"], moved["max_num_seqs"]) == (2, 40, 3), "what was chosen stays"
        own = codec.decode(client.do("create", model="one", config={})["header"], Header).engine
        assert (own["block_size"], own["num_blocks"], own["max_model_len"]) == (2, 40, 50)
        facts = requests.get(f"{server.url}/api/model?model=one").json()
        assert facts["config"]["block_size"] == 2
        for model, status in (("first", 200), ("one", 400)):
            body = {"model": model, "prompt": "x" * 50, "max_tokens": 1}
            assert requests.post(f"{server.url}/v1/completions", json=body).status_code == status
        theaters = requests.get(f"{server.url}/api/theaters").json()["theaters"]
        blocks = {one["model"]: one["config"]["num_blocks"] for one in theaters if one["name"] == "API"}
        assert blocks == {"first": 64, "one": 40}
        listed = {one["id"]: one for one in requests.get(f"{server.url}/v1/models").json()["data"]}
        assert [listed[name]["max_model_len"] for name in ("first", "one", "two")] == [256, 50, None]
        assert listed["one"]["engine"]["block_size"] == 2
    finally:
        server.close()
