"""Effect of another pool size, over HTTP."""

import time
from pathlib import Path

import pytest
import requests

from app.ground.errors import AppError
from app.log_index.what_if import WhatIfAnswer, WhatIfs
from app.session.run import OpenLog
from engine.simulate.what_if import what_if
from engine.trace.log import TraceReader
from tests.load.large_log import Shape, write

GOLDEN = Path(__file__).parents[1] / "golden" / "samples-0.2.0.kvtrace"
OBSERVED = GOLDEN.with_name("observed.kvtrace")


def waited(what_ifs: WhatIfs, run: OpenLog, times: float) -> WhatIfAnswer:
    for _ in range(600):
        answer = what_ifs.answer(run, times)
        if "found" in answer:
            return answer
        time.sleep(0.05)
    raise AssertionError("no answer")


def test_the_answer_equals_the_replay(tmp_path: Path) -> None:
    path = tmp_path / "pressed.kvtrace"
    write(path, Shape(blocks=700, requests=60, steps=600))
    run, what_ifs = OpenLog(0, TraceReader(path)), WhatIfs()
    answer = waited(what_ifs, run, 2.0)
    with TraceReader(path) as log:
        expected = what_if(log)
    assert answer["found"]["other"]["preemptions"] == expected.other.preemptions < expected.log.preemptions
    assert answer["found"]["differs_in"] is None
    what_ifs.close()
    run.retire()


def test_no_more_is_replayed_than_is_shown_and_a_log_needs_no_name() -> None:
    run, what_ifs = OpenLog(0, TraceReader(GOLDEN)), WhatIfs()
    whole = waited(what_ifs, run, 2.0)["found"]["num_records"]
    other = OpenLog(0, TraceReader(GOLDEN))
    other.hold_back(whole - 3)
    assert other.log.path is None  # its file holds more
    assert waited(what_ifs, other, 2.0)["found"]["num_records"] == whole - 3
    what_ifs.close()


def test_what_if_runs_one_at_a_time() -> None:
    run, what_ifs = OpenLog(0, TraceReader(GOLDEN)), WhatIfs()
    assert what_ifs.answer(run, 2.0)["done"] == 0.0
    with pytest.raises(AppError, match="another replay"):
        what_ifs.answer(run, 3.0)
    waited(what_ifs, run, 2.0)
    with pytest.raises(AppError, match="at most 64"):
        what_ifs.answer(run, 65.0)
    watched = OpenLog(0, TraceReader(OBSERVED))
    what_ifs.answer(watched, 2.0)
    with pytest.raises(AppError, match="a monitored server reports no"):
        waited(what_ifs, watched, 2.0)
    what_ifs.close()


def test_over_http(server) -> None:
    def ask(**query: str) -> requests.Response:
        return requests.get(f"{server.url}/api/theaters/rec-moon/what_if", params=query, timeout=20)

    for _ in range(600):
        answer = ask()
        if answer.status_code == 422 or "found" in answer.json():
            break
        time.sleep(0.05)
    assert answer.status_code == 200 and answer.json()["found"]["log"]["finished"] > 0, answer.json()
    assert ask(times="many").status_code == 400 and ask(times="-1").status_code == 400
