"""`kvtheater serve` in a process of its own, with the bundled model."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from app.cli import main
from engine.trace import codec
from engine.trace.log import TraceReader
from engine.trace.records import Capture, StepRecord
from tests.conftest import ROOT
from tests.server.conftest import Client, wait_for

POEM = "春江潮水连海平，海上明月共潮生。"


def test_a_poem_is_computed_step_by_step(live_server: str, viewer: Client, tmp_path: Path) -> None:
    made = viewer.do("create", config={"block_size": 4}, name="live")
    theater = made["theater"]
    # ASCII punctuation after a Chinese character becomes full width for this model
    prompt = POEM.replace("，", ",")
    shown = viewer.do("tokenize", text=prompt)
    assert shown["text"] == POEM and b"".join(shown["token_bytes"]).decode().strip() == POEM
    (request,) = viewer.do("submit", theater=theater, prompts=[{"text": prompt}], sampling={"max_tokens": 8})[
        "requests"
    ]
    assert request["num_prompt_tokens"] == len(shown["token_ids"])
    assert viewer.do("prefill", theater=theater)["performed"] == 1
    performed = viewer.do("step", theater=theater, count=100)["performed"]
    assert 1 <= performed <= 7
    wait_for(lambda: len(viewer.records()) == 2 + performed)
    records = [codec.decode(r, StepRecord) for r in viewer.records()]
    assert [r.kind for r in records] == ["submit"] + ["step"] * (1 + performed)
    captures = [c for b in viewer.batches for c in b["captures"]]
    newest = codec.decode(captures[-1], Capture)
    assert len(newest.layers) == requests.get(f"{live_server}/api/model").json()["model"]["num_layers"]
    path = tmp_path / "live.kvtrace"
    path.write_bytes(requests.get(f"{live_server}/api/theaters/{theater}/trace").content)
    with TraceReader(path) as reader:
        assert reader.damage is None
        assert [reader.record_bytes(i) for i in range(len(reader))] == viewer.records()
        assert reader.state_at(len(reader) - 1).running == []


def test_the_engines_refusals_reach_the_client(viewer: Client) -> None:
    theater = viewer.do("create", config={"max_model_len": 32})["theater"]
    error = viewer.refused("submit", theater=theater, prompts=[{"text": POEM * 4}])
    assert error["code"] == "refused" and "32" in error["message"] and "max_model_len 32" in error["said"]["zh"]
    assert "提示词是空的" in viewer.refused("submit", theater=theater, prompts=[{"text": ""}])["said"]["zh"]
    for config in ({"block_size": 0}, {"num_blocks": 10**6}, {"max_num_seqs": 10**6}, {"seed": 2**53}):
        error = viewer.refused("configure", theater=theater, config=config)
        assert error["code"] == "refused" and str(next(iter(config.values()))) in error["message"]
    assert viewer.do("step", theater=theater)["num_records"] == 0


def test_a_signal_ends_the_server_cleanly() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "serve", "--port", "0"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
        line = process.stdout.readline()
        assert re.search(r"ready on .*equal to its own forward pass within \de-\d\d of .* \(seen in \d\.\d\d s\)", line)
        assert address and requests.get(address.group() + "api/health").json()["ok"]
        viewer = Client(address.group().rstrip("/"))
        theater = viewer.do("create")["theater"]
        viewer.do("submit", theater=theater, prompts=[{"text": POEM}] * 4, sampling={"max_tokens": 200})
        viewer.do("run", theater=theater, speed=0)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
        # where loading takes long, it says what it does
        lines = [line for line in err.splitlines() if not line.startswith("kvtheater: loading ")]
        assert process.returncode == 0 and lines == []
        kept, *rest = out.splitlines()  # the compiled pass may be there already, and says so
        assert kept == "4 layers keep keys and values, 2,048 bytes a token"
        assert rest[-2:] == ["stopping: closing 1 session with 1 viewer; interrupt again to stop at once", "stopped"]
        assert [closed["theater"] for closed in viewer.closed] == [theater]
    finally:
        process.kill()
        process.wait()


def test_generate(tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    done = subprocess.run(
        [sys.executable, "-m", "app", "generate", POEM, "--max-tokens", "4", "--record", str(path)],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == ""
    with TraceReader(path) as reader:
        text = "".join(o.text for i in range(len(reader)) for o in reader.record(i).outputs)
        assert reader.capture(1) is not None
    assert done.stdout == text + "\n"


def test_info_of_a_missing_file_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "no/such/folder"]) == 2
    assert capsys.readouterr().err == "kvtheater: there is no folder no/such/folder\n"
