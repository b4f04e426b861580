"""`kvtheater simulate`: requests of a file on hardware that this machine lacks."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from engine.bench.workload import TRACES
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.trace.check import check
from engine.trace.log import TraceReader
from tests.unit.engine.runs import tiny_llama

SHIPPED = str(TRACES / "mooncake-conversation.jsonl")
A100 = ["--model", "llama-2-7b", "--gpu", "a100-80gb"]


def run_simulation(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["simulate", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["simulate", *arguments]) == 2
    return capsys.readouterr().err


def requests(folder: Path, *rows: dict[str, Any]) -> str:
    path = folder / "requests.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_simulation_on_a_gpu_writes_a_valid_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    arguments = [SHIPPED, *A100, "--scale", "16", "--num-requests", "40", "--record", str(path)]
    found = run_simulation(capsys, *arguments)
    assert (found["requests"], found["rejected"]) == (40, 0) and found["ttft"]["p50"] < found["ttft"]["p99"]
    assert not list(check(path))
    with TraceReader(path) as log:
        assert log.header.simulated is not None and log.header.model.name == "Llama 2 7B"
        assert len(log.state_at(len(log) - 1).finished) == 40
    assert "exists already" in refusal(capsys, *arguments)


def test_the_time_of_a_simulated_request_equals_a_hand_calculation(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A prompt of 512 tokens takes 32 layers of 1.0495 ms and the roofline's time for the other parts. Two decode steps
    follow.
    """
    file = requests(tmp_path, {"timestamp": 5, "input_length": 512, "output_length": 3, "hash_ids": [1]})
    found = run_simulation(capsys, file, *A100)
    assert found["steps"] == 3 and found["ttft"] is None  # one request has no percentiles
    assert 32 * (1.0495e-3 + 2 * 0.282e-3) < found["seconds"] < 32 * (1.1e-3 + 2 * 0.3e-3)


@pytest.mark.parametrize("setting", [["--kv-cache-dtype", "int4"], ["--attention-window", "64"]])
def test_smaller_keys_or_fewer_keys_make_decoding_faster(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, setting: list[str]
) -> None:
    """Reading the keys and values of 8 sequences of 4,000 tokens takes almost half of a step."""
    rows = [{"timestamp": 0, "input_length": 3500, "output_length": 500} for _ in range(8)]
    file = requests(tmp_path, *rows)
    usual, other = run_simulation(capsys, file, *A100), run_simulation(capsys, file, *A100, *setting)
    assert other["tpot"]["p50"] < 0.8 * usual["tpot"]["p50"]


