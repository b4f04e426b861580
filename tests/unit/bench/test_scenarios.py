"""Scenario files: shipped ones are valid, and errors are located."""

import re

import msgspec
import pytest

from app.ground.paths import static_dir
from engine.bench.errors import BenchError
from engine.bench.models import RANDOM_MODELS
from engine.bench.peers import PEERS, make_peer
from engine.bench.scenario import SCENARIOS, cell_of, check, find_scenario, read_scenario, scenario_ids
from engine.bench.text import Text
from engine.bench.workload import SharedPrefix, requests_of
from engine.setup.resolve import resolve
from tests.unit.bench.small import SMALL, TEXT, scenario


@pytest.mark.parametrize("name", scenario_ids())
def test_every_shipped_scenario_has_valid_settings_and_requests(name: str) -> None:
    found = find_scenario(name)
    assert found.id == name == (SCENARIOS / f"{name}.toml").stem
    assert all(ord(c) < 0x3000 for c in found.title.en) and any(ord(c) > 0x3000 for c in found.title.zh)
    for point in range(len(found.axis.points())):
        for variant in found.variants:
            cell = cell_of(found, point, variant)
            requests = requests_of(cell.workload, 8192, found.seed, lambda text: [1] * len(text))
            random_model = RANDOM_MODELS.get(cell.model)
            config = resolve(cell.engine, random_model[0].max_position_embeddings if random_model else 1024).config
            assert config.max_model_len is not None
            for request in requests:
                if request.after is None:
                    assert len(request.prompt) + request.output_tokens <= config.max_model_len


def test_lengths_in_headlines_are_values_of_the_axis() -> None:
    """Readers look for the headline's point on the chart."""
    for name in scenario_ids():
        found = find_scenario(name)
        if found.axis.unit != "tokens":
            continue
        for headline in found.headlines:
            for text in (headline.title.en, headline.title.zh):
                lengths = {int(n.replace(",", "")) for n in re.findall(r"(\d[\d,]*) (?:\w+ )?token", text)}
                assert lengths <= {case.value for case in found.axis.points()}, text


def test_the_page_lists_every_scenario_in_a_group() -> None:
    """A scenario without a group in its list is listed under "Others"."""
    listed = (static_dir() / "js" / "bench" / "list.js").read_text(encoding="utf-8")
    groups = re.search(r"const GROUPS = \{(.*?)\};", listed, re.DOTALL)
    assert groups and sorted(re.findall(r'"([a-z-]+)"', groups[1])) == scenario_ids()


def test_variants_override_points_and_slots_are_converted_to_blocks() -> None:
    """A pool of 64 slots has 16 blocks of 4, or 8 blocks of the variant's block size of 8."""
    spec = scenario(variants=[*SMALL["variants"], {"id": "eight", "title": TEXT, "set": {"engine.block_size": 8}}])
    paged, eight = (cell_of(spec, 1, variant) for variant in spec.variants[1:])
    assert (paged.engine.num_blocks, paged.engine.block_size) == (16, 4)
    assert (eight.engine.num_blocks, eight.engine.block_size) == (8, 8)
    assert paged.workload.num_requests == 2  # type: ignore[union-attr]
    assert cell_of(spec, 0, spec.variants[1]).workload.num_requests == 1  # type: ignore[union-attr]


def test_a_case_may_replace_the_workload() -> None:
    other = {
        "kind": "shared_prefix", "num_requests": 2, "prefix_tokens": 4, "suffix_tokens": 2, "output_tokens": 1,
    }  # fmt: skip
    axis = {"name": "kind", "title": TEXT, "cases": [{"value": "shared", "set": {"workload": other}}]}
    spec = scenario(axis=axis)
    assert isinstance(cell_of(spec, 0, spec.variants[0]).workload, SharedPrefix)
    assert spec.workload["kind"] == "random", "the base is untouched"


