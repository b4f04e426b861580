"""Command line: help, exit statuses, one sentence for a mistake, and traces."""

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.__main__ import main
from app.server.listener import bind
from engine.system.cgroup import Memory
from engine.trace import codec
from engine.trace.log import TraceReader, TraceWriter
from engine.trace.records import StepRecord
from tests.preloaded import PreloadedPopen


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    try:
        status = main(arguments)
    except SystemExit as ended:  # argparse
        status = int(ended.code or 0)
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return status, out, err


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["serve"],
        ["replay"],
        ["generate"],
        ["info"],
        ["trace"],
        ["trace", "show"],
        ["trace", "check"],
        ["trace", "export"],
        ["trace", "explain"],
    ],
)
def test_help_has_examples(capsys, command):
    status, out, _ = run(capsys, *command, "--help")
    assert status == 0 and "examples:\n  kvtheater" in out


def test_help_does_not_import_torch():
    code = "import sys; from app.cli import build_parser; build_parser(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_replay_does_not_import_torch():
    """Nothing that serves recordings imports torch: the page is there within a second."""
    code = (
        "import sys; import app.server.application, app.cli.replay; print({'torch', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_options_have_vllms_names(capsys):
    _, out, _ = run(capsys, "serve", "--help")
    names = "block-size max-num-seqs max-num-batched-tokens enable-prefix-caching no-enable-prefix-caching "
    names += "enable-chunked-prefill max-model-len dtype seed scheduling-policy"
    assert [n for n in names.split() if f"--{n}" not in out] == []


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["dance"],
        ["serve", "--block-size", "four"],
        ["serve", "--port", "70000"],
        ["serve", "--max-theaters", "0"],
        ["serve", "--num-blocks", "100000"],
        ["serve", "--data-dir", "pyproject.toml"],
        ["replay", "--data-dir", "pyproject.toml/in/it"],
        ["bench", "run", "guard", "--out", "pyproject.toml/in/it"],
        ["serve", "--class-store", "nonsense"],
        ["serve", "--class-store", "nosuch://host/name"],
        ["generate"],
        ["generate", "x", "--temperature", "-1"],
        ["generate", "x", "--record", "pyproject.toml"],
        ["replay", "nothing.kvtrace"],
        ["replay", "app"],
        ["replay", "pyproject.toml"],
        ["trace", "show", "nothing.kvtrace"],
        ["trace", "show", "tests"],
        ["trace", "explain", "nothing.kvtrace"],
        ["trace", "explain", "pyproject.toml"],
        ["trace", "check", "nothing.kvtrace"],
        ["trace", "check", "pyproject.toml", "--limit", "0"],
        ["trace", "export", "pyproject.toml", "--to", "csv", "-o", "x"],
        ["trace", "export", "nothing.kvtrace", "--to", "perfetto", "-o", "x"],
        ["trace", "export", "nothing.kvtrace"],
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(capsys, arguments):
    status, out, err = run(capsys, *arguments)
    assert status == 2 and not re.sub(r"^bundled, being opened: http://\S+\n", "", out)
    assert err.strip().splitlines()[-1].startswith("kvtheater")


def test_a_used_port_is_reported_before_loading(capsys):
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        status, _, err = run(capsys, "serve", "--port", str(port))
    assert status == 2
    assert err == (
        f"kvtheater: port {port} is in use by another program; choose another with --port, or --port 0 for a free one\n"
    )


def test_without_a_port_the_next_free_one_is_taken():
    with bind("127.0.0.1", None) as first:
        first.listen()
        with bind("127.0.0.1", None) as second:
            assert second.getsockname()[1] > first.getsockname()[1]


def test_trace_show(capsys, trace):
    status, out, err = run(capsys, "trace", "show", str(trace))
    assert status == 0 and not err
    assert "model    fake (2 layers, float32)" in out and "records  6" in out
    lines = out.splitlines()
    assert lines[-6].split(maxsplit=3)[3] == "submit: request-0, 3 prompt tokens"
    assert lines[-5].split(maxsplit=3)[3] == "step: prefill 3 tokens of 1 sequence, admit, allocate -> 'd'"
    assert lines[-1].split(maxsplit=3)[3] == "step: decode 1 token of 1 sequence, free 2, finish -> 'h'"
    _, out, _ = run(capsys, "trace", "show", str(trace), "--json")
    header, *records = [json.loads(line) for line in out.splitlines()]
    assert header["format"] == "kvtrace" and [r["index"] for r in records] == list(range(6))


def test_trace_check(capsys, trace, tmp_path):
    status, out, err = run(capsys, "trace", "check", str(trace))
    assert (status, err) == (0, "")
    assert out == f"{trace}: sound: 6 records, arrays of 5, {trace.stat().st_size:,} bytes\n"
    content = trace.read_bytes()
    cut = tmp_path / "cut.kvtrace"
    cut.write_bytes(content[:-3])
    status, out, _ = run(capsys, "trace", "check", str(trace), str(cut), "--limit", "1")
    lines = out.splitlines()
    assert status == 1 and len(lines) == 3 and ": sound: " in lines[0]
    assert "the file ends inside the capture" in lines[1] and lines[2] == f"{cut}: and 1 more"


def test_trace_export(capsys, trace, tmp_path):
    for to, output, written in (
        ("perfetto", "run.json", ["run.json"]),
        ("csv", "tables", ["tables/steps.csv", "tables/events.csv"]),
        ("kv-events", "run.jsonl", ["run.jsonl"]),
    ):
        arguments = ["trace", "export", str(trace), "--to", to, "-o", str(tmp_path / output)]
        status, out, err = run(capsys, *arguments)
        assert (status, err) == (0, "")
        assert [line.split(": ")[0] for line in out.splitlines()] == [str(tmp_path / name) for name in written]
        status, _, err = run(capsys, *arguments)
        assert status == 2 and "exists already" in err
        assert run(capsys, *arguments, "--force")[0] == 0
    assert not list(tmp_path.rglob("*.part"))
    assert len(json.loads((tmp_path / "run.json").read_text())["traceEvents"]) > 20


def test_tables_that_cannot_be_written_leave_those_before(capsys, trace, tmp_path, monkeypatch):
    arguments = ["trace", "export", str(trace), "--to", "csv", "-o", str(tmp_path / "tables")]
    assert run(capsys, *arguments)[0] == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "tables").iterdir()}

    def write(reader: TraceReader, folder: Path) -> None:
        (folder / "steps.csv").write_text("record,kind\n0,sub")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("engine.trace.export.tables.write_csv", write)
    status, _, err = run(capsys, *arguments, "--force")
    assert status == 2 and err.endswith("tables: No space left on device\n")
    assert {path.name: path.read_bytes() for path in (tmp_path / "tables").iterdir()} == before


