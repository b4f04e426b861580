"""Page /scale gets queues and rooflines from the server, and a sentence for impossible inputs."""

from pathlib import Path
from typing import Any

import pytest
import requests
from msgspec.structs import replace
from werkzeug.datastructures import MultiDict

from app.ground.errors import AppError
from app.scale import placement as scale_placement
from app.scale.bounds import SECTIONS
from app.scale.placement import answer as placements
from app.scale.placement import tried_answer
from app.scale.queues import answer as queues
from app.scale.roofline import HERE
from app.scale.steps import Subject
from app.scale.steps import answer as roofline
from engine.accounting.roofline_steps import Roof, StepTimes
from engine.bench.record import Figure, Point, write_record
from engine.bench.scenario import find_scenario
from engine.trace.records import ModelFacts
from tests.server.fake import FACTS
from tests.unit.bench.small import record

ROOF = Roof(flops_per_second=2e9, bytes_per_second=1e9, source="the fake machine's")


def subject(facts: ModelFacts = FACTS, *, is_here: bool = False, is_recorded: bool = False) -> Subject:
    return Subject(facts, ROOF, is_here, is_recorded, [], [])


def refused(of: Any, **query: str) -> str:
    with pytest.raises(AppError) as found:
        of(MultiDict(query))
    return found.value.message


def test_queues_over_http(server):
    """For K = 1.5 on two GPUs, D = 0.5 s and R = 1, R · D = 0.5 is below the crossing at 0.936, so splitting is
    faster.
    """
    found = requests.get(f"{server.url}/api/scale/queues?service=0.5&rate=1&speedup=1.5&gpus=2").json()
    means = {line["arrangement"]: line["ttft"]["value"] for line in found["lines"]}
    assert means == pytest.approx({"one": 0.75, "inter": 0.5 + 0.25 / 6, "intra": 0.5 / 1.5 + 0.25 / 3})
    assert found["crossing"]["load"] == pytest.approx(0.9361, abs=5e-5)
    assert found["crossing"]["rate"] == pytest.approx(2 * found["crossing"]["load"])
    for line in found["lines"]:
        ends = line["curve"][0]["seconds"], line["curve"][-1]["load"]
        assert ends == pytest.approx((0.5 / 1.5 if line["arrangement"] == "intra" else 0.5, 0.99 * line["most_load"]))
    assert [row["application"]["model"] for row in found["applications"]][:2] == ["OPT-13B", "OPT-66B"]


def test_a_papers_figures_over_http(server):
    found = requests.get(f"{server.url}/api/scale/paper").json()
    assert [(one["number"], len(one["panels"])) for one in found["figures"]] == [(1, 2), (3, 2), (4, 2), (5, 2)]
    assert [panel["bound"] for panel in found["figures"][0]["panels"]] == [0.4, 0.04]
    assert found["figures"][0]["compared"][0]["printed"] == 1.6 and "internlm-20b" in found["times"][0]


def test_an_application_is_served_as_fast_as_its_slower_side():
    """Decode on one GPU serves 128 / 0.05 tokens a second, 63 a request. A step of 0.15 s misses 0.1 s unless split."""
    rows = queues(MultiDict({"service": "0.1", "step": "0.05"}))["applications"]
    one = rows[0]["served"][0]
    assert one["decode"] == pytest.approx(128 / 0.05 / 63) and 0 < one["prefill"] < 10
    assert one["per_gpu"] == pytest.approx(min(one["prefill"], one["decode"]) / 2)
    slow = queues(MultiDict({"service": "0.1", "step": "0.15", "decode_speedup": "1.8"}))["applications"][0]["served"]
    assert [served["decode"] > 0 for served in slow] == [False, False, True]
    assert [served["per_gpu"] > 0 for served in slow] == [False, False, True]


