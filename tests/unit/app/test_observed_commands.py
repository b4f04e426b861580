"""Commands on a monitored server's log show its reports, and never a 0 for unreported values."""

import json
from pathlib import Path

import pytest

from app.cli import main
from app.recordings.exports import export
from app.session.summary import summarize
from engine.trace.export import ExportError

LOG = str(Path(__file__).parents[2] / "golden" / "observed.kvtrace")


def test_show_prints_messages_and_the_unknown_quantities(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "show", LOG]) == 0
    output = capsys.readouterr().out
    assert "watched  vLLM 0.32.0, m, 1024 blocks of 32" in output
    assert "unknown  ids, ref_counts, copies, requests" in output
    assert "message 3, asked for" in output and "since message 13: gap" in output and "2 metrics" in output
    assert "blocks held" not in output and "Connection refused" in output


@pytest.mark.parametrize(
    "command",
    [["explain"], ["explain", "--json"], *(["export", "--to", to, "-o", "OUT"] for to in ("csv", "kv-events"))],
)
def test_commands_refuse_logs_that_lack_the_data(
    command: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    name, *rest = [part.replace("OUT", str(tmp_path / "out")) for part in command]
    assert main(["trace", name, LOG, *rest]) == 2
    output = capsys.readouterr().err
    assert "reports no requests, tokens, steps" in output and output.count("\n") == 1


def test_two_monitored_logs_are_compared_by_their_operations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "compare", LOG, LOG]) == 0
    output = capsys.readouterr().out
    assert "first operation that differs: none" in output and "preemptions" not in output
    assert main(["trace", "compare", LOG, LOG, "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"first_op", "unknown"}


def test_a_monitored_log_is_not_exported_as_a_table() -> None:
    with pytest.raises(ExportError, match="reports no requests"):
        export(Path(LOG), "csv")


def test_a_summary_of_a_monitored_log_counts_no_requests() -> None:
    assert summarize(Path(LOG)).num_requests is None