def test_trace_show_one_record(capsys, trace):
    status, out, _ = run(capsys, "trace", "show", str(trace), "--record", "1")
    assert status == 0 and "prefill of sequence 0: positions 0 to 2" in out and "allocate seq_id=0 block_id=0" in out
    _, out, _ = run(capsys, "trace", "show", str(trace), "--record", "1", "--json")
    assert json.loads(out)["outputs"][0]["text"] == "d"
    status, _, err = run(capsys, "trace", "show", str(trace), "--record", "6")
    assert status == 2 and "has 6" in err


def test_a_damaged_trace_shows_what_came_before(capsys, trace):
    with TraceReader(trace) as reader:
        frame = reader._records[3]
    content = bytearray(trace.read_bytes())
    content[frame.offset + 5] ^= 0xFF
    trace.write_bytes(content)
    status, out, err = run(capsys, "trace", "show", str(trace))
    assert status == 1
    assert "records  3" in out and out.rstrip().splitlines()[-1].split()[0] == "2"
    assert f"at byte {frame.offset - 9} fails its checksum" in err and len(err.splitlines()) == 1


def test_a_cut_off_trace_and_a_file_that_is_none(capsys, trace, tmp_path):
    trace.write_bytes(trace.read_bytes()[:-3])
    status, out, err = run(capsys, "trace", "show", str(trace))
    assert status == 1 and "records  6" in out and "the file ends inside" in err
    other = tmp_path / "x.kvtrace"
    other.write_bytes(b"hello")
    status, out, err = run(capsys, "trace", "show", str(other))
    assert status == 1 and not out and "not a .kvtrace file" in err