def test_disaggregated_prefill_transfers_the_cache(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [SHIPPED, *A100, "--scale", "16", "--num-requests", "20", "--prefill", "1", "--decode", "1"]
    found = run_simulation(capsys, *arguments, "--link-gb-per-second", "25")
    assert found["moved_bytes"] > 0 and len(found["busy"]) == 2


@pytest.mark.parametrize(
    "setting", [[], ["--prefill", "1", "--decode", "1"], ["--num-blocks", "100", "--max-num-seqs", "64"]]
)
def test_prompt_tokens_are_counted_once(capsys: pytest.CaptureFixture[str], tmp_path: Path, setting: list[str]) -> None:
    """Transfers to a decode instance and lookups after a preemption count no tokens."""
    rows = [{"timestamp": 0, "input_length": 512, "output_length": 64, "hash_ids": [i]} for i in range(12)]
    found = run_simulation(capsys, requests(tmp_path, *rows), *A100, *setting)
    assert found["prompt_tokens"] == 12 * 512 and found["hit_tokens"] == 0
    assert (found["preemptions"] > 0) == ("--num-blocks" in setting)


def test_long_times_are_printed_without_exponents(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = [{"timestamp": 0, "input_length": 512, "output_length": 2000, "hash_ids": [i]} for i in range(120)]
    file = requests(tmp_path, *rows)
    for more in ([], ["--sweep", "max-num-seqs=1", "--processes", "1"]):
        assert main(["simulate", file, *A100, "--max-num-seqs", "1", *more]) == 0
        text = capsys.readouterr().out
        assert "e+0" not in text and "TTFT" in text and " s" in text


BAILIAN = [
    {"chat_id": 1, "parent_chat_id": -1, "timestamp": 10.0, "input_length": 48, "output_length": 4, "type": "text",
     "turn": 1, "hash_ids": [1, 2, 3]},
    {"chat_id": 2, "parent_chat_id": -1, "timestamp": 20.0, "input_length": 48, "output_length": 4, "type": "text",
     "turn": 1, "hash_ids": [1, 9, 8]},
]  # fmt: skip


def test_bailian_files_are_recognized_by_their_fields(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = run_simulation(capsys, requests(tmp_path, *BAILIAN), *A100)
    assert found["reading"] == "bailian: 16 tokens per hash, timestamps in s"
    assert found["hit_tokens"] == 16 and 10 < found["seconds"] < 11


def test_tokens_per_hash_are_inferred_from_the_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Timestamps of rows without chat fields are milliseconds. The last hash may cover fewer tokens."""
    rows = [
        {"timestamp": 10 * i, "input_length": 100, "output_length": 4, "hash_ids": [1, 2, 3, 5 + i]} for i in range(2)
    ]
    found = run_simulation(capsys, requests(tmp_path, *rows), *A100)
    assert found["reading"] == "mooncake: 32 tokens per hash, timestamps in ms"
    assert found["hit_tokens"] == 96 and found["seconds"] < 1
    assert "scale must divide 32" in refusal(capsys, requests(tmp_path, *rows), *A100, "--scale", "64")


@pytest.mark.parametrize(
    ("lengths", "error"),
    [
        ([(48, 3), (48, 4)], "line 1 has at least 16 tokens per hash and line 2 at most 15"),
        ([(200, 3)], "its rows have 67 to 99 tokens per hash"),
        ([(48, 0)], "line 1: hash_ids"),
    ],
)
def test_rows_without_a_unique_number_of_tokens_per_hash_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, lengths: list[tuple[int, int]], error: str
) -> None:
    rows = [
        {"timestamp": 0, "input_length": length, "output_length": 1, "hash_ids": list(range(count))}
        for length, count in lengths
    ]
    assert error in refusal(capsys, requests(tmp_path, *rows), *A100)
    mixed = requests(tmp_path, BAILIAN[0], {**BAILIAN[1], "turn": None})
    assert "in every row of a file, or in none" in refusal(capsys, mixed, *A100)


def test_like_uses_model_settings_and_step_times_of_a_recorded_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The simulation uses the recorded run's model, settings and step times for other requests."""
    path, out = tmp_path / "first.kvtrace", tmp_path / "again.kvtrace"
    arguments = [SHIPPED, "--scale", "16", "--num-requests"]
    run_simulation(capsys, *arguments, "60", *A100, "--block-size", "8", "--record", str(path))
    on_gpu = run_simulation(capsys, *arguments, "40", *A100, "--block-size", "8", "--num-blocks", "500")
    like_run = run_simulation(
        capsys, *arguments, "40", "--like", str(path), "--num-blocks", "500", "--record", str(out)
    )
    assert like_run["source"] == "steps of first.kvtrace" and like_run["hit_tokens"] == on_gpu["hit_tokens"]
    assert like_run["tpot"]["p50"] == pytest.approx(on_gpu["tpot"]["p50"], rel=0.05)
    with TraceReader(path) as log, TraceReader(out) as simulated_log:
        assert simulated_log.header.model == log.header.model
        assert simulated_log.header.engine["block_size"] == 8 and simulated_log.header.engine["num_blocks"] == 500


def test_a_model_with_a_small_vocabulary_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "tiny.kvtrace"
    with Engine(tiny_llama(), EngineConfig(block_size=4, num_blocks=64), log_path=path) as engine:
        engine.add_request([1, 2, 3], SamplingParams(max_tokens=20, ignore_eos=True))
        while engine.has_unfinished():
            engine.step()
    assert "is too small: prompts are drawn from 300 on" in refusal(capsys, SHIPPED, "--like", str(path))


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("{", "requests.jsonl, line 1: "),
        ('{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [1]}', "do not cover the prompt"),
        ('{"timestamp": 0, "input_length": "a", "output_length": 1, "hash_ids": [1]}', "line 1: Expected `int`"),
        ('{"timestamp": 0, "input_length": 5000, "output_length": 1, "hash_ids": [1,2,3,4,5,6,7,8,9,10]}',
         "has no request of at most 4096 tokens"),
        ('{"timestamp": 0, "input_length": 0, "output_length": 1, "hash_ids": []}', "at least 1 input token"),
        ('{"timestamp": 0, "input_length": 5, "output_length": -2, "hash_ids": [1]}', "at least 1 input token"),
        ('{"timestamp": 0, "input_length": 5, "output_length": 2, "hash_ids": [-1]}', "do not cover the prompt"),
        ('{"timestamp": 9, "input_length": 5, "output_length": 2, "hash_ids": [1]}\n'
         '{"timestamp": 8, "input_length": 5, "output_length": 2, "hash_ids": [1]}', "line 2: 8 is earlier"),
    ],
)  # fmt: skip
def test_invalid_request_files_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, row: str, error: str
) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(row + "\n")
    assert error in refusal(capsys, str(path), *A100)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "give --model and --gpu, or --like"),
        (["--model", "llama-2-70b", "--gpu", "a100-80gb"], "does not fit on 1 × A100 SXM 80GB"),
        ([*A100, "--tp", "3"], "measured were 1, 2, 4, 8 GPUs"),
        ([*A100, "--scale", "0"], "scale must divide 512"),
        ([*A100, "--scale", "3"], "scale must divide 512, the tokens per hash; 3 does not"),
        ([*A100, "--num-requests", "0"], "--num-requests must be from 1"),
        ([*A100, "--link-gb-per-second", "0"], "--link-gb-per-second must be from"),
        ([*A100, "--link-gb-per-second", "-3"], "--link-gb-per-second must be from"),
        (
            [*A100, "--forget-policy", "h2o"],
            "with forget_policy, the computed tokens and the freed blocks depend on the model",
        ),
        (
            [*A100, "--speculative-config", '{"num_speculative_tokens":2}'],
            "with speculative_config, the computed tokens",
        ),
        ([*A100, "--like", "run.kvtrace"], "omit --model and --gpu"),
        (["--like", "nothing.kvtrace"], "cannot read nothing.kvtrace"),
        (["--like", SHIPPED], "not a .kvtrace file"),
    ],
)
def test_impossible_simulations_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    assert error in refusal(capsys, SHIPPED, *arguments)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [SHIPPED, *A100, "--scale", "32", "--num-requests", "3", "--record", "/dev/full", "--force"]
    assert "cannot write" in refusal(capsys, *arguments)


