"""`serve --kv-offload-cpu --kv-offload-disk`: a restarted server gets the same prompt."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.cli import main
from app.ground.settings import ServerSettings
from app.models.live_model import LiveModel
from engine.config import EngineConfig
from engine.connector.tiers.settings import DiskSetting
from engine.connector.tiers.tiers import Tiers
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.trace.operations import Admit, Load, LookupExternal, Store
from tests.server.apis import Api, served_api
from tests.server.conftest import Client

PROMPT = "春江潮水连海平，海上明月共潮生。滟滟随波千万里，何处春江无月明。江流宛转绕芳甸，月照花林皆似霰。"


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model("bundled")


@contextmanager
def serving(model: LoadedModel, tiers: Tiers, lessons: Path | None = None) -> Iterator[Api]:
    live = LiveModel(model, True, ServerSettings(), tiers)
    with served_api(config=EngineConfig(enforce_eager=True), model=live, lessons=lessons) as found:
        yield found
    assert tiers.close() == 0


def ask(api: Api) -> tuple[str, int]:
    """Send a request; return its next line, and the number of cached prompt tokens."""
    answer = api.post(prompt=PROMPT, max_tokens=16, temperature=0).json()
    return answer["choices"][0]["text"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_a_restarted_server_finds_stored_blocks(model: LoadedModel, tmp_path: Path) -> None:
    """The prompt has 48 tokens in blocks of 16: the last token must be computed, so two blocks are loaded."""
    disk = DiskSetting(tmp_path / "blocks", 1 << 24)
    with serving(model, Tiers(1 << 22, disk)) as api:
        first = ask(api)
        ops = api.ops(tmp_path)
        assert len([op for op in ops if isinstance(op, Store)]) == 3
    with serving(model, Tiers(1 << 22, disk)) as api:
        again = ask(api)
        ops = api.ops(tmp_path)
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
    with serving(model, tiers, folder) as api:
        client = Client(api.url)
        lesson = client.do("lesson_open", lesson="outside", language="en")
        verdicts: list[list[str]] = []
        for _ in range(9):
            lesson = client.do("lesson_go", theater=lesson["theater"], item=lesson["progress"]["at"])
            ops = api.ops(tmp_path, lesson["theater"])
            if ops:
                verdicts.append([op.verdict for op in ops if isinstance(op, LookupExternal)])
                media = [op.medium for op in ops if isinstance(op, Load)]
                assert set(media) == ({"disk"} if len(verdicts) == 4 else set()), len(verdicts)
        assert verdicts == [[], [], ["miss"], ["load"], []]
        assert [figures.blocks for figures in tiers.figures()] == [0]
        client.io.disconnect()


def test_a_run_created_alone_uses_no_tiers(model: LoadedModel, tmp_path: Path) -> None:
    tiers = Tiers(1 << 22)
    with serving(model, tiers) as api:
        client = Client(api.url)
        for alone in (False, True, True):
            theater = client.do("create", captures=False, alone=alone)["theater"]
            for again in (False, True):
                if again:
                    client.do("configure", theater=theater, config={"num_blocks": 32})
                client.do("submit", theater=theater, prompts=[{"text": PROMPT}], sampling={"max_tokens": 4})
                client.do("step", theater=theater, count=2)
                assert any(isinstance(op, Load | Store) for op in api.ops(tmp_path, theater)) == (not alone)
        client.io.disconnect()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--kv-offload-cpu", "much"], "“much” is not a size"),
        (["--kv-offload-disk", "10GiB"], "does not have the form"),
        (["--kv-offload-disk", "blocks:10GiB", "--api", "--api-private"], "which --api-private forbids"),
        (["--kv-offload-disk", "/proc/nowhere:1GiB"], "/proc/nowhere"),
    ],
)
def test_invalid_offload_options_are_refused(options: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "0", *options]) == 2
    output = capsys.readouterr().err
    assert why in output and "Traceback" not in output