def test_k_follows_from_length_model_and_link() -> None:
    """The time is D / n + A: 216 ms of a prefill on one A100, and 1.2 GB that each of two sends at 300 GB/s one way."""
    alone, sent, summed, k = queues(MultiDict({}))["split"]["numbers"]
    assert sent.value == 2 * 64 * 2 * 1 / 2 * 512 * 9216 * 2
    assert summed.value == pytest.approx(sent.value / 300e9)
    assert k.value == pytest.approx(alone.value / (alone.value / 2 + summed.value)) and 1.9 < k.value < 2
    slow = queues(MultiDict({"link": "ethernet-25g"}))["split"]["numbers"][-1]
    assert slow.value < 1, "two GPUs over 25 Gbit/s are slower than one"
    by_link = [queues(MultiDict({"link": link}))["split"]["numbers"][-1].value for link in ("pcie-4-x16", "nvlink-4")]
    assert by_link[0] < k.value < by_link[1]
    why = queues(MultiDict({"gpus": "5"}))["split"]
    assert why["numbers"] == [] and why["refused"] and {"en", "zh"} == set(why["refused"])


@pytest.mark.parametrize("of", ["queues", "placement"])
def test_values_outside_the_stated_bounds_are_refused(of: str) -> None:
    answers: Any = {"queues": queues, "placement": placements}[of]
    for name, bounds in SECTIONS[of].items():
        assert bounds.max is not None and (bounds.min is None) != (bounds.over is None)
        low = bounds.min if bounds.min is not None else bounds.over
        assert low is not None
        outside = [bounds.max * 2 + 1, low if bounds.over is not None else low - 1]
        for value in outside:
            assert refused(answers, **{name: f"{value:g}"}), (name, value)


def test_a_rate_beyond_one_gpu_keeps_the_other_values():
    lines = queues(MultiDict({"service": "0.5", "rate": "2.4"}))["lines"]
    assert [line["ttft"] is not None for line in lines] == [False, True, True]
    assert "grows without end unless R · D < 1" in (lines[0]["refused"] or {})["en"] and len(lines[0]["curve"]) > 50


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"rate": "fast"}, "rate is not a number: 'fast'"),
        ({"rate": "nan"}, "rate must be from 0 to"),
        ({"gpus": "2.5"}, "gpus must be a whole number"),
        ({"gpus": "2", "speedup": "3"}, "at most 2 times as fast"),
    ],
)
def test_impossible_queues_are_refused(query: dict[str, str], says: str) -> None:
    assert says in refused(queues, **query)


ENDS = {
    queues: {
        "rate": ["0", "1e6", "-1"], "service": ["1e-6", "1e4", "0"], "gpus": ["2", "64", "1"],
        "speedup": ["1", "2", "64"], "step": ["1e-6", "100", "0"], "batch": ["1", "100000", "0"],
        "decode_speedup": ["1", "2", "0.5", "3"], "output_tokens": ["2", "1000000", "1"], "share": ["0.01", "0.999"],
    },
    placements: {
        "nodes": ["1", "64", "0"], "node_gpus": ["1", "8", "9"], "network": ["0.01", "10000", "0"],
        "rate": ["0.001", "1e5", "0"], "prompt_tokens": ["1", "4095", "4096"], "output_tokens": ["2", "4096", "1"],
        "ttft": ["0.001", "1000", "0"], "tpot": ["0.0001", "100", "x"], "share": ["0.01", "0.999", "1"],
        "model": ["llama-3.1-8b", "gpt2"], "prefill_gpu": ["h100-80gb", "t4"],
    },
}  # fmt: skip


@pytest.mark.parametrize("of", ENDS, ids=["queues", "placements"])
def test_at_every_end_of_a_range_there_is_an_answer_or_a_sentence_in_both_languages(of: Any) -> None:
    for name, values in ENDS[of].items():
        for value in values:
            try:
                found = of(MultiDict({name: value}))
            except AppError as error:
                assert error.translations and "zh" in error.translations, f"{name}={value}: {error.message}"
                continue
            for way in found.get("ways", []):
                assert way["placement"] or "zh" in way["refused"], f"{name}={value}: {way['refused']}"


def test_a_gpu_on_which_the_model_was_not_measured_is_named() -> None:
    query = MultiDict({"model": "llama-3.1-8b", "prefill_gpu": "h100-80gb", "decode_gpu": "h100-80gb"})
    for way in placements(query)["ways"]:
        assert "the layers of Llama 3.1 8B were not measured on H100" in (way["refused"] or {})["en"]