def test_trace_compare(capsys, trace, tmp_path):
    """The fixture's run is compared with the same bytes without the last record."""
    status, out, _ = run(capsys, "trace", "compare", str(trace), str(trace))
    assert status == 0 and "first operation that differs: none" in out and "first token that differs: none" in out
    shorter = tmp_path / "shorter.kvtrace"
    with TraceReader(trace) as reader, TraceWriter(reader.header, shorter) as writer:
        for index in range(5):
            writer.append(reader.record(index), reader.capture(index))
    status, out, _ = run(capsys, "trace", "compare", str(trace), str(shorter))
    assert status == 1
    assert "first operation that differs: record 5, operation 0\n" in out and "B the log ends before" in out
    (row,) = [line.split() for line in out.splitlines() if line.startswith("request-0")]
    assert row[1:] == ["4", "5", "4", "0/0", "0/0"]
    (row,) = [line.split() for line in out.splitlines() if line.startswith("computed_tokens")]
    assert row[1:] == ["7", "6"]  # 3 of the prompt, then one a step
    status, out, _ = run(capsys, "trace", "compare", str(trace), str(trace), "--json")
    found = json.loads(out)
    assert status == 0 and found["first_op"] is None and found["a"] == found["b"]
    assert found["a"]["totals"]["output_tokens"] == 5


def test_trace_compare_of_what_is_none_or_damaged(capsys, trace, tmp_path):
    other = tmp_path / "x.kvtrace"
    other.write_bytes(b"hello")
    for path in (other, tmp_path / "nothing"):
        status, out, err = run(capsys, "trace", "compare", str(trace), str(path))
        assert status == 2 and not out and str(path) in err and len(err.splitlines()) == 1
    other.write_bytes(trace.read_bytes()[:-3])
    status, out, err = run(capsys, "trace", "compare", str(trace), str(other))
    assert status == 1 and "the file ends inside" in err and "first operation" in out


def test_trace_explain(capsys, trace):
    """The last of 3 prompt tokens and 5 new ones needs no K and V, so 7 tokens take at most two blocks of 4."""
    status, out, _ = run(capsys, "trace", "explain", str(trace))
    assert status == 0 and "1 request, 5 steps" in out and "slowest steps" in out and "fullest after record" in out
    (row,) = [line.split() for line in out.splitlines() if line.startswith("request-0") and "length" in line]
    assert row[1:8] == ["0", "3", "0", "5", "0", "0", "2"]
    status, out, _ = run(capsys, "trace", "explain", str(trace), "--request", "request-0")
    assert status == 0 and "sequence 0 arrives with 3 prompt tokens" in out and "its length limit is reached" in out
    status, out, _ = run(capsys, "trace", "explain", str(trace), "--request", "request-0", "--lang", "zh")
    assert (
        status == 0 and "请求 request-0，序列 0" in out and "序列 0 到达：3 个提示词元" in out and "达到长度上限" in out
    )
    status, out, _ = run(capsys, "trace", "explain", str(trace), "--lang", "zh")
    assert status == 0 and "1 个请求，5 步" in out and "最慢的几步" in out and "{" not in out
    status, out, _ = run(capsys, "trace", "explain", str(trace), "--json")
    assert json.loads(out)["totals"]["requests"] == 1
    status, out, err = run(capsys, "trace", "explain", str(trace), "--request", "17")
    assert status == 2 and not out
    assert err == "kvtheater: there is no request '17'; the trace has 1: request-0\n"


