"""Unknown words on the command line: the error suggests the one that was probably meant, and nothing far-fetched."""

import pytest

from app.cli import main
from app.cli.options import UserError
from app.cli.trace_explain import timelines_of
from app.ground.paths import static_dir
from engine.trace.explain import Timeline, timelines
from engine.trace.log import TraceReader

TRACE = str(static_dir() / "recordings" / "preemption.kvtrace")  # request-0, request-1, request-2


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        status = main(arguments)
    except SystemExit as ended:  # argparse
        status = int(ended.code or 0)
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["sevre"], "serve"),
        (["trace", "shwo", "x"], "show"),
        (["explain", "x"], "trace explain"),
        (["shwo"], "trace show"),
        (["serve", "--block-sise", "4"], "--block-size"),
        (["serve", "--block-sise=4"], "--block-size"),
        (["generate", "x", "--temprature", "1"], "--temperature"),
        (["serve", "--strategy", "pagd"], "paged"),
    ],
)
def test_a_misspelt_word_gets_a_suggestion(
    capsys: pytest.CaptureFixture[str], arguments: list[str], meant: str
) -> None:
    status, out, err = run(capsys, *arguments)
    assert status == 2 and not out and f"; did you mean {meant}?" in err
    assert "--help" in err and len(err.splitlines()) == 1  # argparse's usage of `serve` has fifty lines


def test_unknown_words_get_no_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["dance"], ["serve", "--qqqq"], ["trace", "show", "a", "b"]):
        status, _, err = run(capsys, *arguments)
        assert status == 2 and "did you mean" not in err


def test_a_request_is_found_by_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    named = run(capsys, "trace", "explain", TRACE, "--request", "request-1")
    assert named[0] == 0 and run(capsys, "trace", "explain", TRACE, "--request", "1") == named


def test_a_number_that_names_no_request_is_a_sequence() -> None:
    """The ids of the API's requests are random: a digit at the end of one is no number of it."""
    everyone = [Timeline(seq_id=i, request_id=name, events=[]) for i, name in enumerate(["cmpl-a0c1", "cmpl-b7c0"])]
    assert [one.request_id for one in timelines_of(everyone, "1")] == ["cmpl-b7c0"]
    with pytest.raises(UserError, match="there is no request '2'"):
        timelines_of(everyone, "2")


def test_a_request_has_its_sequences_of_all_instances(capsys: pytest.CaptureFixture[str]) -> None:
    """The prompt is computed on another instance than the tokens, and missed the cache there."""
    trace = "tests/golden/instances.kvtrace"
    with TraceReader(trace) as log:
        names = {story.seq_id: story.request_id for story in timelines(log)}
    name = next(name.removesuffix("/prefill") for name in names.values() if name.endswith("/prefill"))
    own = {seq_id: one for seq_id, one in names.items() if one in (name, f"{name}/prefill")}
    status, out, _ = run(capsys, "trace", "explain", trace, "--request", name)
    assert status == 0 and [line for line in out.splitlines() if line.startswith("request ")] == [
        f"request {one}, sequence {seq_id}" for seq_id, one in own.items()
    ]


def test_a_misspelt_request_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    for near in ("request1", "r1"):
        status, _, err = run(capsys, "trace", "explain", TRACE, "--request", near)
        assert status == 2 and err.endswith("; did you mean request-1?\n")
    assert "did you mean" not in run(capsys, "trace", "explain", TRACE, "--request", "17")[2]


def test_a_number_that_two_requests_end_with_names_neither() -> None:
    """Both r1 and s1 are suggested; r12 does not end with 1 as a number."""
    everyone = [Timeline(seq_id=i, request_id=name, events=[]) for i, name in enumerate(["r1", "s1", "r12"])]
    with pytest.raises(UserError, match=r"did you mean r1 or s1\?"):
        timelines_of(everyone, "1")
    assert [one.request_id for one in timelines_of(everyone, "12")] == ["r12"]
    assert [one.request_id for one in timelines_of(everyone, "s1")] == ["s1"]