def test_rooflines_over_http_stand_under_the_measured_roofs(server):
    found = requests.get(f"{server.url}/api/scale/roofline?contexts=4,64&batches=1,8").json()
    assert (found["model"], found["is_here"], found["ridge"]["value"], found["roof"]["source"]) == (
        "fake",
        True,
        2,
        HERE,
    )
    assert [(line["context"], len(line["points"])) for line in found["decode"]] == [(4, 2), (64, 2)]
    one, eight = found["decode"][0]["points"]
    assert (one["bound"], eight["bound"]) == ("bandwidth", "compute")
    assert one["flops_per_second"] == pytest.approx(one["intensity"] * 1e9) and eight["flops_per_second"] == 2e9
    wrong = requests.get(f"{server.url}/api/scale/roofline?batches=0")
    assert wrong.status_code == 400 and "batches must be from 1" in wrong.json()["error"]["message"]


def test_a_card_multiplies_faster_in_narrower_dtypes_and_then_reads_narrower_weights(server):
    """An H100 has 1,979e12 instead of 989.5e12 operations a second, and a byte for each weight; K and V stay in two."""

    def answer_of(**choices: str) -> Any:
        chosen = {"model": "llama-3.1-8b", "batch": "1", "context": "1", "contexts": "4096", **choices}
        return requests.get(f"{server.url}/api/scale/roofline", chosen).json()

    half, byte = answer_of(gpu="h100-80gb"), answer_of(gpu="h100-80gb", dtype="float8")
    assert (half["dtype"], byte["dtype"]) == ("float16", "float8")
    assert byte["ridge"]["value"] == 2 * half["ridge"]["value"] == 1979e12 / 3350e9
    steps = [one["chosen"]["decode"]["step"] for one in (half, byte)]
    assert steps[1]["intensity"] == pytest.approx(2 * steps[0]["intensity"], rel=1e-3)
    limits = [one["decode"][0]["crossing"]["limit"]["value"] for one in (half, byte)]
    # of ever more sequences: what the keys and values of each allow, and the embedding of its token
    assert limits[0] == pytest.approx(limits[1], rel=1e-4)
    assert "T4 16GB has no rate in float8; choose from float32, float16, int8" in answer_of(gpu="t4", dtype="float8")[
        "error"
    ]["message"]  # fmt: skip
    own = answer_of(model=HERE, gpu="a100-80gb", contexts="4")
    assert (own["dtype"], own["roof"]["flops_per_second"]) == ("float32", 19.5e12)


def test_a_card_carries_the_error_of_layers_that_were_measured_on_it_or_on_others(server) -> None:
    """An A100 has its own error, a T4 that of other GPUs. A crossing is where the measured roofs meet."""

    def answer_of(gpu: str) -> Any:
        given = {"model": "llama-2-7b", "gpu": gpu, "contexts": "1,4096", "batch": "16", "context": "256"}
        return requests.get(f"{server.url}/api/scale/roofline", given).json()

    own, others = answer_of("a100-80gb"), answer_of("t4")
    assert own["error_source"] == {"kind": "card", "on": "A100 SXM 80GB"}
    assert others["error_source"] == {"kind": "cards", "on": "A100 SXM 80GB, H100 SXM 80GB"}
    error, step = own["errors"]["decode"], own["chosen"]["decode"]["step"]
    assert step["expected"] == pytest.approx([step["seconds"] * error["least"], step["seconds"] * error["most"]])
    near, far = own["decode"]
    assert near["expected"][0] <= near["crossing"]["batch"] <= near["expected"][1]
    assert (far["crossing"]["batch"], far["expected"]) == (None, [None, None])
    least, most = own["prefill"][0]["expected"]
    assert least <= own["prefill"][0]["crossing"] <= most


