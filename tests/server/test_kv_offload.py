"""`serve --kv-offload-cpu --kv-offload-disk`: a restarted server gets the same prompt."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
import socketio

from app.cli import main
from app.ground.settings import ApiSettings, ServerSettings
from app.models.live_model import LiveModel
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.server.application import create_app
from app.server.listener import Listener, bind
from engine.config import EngineConfig
from engine.connector.tiers.settings import DiskSetting
from engine.connector.tiers.tiers import Tiers
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.trace.log import TraceReader
from engine.trace.operations import Admit, Load, LookupExternal, Store
from tests.server.conftest import Client

PROMPT = "春江潮水连海平，海上明月共潮生。滟滟随波千万里，何处春江无月明。江流宛转绕芳甸，月照花林皆似霰。"


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model("bundled")


@contextmanager
def serving(model: LoadedModel, tiers: Tiers, lessons: Path | None = None) -> Iterator[str]:
    settings = ServerSettings(config=EngineConfig(enforce_eager=True), api=ApiSettings(), lessons=lessons)
    live = LiveModel(model, True, settings, tiers)
    listener = Listener(create_app(Models(ModelEntry(live, "bundled")), settings), bind("127.0.0.1", 0))
    yield f"http://127.0.0.1:{listener.port}"
    listener.close()
    assert tiers.close() == 0


def ask(url: str) -> tuple[str, int]:
    """Send a request; return its next line, and the number of cached prompt tokens."""
    body = {"model": "bundled", "prompt": PROMPT, "max_tokens": 16, "temperature": 0}
    answer = requests.post(f"{url}/v1/completions", json=body, timeout=60).json()
    return answer["choices"][0]["text"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def ops_of(url: str, folder: Path) -> list[object]:
    """Return the operations of the API's session."""
    theater = requests.get(f"{url}/api/theaters", timeout=60).json()["theaters"][0]["theater"]
    path = folder / "now.kvtrace"
    path.write_bytes(requests.get(f"{url}/api/theaters/{theater}/trace", timeout=60).content)
    with TraceReader(path) as log:
        return [op for i in range(len(log)) for op in log.record(i).ops]


def test_a_server_that_began_anew_finds_what_the_one_before_had_computed(model: LoadedModel, tmp_path: Path) -> None:
    """The prompt has 48 tokens in blocks of 16: the last token must be computed, so two blocks are loaded."""
    disk = DiskSetting(tmp_path / "blocks", 1 << 24)
    with serving(model, Tiers(1 << 22, disk)) as url:
        first = ask(url)
        ops = ops_of(url, tmp_path)
        assert len([op for op in ops if isinstance(op, Store)]) == 3
    with serving(model, Tiers(1 << 22, disk)) as url:
        again = ask(url)
        ops = ops_of(url, tmp_path)
    assert first == ("空里流霜不觉飞，汀上白沙看不见。", 0)
    assert again == (first[0], 32)
    assert [op.medium for op in ops if isinstance(op, Load)] == ["disk", "disk"]
    assert [op.num_external_tokens for op in ops if isinstance(op, Admit)] == [32]
    (verdict,) = [op for op in ops if isinstance(op, LookupExternal)]
    assert (verdict.verdict, verdict.num_found_tokens, verdict.media) == ("load", 32, ["disk", "disk"])


LESSON = """+++
id = "outside"
minutes = 1
title = { en = "Outside" }
prompts = { en = ["Who has seen the wind? Neither I nor you"] }
config = { block_size = 4, num_blocks = 16, enforce_eager = true }
sampling = { max_tokens = 4, ignore_eos = true }
+++
## one
do: prefill
do: restart
do: prefill
do: restart kv_offload_cpu="1 MiB" kv_offload_disk="1 MiB"
do: prefill
do: restart kv_offload_cpu="1 MiB" kv_offload_disk="1 MiB"
do: prefill
do: restart
do: prefill
"""


def test_a_lesson_has_tiers_of_its_own_and_none_of_the_servers(model: LoadedModel, tmp_path: Path) -> None:
    """A learner's blocks would otherwise be loaded in the next learner's run, and the sentences would be wrong."""
    folder = tmp_path / "lessons"
    folder.mkdir()
    (folder / "outside.md").write_text(LESSON)
    tiers = Tiers(1 << 22)
    with serving(model, tiers, folder) as url:
        client = Client(url)
        lesson = client.do("lesson_open", lesson="outside", language="en")
        verdicts: list[list[str]] = []
        for _ in range(9):
            lesson = client.do("lesson_go", theater=lesson["theater"], item=lesson["progress"]["at"])
            ops = ops_of(url, tmp_path)
            if ops:
                verdicts.append([op.verdict for op in ops if isinstance(op, LookupExternal)])
                media = [op.medium for op in ops if isinstance(op, Load)]
                assert set(media) == ({"disk"} if len(verdicts) == 4 else set()), len(verdicts)
        assert verdicts == [[], [], ["miss"], ["load"], []]
        assert [figures.blocks for figures in tiers.figures()] == [0]
        client.io.disconnect()


def test_a_run_that_is_compared_with_others_takes_no_part(model: LoadedModel, tmp_path: Path) -> None:
    tiers = Tiers(1 << 22)
    with serving(model, tiers) as url:
        client = socketio.Client(serializer="msgpack")
        client.connect(url, transports=["websocket"])
        for alone in (False, True, True):
            made = client.call("create", {"captures": False, "alone": alone}, timeout=60)
            theater = made["theater"]
            for again in (False, True):
                if again:
                    client.call("configure", {"theater": theater, "config": {"num_blocks": 32}}, timeout=60)
                sampling = {"max_tokens": 4}
                client.call(
                    "submit", {"theater": theater, "prompts": [{"text": PROMPT}], "sampling": sampling}, timeout=60
                )
                client.call("step", {"theater": theater, "count": 2}, timeout=60)
                path = tmp_path / "now.kvtrace"
                path.write_bytes(requests.get(f"{url}/api/theaters/{theater}/trace", timeout=60).content)
                with TraceReader(path) as log:
                    ops = [op for i in range(len(log)) for op in log.record(i).ops]
                assert any(isinstance(op, Load | Store) for op in ops) == (not alone)
        client.disconnect()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--kv-offload-cpu", "much"], "“much” is no size"),
        (["--kv-offload-disk", "10GiB"], "does not say where"),
        (["--kv-offload-disk", "blocks:10GiB", "--api", "--api-private"], "--api-private nothing"),
        (["--kv-offload-disk", "/proc/nowhere:1GiB"], "/proc/nowhere"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_a_sentence(
    options: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--port", "0", *options]) == 2
    output = capsys.readouterr().err
    assert why in output and "Traceback" not in output