def test_a_trace_that_contradicts_itself(capsys, trace, tmp_path):
    """The records, with valid checksums, have a sequence that was never submitted: every command prints one
    sentence.
    """
    other = tmp_path / "nonsense.kvtrace"
    with TraceReader(trace) as reader:
        frames = [codec.frame("header", reader.header_bytes)]
        frames += [codec.frame("record", reader.record_bytes(i)) for i in range(1, len(reader))]
    records = [msgspec.structs.replace(codec.decode(f[codec.FRAME_OVERHEAD :], StepRecord), index=i, has_capture=False)
               for i, f in enumerate(frames[1:])]  # fmt: skip
    other.write_bytes(codec.MAGIC + frames[0] + b"".join(codec.frame("record", codec.encode(r)) for r in records))
    for command in (["compare", str(trace)], ["explain"], ["explain", "--request", "request-0"]):
        status, out, err = run(capsys, "trace", command[0], str(other), *command[1:])
        assert status == 2 and not out and len(err.splitlines()) == 1, (command, err)
    for to in ("perfetto", "kv-events"):
        status, _, err = run(capsys, "trace", "export", str(other), "--to", to, "-o", str(tmp_path / to))
        assert status in (0, 2) and len(err.splitlines()) <= 1
    assert run(capsys, "trace", "check", str(other))[0] == 1


def test_a_full_disk_during_a_recording(tmp_path):
    """A limit on the file's size stands for a full disk: earlier records stay, and are sound."""
    path = tmp_path / "run.kvtrace"
    code = (
        "import resource, sys; from app.cli import main; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)); sys.exit(main(sys.argv[1:]))"
    )
    arguments = ["generate", "Once upon a time", "--max-tokens", "60", "--enforce-eager", "--record", str(path)]
    command = [sys.executable, "-c", code, *arguments]
    with PreloadedPopen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as done:
        out, err = done.communicate()
    with TraceReader(path) as reader:
        assert reader.damage is None and len(reader) > 1
        count = len(reader)
    assert done.returncode == 2 and out.startswith(" ")
    assert err == (f"kvtheater: the log cannot be written: File too large; {path} has the {count} earlier records\n")


def test_a_user_without_a_home_has_a_command_line(capsys, monkeypatch):
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    status, out, _ = run(capsys, "serve", "--help")
    assert status == 0 and "kvtheater-" in out


def test_a_request_to_the_hub_is_announced_before_it_is_sent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.models import live_model

    seen: list[str] = []

    def load(*_: object) -> None:
        seen.append(capsys.readouterr().err)
        raise ValueError("nobody answers")

    monkeypatch.setattr(live_model, "load", load)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [])
    for name in ("nobody/nothing", "./nothing"):
        status, out, err = run(capsys, "info", name)
        assert (status, out) == (2, "") and "nobody answers" in err
    assert seen == ["kvtheater: nobody/nothing is not a folder here; requesting it from the Hugging Face hub\n", ""]
    assert "HF_HUB_OFFLINE" not in os.environ


