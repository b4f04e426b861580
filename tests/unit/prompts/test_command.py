"""Output of `kvtheater prompts` as text, JSON and a page."""

import json
import re
from pathlib import Path

import pytest

from app.cli import main, prompts
from app.prompts.page import EXAMPLE
from app.prompts.words import words
from engine.prompts.causes import Cause
from engine.prompts.policies import Hit, Limit, Scope
from engine.prompts.report import Break
from engine.prompts.savings import PROPOSALS
from tests.unit.prompts.sessions import SESSIONS


@pytest.fixture(autouse=True)
def characters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the tokenizer by one token per byte."""
    monkeypatch.setattr(prompts, "_encode", lambda name: lambda text: list(text.encode()))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "all.jsonl"
    path.write_text("\n".join(json.dumps(body) for session in SESSIONS for body in session.bodies))
    return path


def test_the_report_lists_hits_breaks_and_savings(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "MAX_BREAKS", 100)
    assert main(["prompts", str(file), "--price", "3", "--model", "llama-2-7b", "--gpu", "a100-80gb"]) == 1
    shown = capsys.readouterr().out
    assert "s of prefill (layers of Llama 2 7B" in shown
    assert main(["prompts", str(file), "--model", "llama-2-7b"]) == 2
    assert "the keys of a schema came in another order" in shown and "more than if they had hit" in shown
    assert "Requests to one instance share this cache" in shown
    assert "would save" in shown and "move what changes out of the system prompt" in shown


def test_a_proposal_saves_the_stated_tokens(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lacking the changing clock, each turn would hit the previous one except its partial last block."""
    clock = next(session for session in SESSIONS if session.name == "clock")
    file.write_text("\n".join(map(json.dumps, clock.bodies)))
    main(["prompts", str(file)])
    assert "2 requests of 1 session, " in capsys.readouterr().out
    main(["prompts", str(file), "--json"])
    found = json.loads(capsys.readouterr().out)
    (saving,) = found["savings"]
    first, second = found["requests"]
    clock_tokens = len("2026-11-27 13:05:10")
    shared = first["num_tokens"] - clock_tokens
    assert saving["num_tokens"] == shared - shared % 16 - second["hits"]["vllm"]["num_tokens"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_loads_nothing_and_escapes_texts(language: str, file: Path, tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror=alert(1)> <script>"
    bodies = [{"model": "m", "messages": [{"role": "system", "content": f"{n} {hostile}"}]} for n in range(2)]
    file.write_text(file.read_text() + "\n" + "\n".join(map(json.dumps, bodies)))
    page = tmp_path / "page.html"
    main(["prompts", str(file), "--html", str(page), "--lang", language])
    text = page.read_text()
    assert "<img" not in text and "<script" not in text and "http:" not in text and "https:" not in text
    assert words(language)("title") in text and words(language)("cause.tools_reordered", detail="write, read") in text


def test_private_output_has_no_text(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    main(["prompts", str(file), "--private", "--html", str(page)])
    main(["prompts", str(file), "--private", "--json"])
    main(["prompts", str(file), "--private"])
    shown = page.read_text() + capsys.readouterr().out
    assert "tower" not in shown and "2026-11-27 13:0" not in shown


@pytest.mark.parametrize(("language", "first"), [("en", "Session 1"), ("zh", "会话 1")])
def test_unnamed_sessions_are_numbered_in_the_pages_language(
    language: str, first: str, file: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    main(["prompts", str(file), "--html", str(page), "--lang", language])
    text = page.read_text()
    assert f"<h3>{first}</h3>" in text and "<h3>session" not in text


def test_the_most_expensive_breaks_come_first_with_links_to_their_turns(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    main(["prompts", str(EXAMPLE), "--html", str(page)])
    text = page.read_text()
    worst = re.findall(r'>([\d,]+) tokens</td>\s*<td><a href="#(request-\d+)">', text)
    counts = [int(count.replace(",", "")) for count, _ in worst]
    assert len(worst) == 3 and counts == sorted(counts, reverse=True)
    assert all(f'<details id="{place}"' in text for _, place in worst)


def test_an_export_reports_its_texts_and_the_costs_of_breaks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    command = ["prompts", str(EXAMPLE), "--html", str(page), "--price", "3"]
    command += ["--model", "llama-2-7b", "--gpu", "a100-80gb"]
    main(command)
    assert "10 requests; the page has texts around 3 breaks and examples of proposals (--private: none)" in (
        capsys.readouterr().out
    )
    assert "s of prefill (layers of Llama 2 7B" in page.read_text() and "more than if it had hit" in page.read_text()
    main([*command, "--private", "--lang", "zh"])
    assert "the page has no texts" in capsys.readouterr().out and "秒的预填充" in page.read_text()


def test_a_proposal_shows_an_example_of_the_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["prompts", str(EXAMPLE), "--json"])
    found = json.loads(capsys.readouterr().out)["savings"]
    for saving in found:
        removed, added = ({line[1:] for line in saving["example"] if line[0] == sign} for sign in "-+")
        assert added and not removed & added
        assert all(len(line) < 120 for line in saving["example"])


def test_evictions_are_reported(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prompts = ["a" * 400, "b" * 400, "c" * 400, "a" * 400]  # 25 blocks each
    file.write_text("\n".join(json.dumps({"input": prompt}) for prompt in prompts))
    assert main(["prompts", str(file), "--num-blocks", "60"]) == 0
    assert "1 request hits less: evicted for request 3" in capsys.readouterr().out


def test_prompts_over_the_pool_are_counted(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = {"role": "user", "content": "a" * 160}  # 10 blocks
    answered = [message, {"role": "assistant", "content": "b" * 80}]
    conversations = [[message], [*answered, {"role": "user", "content": "c" * 16}], [message]]  # 10, 16 and 10 blocks
    file.write_text("\n".join(json.dumps({"messages": messages}) for messages in conversations))
    options = ["prompts", str(file), "--num-blocks", "12"]
    assert main(options) == 0
    shown = capsys.readouterr().out
    assert "1 answer does not fit in the pool of blocks behind the prompt: only its prompt is cached." in shown
    assert "1 request hits less: larger than the pool of blocks" in shown
    page = tmp_path / "page.html"
    main([*options, "--html", str(page)])
    assert "1 answer does not fit in the pool" in page.read_text()
    main([*options, "--json"])
    found = json.loads(capsys.readouterr().out.partition("\n")[2])["requests"]
    assert [one["hits"]["vllm"]["num_tokens"] for one in found] == [0, 0, 144]
    assert [one["is_answer_left_out"] for one in found] == [True, False, False]


def test_numbers_in_causes_and_limits_are_formatted() -> None:
    say = words("en")
    assert say.limit(Hit(0, "too_short", "1024")) == "shorter than the 1,024 tokens that are cached"
    for count, shown in (("1", "1 part"), ("2", "2 parts")):
        parted = Break("messages_dropped", count, "messages[1]", "messages[1]", 0, "", "")
        assert say.cause(parted) == f"earlier messages were left out ({shown})"


def test_every_cause_limit_and_proposal_has_a_text() -> None:
    english, chinese = words("en")._texts, words("zh")._texts
    assert english.keys() == chinese.keys()
    causes = {f"cause.{one}" for one in Cause.__args__ if one not in ("another_question", "new_conversation")}  # type: ignore[attr-defined]
    limits = {f"limit.{one}" for one in Limit.__args__}  # type: ignore[attr-defined]
    scopes = {f"scope.{one}" for one in Scope.__args__}  # type: ignore[attr-defined]
    assert causes | limits | scopes | {f"proposal.{one}" for one in PROPOSALS} <= english.keys()


@pytest.mark.parametrize(("policy", "shown"), [("vllm", ", block {} of 16 tokens each"), ("sglang", "")])
def test_a_break_names_its_block(policy: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    main(["prompts", str(EXAMPLE), "--json"])
    token = json.loads(capsys.readouterr().out)["requests"][5]["parted"]["token"]
    place = f"request 5 at token {token:,}{shown.format(token // 16)}"
    main(["prompts", str(EXAMPLE), "--policy", policy, "--request", "6"])
    assert f"diverges from {place}: " in capsys.readouterr().out
    main(["prompts", str(EXAMPLE), "--policy", policy, "--html", str(page)])
    assert f"It diverges from {place}, " in page.read_text()


def test_the_example_has_three_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    main(["prompts", str(EXAMPLE), "--json"])
    found = json.loads(capsys.readouterr().out)["requests"]
    breaks = [verdict["parted"]["cause"] for verdict in found if verdict["parted"]]
    assert breaks == ["volatile_text", "tools_added", "message_trimmed"]