def test_a_bound_counts_experts_as_they_were_published(server) -> None:
    """A token of gpt-oss-120b uses 3.58 G parameters of experts of 4.25 bits; embedding and output are 579 M each."""
    given = {"model": "gpt-oss-120b", "gpu": "h100-80gb", "batch": "1", "context": "1", "contexts": "1"}
    found = requests.get(f"{server.url}/api/scale/roofline", given).json()
    assert (found["dtype"], found["experts_in"]) == ("float16", "mxfp4")
    experts = (116_829_156_672 - 5_711_982_912) / 124 * 4
    others = 5_711_982_912 - experts - 201_088 * 2_880 + 2_880  # of the input embedding one row is read
    weights = found["chosen"]["decode"]["work"]["weight_bytes"]
    assert weights == pytest.approx(others * 2 + experts * 17 / 32, abs=2)
    narrow = requests.get(f"{server.url}/api/scale/roofline", {**given, "model": "mixtral-8x7b"}).json()
    assert narrow["experts_in"] is None


def test_a_crossing_and_the_formula_with_its_numbers(tmp_path: Path) -> None:
    facts = replace(FACTS, num_params=100_000)
    found = roofline(
        subject(facts, is_here=True), tmp_path, MultiDict({"contexts": "1,1000", "batch": "3", "context": "5"})
    )
    near, far = found["decode"]
    batches = [line["crossing"].batch for line in (near, far)]
    assert None not in batches and batches == sorted(set(batches), key=lambda batch: batch or 0)  # longer: more
    exact = far["crossing"].exact
    assert exact is not None and exact.with_numbers().startswith("2 · ")
    chosen = found["chosen"]["decode"]
    assert (chosen["step"]["batch"], chosen["step"]["context"]) == (3, 5)
    assert chosen["seconds"].formula == "max(F / P, M / W)" and chosen["seconds"].value == chosen["step"]["seconds"]


def test_a_prediction_for_other_hardware_carries_a_measured_error_or_is_not_shown(tmp_path: Path) -> None:
    """Bandwidth and bounds need no error; a time does, which exists once there is a record of step-time."""
    query: MultiDict[str, str] = MultiDict()
    before = roofline(subject(), tmp_path, query)
    assert before["errors"] == {"prefill": None, "decode": None} and before["error_source"] is None
    assert {line["expected"] for line in before["decode"] + before["prefill"]} == {None}
    assert before["saturation"] is None
    assert {p["seconds"] for line in before["decode"] + before["prefill"] for p in line["points"]} == {None}
    assert before["chosen"]["decode"]["seconds"] is None and before["chosen"]["decode"]["intensity"].value > 0

    def figure(value: float) -> Figure:
        return Figure(median=value, low=value, high=value, samples=[value])

    figures = {f"{phase}_{name}_seconds": figure(took) for phase in ("decode", "prefill") for name, took in
               (("step", 3.0), ("roofline", 2.0))}  # fmt: skip
    kept = record({"none": {"seconds": [1.0]}})
    kept = replace(kept, scenario=find_scenario("step-time"), points=[Point(at=32, variant="batch-1", figures=figures)])
    write_record(kept, tmp_path / "step-time.json")
    after = roofline(subject(), tmp_path, query)
    error = after["errors"]["decode"]
    assert error is not None and (error.median, error.least, error.most) == (1.5, 1.5, 1.5)
    for point in (point for line in after["decode"] for point in line["points"]):
        assert point["seconds"] and point["expected"] == pytest.approx((1.5 * point["seconds"], 1.5 * point["seconds"]))
    assert after["dots"] == [] and after["measured_on"] == {"step-time": kept.environment.machine.processor}
    dots = roofline(subject(replace(FACTS, name="bundled"), is_recorded=True), tmp_path, query)["dots"]
    assert [(dot["phase"], dot["batch"], dot["tokens"]) for dot in dots] == [("prefill", 1, 32), ("decode", 1, 32)]
    work = StepTimes(FACTS, ROOF).prefill(1, 32).work
    assert dots[0]["flops_per_second"] == work.flops / 3.0  # as measured, not as predicted


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"context": "5000"}, "context must be from 1 to 1024"),
        ({"contexts": ",".join(["1"] * 13)}, "at most 12 values"),
        ({"batch": "4096", "context": "1024"}, "exceeds the largest step"),
    ],
)
def test_impossible_steps_are_refused(tmp_path: Path, query: dict[str, str], says: str) -> None:
    assert says in refused(lambda given: roofline(subject(is_here=True), tmp_path, given), **query)