@pytest.mark.slow
@pytest.mark.parametrize("command", ["info", "size"])
def test_without_a_network_a_model_of_the_hub_is_looked_for_in_its_cache_alone(command: str, tmp_path: Path) -> None:
    """The command prints a sentence and does not retry, which would take 25 s."""
    nowhere = {**os.environ, "HF_ENDPOINT": "https://hub.invalid", "HF_HOME": str(tmp_path), "HF_HUB_VERBOSITY": "info"}
    done = subprocess.run(
        [sys.executable, "-m", "app", command, "nobody/nothing"],
        env=nowhere, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "without a network" in done.stderr and "Traceback" not in done.stderr
    assert "etry" not in done.stderr


def test_loading_stages_are_printed_as_they_begin(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Output without a terminal, as under make, has a line before torch is imported, and one for each stage."""
    from app.models import live_model

    seen: list[list[str]] = []

    def load(*arguments: Any) -> None:
        seen.append(capsys.readouterr().err.splitlines())
        arguments[4]("weights")
        seen.append(capsys.readouterr().err.splitlines())
        raise ValueError("that was enough")

    monkeypatch.setattr(live_model, "load", load)
    status, out, err = run(capsys, "serve", "--port", "0")
    assert (status, out, err) == (2, "", "kvtheater: that was enough\n")
    assert seen == [["kvtheater: loading bundled: starting torch"], ["kvtheater: loading bundled: reading its weights"]]


def test_an_interrupted_command_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from app.models import live_model

    def load(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(live_model, "load", load)
    assert run(capsys, "info") == (130, "", "kvtheater: stopped\n")


@pytest.mark.slow
def test_a_server_that_is_stopped_while_its_model_is_compiled_ends_at_once(tmp_path: Path) -> None:
    """The compiler's threads used to delay the exit for seconds after `stopped` was printed."""
    command = [sys.executable, "-m", "app", "serve", "--port", "0", "--data-dir", str(tmp_path)]
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "XDG_CACHE_HOME": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as server:
        assert server.stdout is not None
        assert "http://" in server.stdout.readline()
        assert "bundled is ready" in server.stdout.readline()
        assert "keys and values" in server.stdout.readline()
        time.sleep(2)  # the compiler is at work
        server.send_signal(signal.SIGINT)
        lines = [server.stdout.readline() for _ in range(2)]
        stopped_at = time.monotonic()
        assert server.wait(30) == 0
        assert lines[0].startswith("stopping: ") and lines[1] == "stopped\n"
        assert time.monotonic() - stopped_at < 10  # compiling takes longer


def test_limits_are_explained_without_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "generate", "a", "--block-size", "1", "--num-blocks", "100000")
    assert status == 2 and "num_blocks 100000 is over the limit of" in err and "server" not in err


@pytest.mark.slow
@pytest.mark.parametrize("host", [[], ["--host", "127.0.0.1"]])
def test_a_class_is_started_for_phones_unless_an_address_is_named(tmp_path: Path, host: list[str]) -> None:
    """The teacher's link is for this machine, with the token and the page of a class; one sentence is about phones."""
    command = [sys.executable, "-m", "app", "serve", "--class", "--port", "0", "--data-dir", str(tmp_path), *host]
    process = PreloadedPopen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        address, phones = process.stdout.readline(), process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/\?(\S+)$", address.strip())
        assert found and "teach=1" in found[2].split("&")
        assert ("token=" in found[2]) == (not host)
        assert ("phones" in phones and found[1] in phones) if not host else "only this machine" in phones
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.parametrize("token", ["short", "sixteen characters or more, but with spaces", "ünïcödé-ünïcödé-ünïcödé"])
def test_a_token_that_is_invalid_in_an_address_is_refused(capsys, monkeypatch, token):
    monkeypatch.setenv("KVTHEATER_TOKEN", token)
    status, _, err = run(capsys, "serve", "--port", "0")
    assert (status, err) == (2, "kvtheater: KVTHEATER_TOKEN must be 16 to 200 letters, digits, - or _\n")


def test_too_little_memory_is_said_before_torch_is_loaded(capsys, monkeypatch):
    monkeypatch.setattr("app.cli.loading.memory", lambda: Memory(available=300 << 20, total=300 << 20))
    status, out, err = run(capsys, "generate", "x")
    assert (status, out) == (2, "")
    assert err == "kvtheater: the memory limit is 300 MiB; torch and a small model need 384 MiB\n"
