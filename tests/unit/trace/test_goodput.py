"""Goodput counts the requests that meet an objective, which has a text form."""

import pytest

from engine.trace.applications import TABLE
from engine.trace.goodput import APPLICATIONS, SLO, Output, goodput, slo_of

OBJECTIVE = SLO(ttft=0.2, tpot=0.05)


def output(request_id: str, ttft: float | None = 0.1, tpot: float | None = 0.04, finished: bool = True) -> Output:
    return Output(request_id=request_id, is_finished=finished, ttft=ttft, tpot=tpot)


@pytest.mark.parametrize(
    ("outputs", "met", "ended"),
    [
        ([], 0, 0),
        ([output("a"), output("b", ttft=0.2, tpot=0.05)], 2, 2),  # equal times meet the objective
        ([output("a", ttft=0.21), output("b", tpot=0.051)], 0, 2),
        ([output("a", tpot=None)], 1, 1),  # one token has no TPOT
        ([output("a"), output("a", tpot=0.06)], 0, 1),  # the slowest sample of a request counts
        ([output("a"), output("a", finished=False)], 0, 0),  # a request ends with its last sample
        ([output("a", ttft=None, tpot=None, finished=False), output("b")], 1, 1),
    ],
)
def test_requests_that_meet_the_objective_are_counted(outputs: list[Output], met: int, ended: int) -> None:
    found = goodput(outputs, 4.0, OBJECTIVE)
    assert (found.met, found.ended, found.per_second) == (met, ended, met / 4)


def test_goodput_over_no_time_has_no_rate() -> None:
    assert goodput([], 0.0, OBJECTIVE).per_second is None


def test_an_objective_is_an_application_or_a_ttft_and_a_tpot() -> None:
    assert slo_of("chat") == APPLICATIONS["chat"] == SLO(ttft=0.25, tpot=0.1)
    assert slo_of("ttft:250,tpot:62.5") == slo_of("tpot:62.5,ttft:250") == SLO(ttft=0.25, tpot=0.0625)


@pytest.mark.parametrize("text", ["", "talk", "ttft:250", "ttft:0,tpot:1", "ttft:a,tpot:1", "ttft:nan,tpot:1", "e2e:1"])
def test_invalid_objectives_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no objective: one of chat, code, summarising, or milliseconds as in"):
        slo_of(text)


def test_the_table_of_applications_is_that_of_distserve() -> None:
    """Values are those of DistServe, table 1, in seconds."""
    assert [(row.model, row.dataset, row.ttft, row.tpot) for row in TABLE] == [
        ("OPT-13B", "ShareGPT", 0.25, 0.1),
        ("OPT-66B", "ShareGPT", 2.5, 0.15),
        ("OPT-175B", "ShareGPT", 4.0, 0.2),
        ("OPT-66B", "HumanEval", 0.125, 0.2),
        ("OPT-66B", "LongBench", 15.0, 0.15),
    ]
    assert list(APPLICATIONS) == ["chat", "code", "summarising"]