def test_a_sweep_gives_the_figures_of_separate_runs(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [SHIPPED, *A100, "--scale", "16", "--num-requests", "20"]
    swept = ["--sweep", "stretch=0.5,2", "--sweep", "enable_prefix_caching=on,off", "--processes", "2"]
    rows = run_simulation(capsys, *arguments, *swept)
    assert [row["settings"] for row in rows] == [
        {"stretch": stretch, "enable-prefix-caching": caching} for stretch in ("0.5", "2") for caching in ("on", "off")
    ]
    single = run_simulation(capsys, *arguments, "--stretch", "2", "--no-enable-prefix-caching")
    assert rows[3]["figures"] == single and rows[2]["figures"]["hit_tokens"] > 0 == single["hit_tokens"]


def test_refused_points_of_a_sweep_are_listed_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [SHIPPED, "--model", "llama-2-70b", "--gpu", "a100-80gb", "--scale", "16", "--num-requests", "3"]
    assert main(["simulate", *arguments, "--sweep", "tp=1,4", "--processes", "1"]) == 0
    head, row, why = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["tp", "seconds"] and row.split()[0] == "4"
    assert why == "tp 1: Llama 2 70B does not fit on 1 × A100 SXM 80GB; give more GPUs with --tp"


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        (["tp"], "--sweep takes an option and its values, such as num-blocks=64,128; not 'tp'"),
        (["tp=1,,2"], "--sweep takes an option and its values"),
        (["tp=1", "tp=2"], "takes each option once"),
        (["enable-prefix-caching=yes"], "--sweep enable-prefix-caching takes on and off, not 'yes'"),
        ([f"seed={','.join(map(str, range(101)))}", f"tp={','.join(map(str, range(100)))}"], "10100 combinations"),
    ],
)
def test_invalid_sweeps_are_refused(capsys: pytest.CaptureFixture[str], sweep: list[str], message: str) -> None:
    words = [word for one in sweep for word in ("--sweep", one)]
    assert message in refusal(capsys, SHIPPED, *A100, *words)
    assert "--record is for one run" in refusal(capsys, SHIPPED, *A100, "--sweep", "tp=1", "--record", "x.kvtrace")


def test_a_tokenizer_is_opened_only_for_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 40, "output_length": 4}\n')
    command = ["simulate", str(path), "--model", "llama-2-7b", "--gpu", "a100-80gb"]
    assert main([*command, "--tokenizer", str(tmp_path / "gone")]) == 0
    path.write_text('{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}\n')
    assert main([*command, "--tokenizer", str(tmp_path / "gone")]) == 2
    assert "cannot read the tokenizer" in capsys.readouterr().err