def test_other_models_and_gpus_come_from_lists(server):
    address = f"{server.url}/api/scale/roofline"
    here = requests.get(address).json()
    assert here["models"][0] == {"id": HERE, "name": "fake"} and here["gpus"][0]["id"] == HERE
    ids = [one["id"] for one in here["models"]]
    assert {"gpt-3", "deepseek-v3"} < set(ids) and "whisper-large-v3" not in ids  # cross-attention is not counted
    there = requests.get(f"{address}?model=llama-3.1-8b&gpu=a100-40gb&batch=64&context=4096").json()
    assert (there["model"], there["is_here"], there["roof"]["bytes_per_second"]) == ("Llama 3.1 8B", False, 1555e9)
    assert there["chosen"]["decode"]["step"]["bound"] == "bandwidth"
    for wrong in ("model=whisper-large-v3", "gpu=none"):
        answer = requests.get(f"{address}?{wrong}")
        assert answer.status_code == 400 and "is unknown; use one of here, " in answer.json()["error"]["message"]


def test_a_placement_over_http_and_its_simulation(server):
    query = "model=llama-2-7b&rate=20&prompt_tokens=256&output_tokens=16&ttft=0.3&tpot=0.1&nodes=1&node_gpus=4"
    found = requests.get(f"{server.url}/api/scale/placement?{query}").json()
    assert [one["way"] for one in found["ways"]] == ["apart", "on_one_node", "together"]
    first = found["ways"][0]["placement"]
    assert [one["kind"] for one in first["options"]] == ["prefill", "decode"] and first["gpus"] == 2
    assert {one["id"] for one in found["gpus"]} == {"a100-80gb", "h100-80gb"} and "vidur" in found["times_source"]
    tried = requests.get(f"{server.url}/api/scale/tried?{query}&way=apart").json()
    assert tried["way"] == "apart" and tried["tried"]["num_requests"] == 300
    assert 0.9 < tried["tried"]["within_both"] <= 1


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"model": "gpt2"}, "no layer times of model 'gpt2'; use one of llama-2-7b, "),
        ({"prefill_gpu": "t4"}, "no layer times of prefill_gpu 't4'"),
        ({"prompt_tokens": "5000"}, "prompt_tokens must be from 1 to 4095"),
    ],
)
def test_impossible_placements_are_refused(query: dict[str, str], says: str) -> None:
    assert says in refused(placements, **query)


def test_simulations_of_a_placement_are_small_and_run_one_at_a_time() -> None:
    """A trial takes a core for seconds, so a second one is refused."""
    many = {"rate": "3000", "nodes": "64", "way": "on_one_node"}
    assert "instances exceed the maximum of 16" in refused(tried_answer, **many)
    with scale_placement.trying:
        assert "another placement is being simulated" in refused(tried_answer)
    assert tried_answer(MultiDict({"output_tokens": "2"}))["tried"].num_requests == 300


def test_sizes_of_a_posted_configuration_over_http(server):
    """The two layers have 4 KV heads of 8 numbers, keys and values, 2 bytes each."""
    config = {
        "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48, "vocab_size": 100,
        "num_attention_heads": 4,
    }  # fmt: skip
    found = requests.post(f"{server.url}/api/scale/size?batch=3", json=config).json()
    assert {one["id"]: one["value"] for one in found["sizes"]}["kv_token"] == 2 * 2 * 4 * 8 * 2
    assert found["load"]["batch"] == 3 and found["model"]["id"] == ""


@pytest.mark.parametrize(
    ("body", "english", "chinese"),
    [
        (b"{}", "lacks model_type", "没有 model_type"),
        (b" " * (256 * 1024 + 1), "at most 262144 bytes", "最多 262144 字节"),
    ],
)
def test_invalid_configurations_are_refused_in_both_languages(server, body, english, chinese):
    answered = requests.post(f"{server.url}/api/scale/size", data=body)
    error = answered.json()["error"]
    assert answered.status_code == 400 and english in error["message"] and chinese in error["said"]["zh"]
