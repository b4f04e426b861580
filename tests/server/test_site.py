"""A site: the answers of a server without a model, as files with relative addresses."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from app.cli import main
from app.ground.settings import ServerSettings
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.recordings.shelf import SUFFIX
from app.scenes.museum import EXHIBITS
from app.server.application import create_app
from app.site.export import FUTURES, PICTURE, RUNS, site_page, write_futures, write_page
from app.site.runs import DRAFTS, FIRST_STEPS, IN_FAN, LANES, SIBLINGS, WORDS, Future, record_exhibits, record_races
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.model.shipped import BUNDLED
from engine.trace.check import check
from engine.trace.log import TraceReader


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model(BUNDLED)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, model: LoadedModel) -> Path:
    folder = tmp_path_factory.mktemp("site") / "public"
    write_page(folder, "https://example.org/kv/")
    write_futures(folder, model)
    return folder


def test_every_address_of_the_page_is_relative_and_there(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    addresses = re.findall(r'(?:href|src)="([^"]+)"', page)
    assert len(addresses) > 4
    for address in addresses:
        assert not address.startswith(("/", "http")), address
        assert (site / address).is_file(), address
    assert "socket.io" not in page and "Content-Security-Policy" in page and 'id="kvtheater-site"' in page


def test_a_link_shows_a_picture_with_its_whole_address(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    assert f'property="og:image" content="https://example.org/kv/static/{PICTURE}"' in page
    assert (site / "static" / PICTURE).stat().st_size < 300_000


def test_without_an_address_the_picture_is_relative() -> None:
    served = create_app(Models(ModelEntry(None)), ServerSettings()).test_client().get("/").get_data(as_text=True)
    assert f'property="og:image" content="static/{PICTURE}"' in site_page(served, "")


def test_no_module_or_style_names_an_absolute_address(site: Path) -> None:
    for path in [*(site / "static/js").rglob("*.js"), *(site / "static").rglob("*.css")]:
        if "bench" in path.parts or "vendor" in path.parts:
            continue  # the benchmark page needs a server
        found = re.findall(r"""["'`(](/(?:static|api|words|vendor)/[^"'`)]*)""", path.read_text(encoding="utf-8"))
        assert not found, (path, found)


def test_the_site_has_the_listed_recordings(site: Path) -> None:
    listed = json.loads((site / "api/recordings").read_text(encoding="utf-8"))["recordings"]
    assert len(listed) >= 6
    for entry in listed:
        assert (site / RUNS / f"{entry['id']}{SUFFIX}").is_file()
    facts = json.loads((site / "api/model").read_text(encoding="utf-8"))
    assert facts["live"] is False and facts["model"] is None and facts["museum"]


def test_each_continuation_is_a_valid_run_with_another_word(site: Path) -> None:
    futures = msgspec.json.decode((site / FUTURES).read_bytes(), type=list[Future])
    assert len(futures) >= 2 * (FIRST_STEPS - 1) * WORDS + 2 * IN_FAN
    assert len({future.id for future in futures}) == len(futures)
    for future in futures[:: len(futures) // 6]:
        path = site / RUNS / f"{future.id}{SUFFIX}"
        assert [str(finding) for finding in check(path)] == []
        with TraceReader(path) as log:
            outputs = [out for out in log.record(future.record + 1).outputs if out.seq_id == future.seq]
            assert [out.token_id for out in outputs] == [future.token_id]


def test_lanes_of_a_race_generate_the_same(model: LoadedModel, tmp_path: Path) -> None:
    record_races(model, "en", tmp_path)
    texts: dict[str, set[tuple[int, ...]]] = {}
    for path in sorted(tmp_path.glob("race-en-*")):
        with TraceReader(path) as log:
            found = tuple(log.state_at(len(log) - 1).sequences[0].token_ids)
            texts.setdefault(log.header.model.name, set()).add(found)
    assert len(list(tmp_path.glob("race-en-*"))) == len((*LANES, *DRAFTS, *SIBLINGS))
    assert {name: len(found) for name, found in texts.items()} == dict.fromkeys(["bundled", *SIBLINGS], 1)


def test_force_replaces_a_site_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A user's own folder is never deleted, a site only with the option."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "index.html").write_text("<p>mine</p>", encoding="utf-8")
    assert main(["export", "--site", str(own), "--force"]) != 0
    assert (own / "index.html").read_text(encoding="utf-8") == "<p>mine</p>"
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    assert main(["export", "--site", str(tmp_path / "file"), "--force"]) != 0
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"
    site = tmp_path / "site"
    write_page(site, "")
    assert main(["export", "--site", str(site)]) != 0
    assert "--force to replace it" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "own", "site"]


def test_each_exhibit_of_the_museum_has_two_recordings(model: LoadedModel, tmp_path: Path) -> None:
    record_exhibits(model, "en", tmp_path)
    names = {f"museum-{one.id.replace('_', '-')}-en-{lane}" for one in EXHIBITS for lane in ("healthy", "faulty")}
    assert {path.stem for path in tmp_path.glob(f"*{SUFFIX}")} == names
    for name in names:
        with TraceReader(tmp_path / f"{name}{SUFFIX}") as log:
            assert len(log) > 1 and log.capture(len(log) - 2) is not None, name
    assert list(check(tmp_path / f"museum-read-after-release-en-healthy{SUFFIX}")) == []