def _wrong(**changes: object) -> str:
    with pytest.raises(BenchError) as raised:
        check(scenario(**changes))
    return str(raised.value)


def test_invalid_settings_are_reported_in_one_sentence() -> None:
    variants, axis = SMALL["variants"], SMALL["axis"]
    assert "there is no metric speed" in _wrong(measure=["speed"])
    assert "the baseline all is not a variant" in _wrong(baselines=["all"])
    assert "the axis has a value twice" in _wrong(axis={**axis, "values": [1, 1]})
    assert "two variants have the same id" in _wrong(variants=[variants[0], variants[0]])
    assert "no peer none-such; there are transformers-dynamic" in _wrong(
        variants=[*variants, {"id": "v", "title": TEXT, "peer": "none-such"}]
    )
    sentence = _wrong(axis={**axis, "sets": ["engine.blocksize"]})
    assert sentence == "scenario small, requests 1, variant none: engine has no setting blocksize"
    assert "there is no setting cache.size; paths begin with one of model" in _wrong(
        axis={**axis, "sets": ["cache.size"]}
    )
    assert "Expected `int`, got `str`" in _wrong(axis={**axis, "values": ["many"]})
    assert "temperature must be between 0 and 100, not -1.0" in _wrong(sampling={"temperature": -1.0})
    assert "“much” is not a size" in _wrong(tiers={"cpu": "much"})
    assert "unknown field `tape`" in _wrong(tiers={"tape": "1MiB"})
    headline = {"title": TEXT, "metric": "seconds", "variant": "paged", "at": 1, "against": "none"}
    assert "3 is not on the axis" in _wrong(headlines=[{**headline, "at": 3}])
    assert "paged is not a baseline" in _wrong(headlines=[{**headline, "against": "paged"}])


def test_a_headline_is_expanded_over_its_points_and_baselines() -> None:
    """The headline lists 3 peers at 4 points. `[names]` gives shorter names than the titles."""
    found = [h for h in find_scenario("against-engines").headlines if h.metric == "output_tokens_per_second"]
    peers = {h.against: h.at_least for h in found if h.at == "135m-16"}
    assert peers == {"dynamic": 1.5, "onnxruntime": 1.0, "openvino": 1.0, "llama_cpp": 1.0} and len(found) == 4 + 3 * 4
    assert found[0].title == Text(
        en="throughput against generate, 8 × 256, one sequence", zh="吞吐与 generate 之比，8 × 256，单序列"
    )
    assert {h.title.en for h in found if h.against == "llama_cpp" and h.at == "135m-1"} == {
        "throughput against llama.cpp, 135 M, one sequence"
    }


def test_errors_of_scenarios_name_the_place(tmp_path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('id = "mine"\nrounds = "five"\n', encoding="utf-8")
    with pytest.raises(BenchError, match=r"mine\.toml is not a scenario: .*rounds"):
        read_scenario(path)
    path.write_text("headlines = 3", encoding="utf-8")
    with pytest.raises(BenchError, match=r"mine\.toml is not a scenario: .*array"):
        read_scenario(path)
    path.write_text("id = = 1", encoding="utf-8")
    with pytest.raises(BenchError, match=r"mine\.toml is not a scenario"):
        read_scenario(path)
    with pytest.raises(BenchError, match="there is no scenario nothing; there are against-engines"):
        find_scenario("nothing")


def test_a_scenario_is_found_by_its_path(tmp_path) -> None:
    text = (SCENARIOS / "guard.toml").read_text(encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(text.replace('id = "guard"', 'id = "mine"'), encoding="utf-8")
    assert msgspec.structs.replace(find_scenario(str(path)), id="guard") == find_scenario("guard")


@pytest.mark.parametrize("name", PEERS)
def test_every_peer_reports_its_availability_and_version(name: str) -> None:
    peer = make_peer(name)
    why = peer.unavailable()
    assert why is None or peer.package in why
    assert peer.version().startswith(peer.package)
