"""`serve --kv-offload-cpu --kv-offload-disk`: begin the server anew, send the same prompt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from app.cli import main
from app.live_model import LiveModel
from app.models import Models
from app.openai.settings import ApiSettings
from app.served import Served
from app.server import create_app
from app.serving import Listener, bind
from app.settings import ServerSettings
from engine.config import EngineConfig
from engine.connector.tiers.settings import DiskSetting
from engine.connector.tiers.tiers import Tiers
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.trace.events import Admit, Load, LookupExternal, Store
from engine.trace.log import TraceReader

PROMPT = "春江潮水连海平，海上明月共潮生。滟滟随波千万里，何处春江无月明。江流宛转绕芳甸，月照花林皆似霰。"


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model("bundled")


@contextmanager
def serving(model: LoadedModel, tiers: Tiers) -> Iterator[str]:
    settings = ServerSettings(config=EngineConfig(enforce_eager=True), api=ApiSettings())
    live = LiveModel(model, True, settings, tiers)
    listener = Listener(create_app(Models(Served(live, "bundled")), settings), bind("127.0.0.1", 0))
    yield f"http://127.0.0.1:{listener.port}"
    listener.close()
    assert tiers.close() == 0


def ask(url: str) -> tuple[str, int]:
    """The next line, and how many of the prompt's tokens were at hand."""
    body = {"model": "bundled", "prompt": PROMPT, "max_tokens": 16, "temperature": 0}
    answer = requests.post(f"{url}/v1/completions", json=body, timeout=60).json()
    return answer["choices"][0]["text"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def ops_of(url: str, folder: Path) -> list[object]:
    """Of the API's theater."""
    theater = requests.get(f"{url}/api/theaters", timeout=60).json()["theaters"][0]["theater"]
    path = folder / "now.kvtrace"
    path.write_bytes(requests.get(f"{url}/api/theaters/{theater}/trace", timeout=60).content)
    with TraceReader(path) as log:
        return [op for i in range(len(log)) for op in log.record(i).ops]


def test_a_server_that_began_anew_finds_what_the_one_before_had_computed(model: LoadedModel, tmp_path: Path) -> None:
    """48 tokens, blocks of 16: the last token must be computed, so two blocks can come from elsewhere."""
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
    said = capsys.readouterr().err
    assert why in said and "Traceback" not in said
