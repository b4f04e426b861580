"""Prefixes that are worth caching for later requests."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.cli import main, prompts
from app.prompts.words import words
from engine.prompts.policies import policies
from engine.prompts.readers import PromptRequest
from engine.prompts.report import CacheReplay, Settings
from engine.prompts.segments import segments_of
from engine.prompts.worth_keeping import Prefix, worth_keeping


def encode(text: str) -> list[int]:
    return list(text.encode())


def body(system: str, *messages: str, model: str = "m") -> dict[str, Any]:
    return {
        "model": model,
        "messages": [{"role": "system", "content": system}, *({"role": "user", "content": one} for one in messages)],
    }


def prefixes_of(bodies: list[dict[str, Any]], policy: str = "sglang") -> list[Prefix]:
    player = CacheReplay(encode, Settings(policy))
    verdicts = [player.run(PromptRequest(n, one["model"], segments_of(one))) for n, one in enumerate(bodies, 1)]
    return worth_keeping(player.trees, verdicts, policies()[policy])


SYSTEM, LONG = "s" * 100, "l" * 1000
BODIES = [
    *(body(SYSTEM, LONG, f"{n} question") for n in range(3)),
    *(body(SYSTEM, f"{n} other question") for n in range(4)),
    body("another", "once"),
]


def test_each_prefix_counts_requests_without_a_longer_prefix() -> None:
    longer, shorter = prefixes_of(BODIES)
    assert (longer.num_saved, longer.num_tokens, longer.num_later) == (2 * 1100, 1100, 2)
    assert longer.paths == ["messages[0].content", "messages[1].content"] and longer.request == 2
    assert (shorter.num_saved, shorter.num_tokens, shorter.num_later) == (4 * 100, 100, 4)
    assert shorter.paths == ["messages[0].content"]


def test_a_longer_prefix_counts_only_the_tokens_after_a_shorter_one() -> None:
    few = [body(SYSTEM, "l" * 50, "a"), body(SYSTEM, "l" * 50, "b"), *(body(SYSTEM, f"{n} other") for n in range(9))]
    shorter, longer = prefixes_of(few)
    assert (shorter.num_saved, shorter.num_later, longer.num_saved) == (10 * 100, 10, 50)


def test_prefixes_are_multiples_of_the_policys_unit() -> None:
    assert prefixes_of(BODIES, "vllm")[0].num_tokens == 1100 - 1100 % 16
    assert [prefix.num_tokens for prefix in prefixes_of(BODIES, "openai")] == [1024]


def test_models_share_no_prefix() -> None:
    assert prefixes_of([body(SYSTEM, "a"), body(SYSTEM, "b", model="other")]) == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_text_json_and_page_list_the_prefixes(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prompts, "_encode", lambda name: encode)
    file, page = tmp_path / "file.jsonl", tmp_path / "page.html"
    file.write_text("\n".join(map(json.dumps, BODIES)))
    main(["prompts", str(file), "--private", "--json"])
    prefix, _ = json.loads(capsys.readouterr().out)["prefixes"]
    assert (prefix["num_tokens"], prefix["num_later"]) == (1088, 2)
    main(["prompts", str(file)])
    shown = capsys.readouterr().out
    assert "prefixes worth caching," in shown and "1,088 tokens, 2 later requests: messages[0].content …" in shown
    main(["prompts", str(file), "--html", str(page), "--lang", language])
    text = page.read_text()
    place = "messages[0].content … messages[1].content"
    assert words(language)("keep") in text
    assert words(language)("prefix", tokens=1088, later=2, place=place, request=3) in text
