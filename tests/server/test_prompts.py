"""Page /prompts: posting a file of requests returns the report."""

import json
import re

import pytest
import requests

from app.prompts import page
from tests.tiny_models import byte_level_tokenizer
from tests.unit.prompts.sessions import chat


def send(server, text: str, **form: str) -> requests.Response:
    return requests.post(f"{server.url}/prompts", data=form, files={"file": ("-day.jsonl", text)}, timeout=180)


def test_the_form_speaks_the_readers_language(server) -> None:
    chinese = requests.get(f"{server.url}/prompts", headers={"Accept-Language": "zh-CN"}, timeout=30)
    assert 'lang="zh"' in chinese.text and "no-referrer" not in chinese.headers["Referrer-Policy"]
    assert 'lang="en"' in requests.get(f"{server.url}/prompts?lang=en", timeout=30).text


def test_invalid_uploads_are_refused(server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert send(server, "", policy="nobody's").status_code == 400
    assert requests.post(f"{server.url}/prompts", timeout=30).status_code == 400
    monkeypatch.setattr(page, "MAX_BYTES", 2 << 20)
    large = send(server, "x" * (3 << 20))
    assert large.status_code == 413 and "more than 2 MiB" in large.text
    with page._running:
        assert send(server, "{}").status_code == 409


@pytest.mark.slow
def test_a_file_is_answered_with_its_report_and_leaves_nothing(server, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    bodies = [chat(2), chat(3, "Another. " + "x" * 300)]
    answer = send(server, "\n".join(map(json.dumps, bodies)), lang="zh")
    assert answer.status_code == 200 and "系统提示变了" in answer.text and "-day.jsonl" in answer.text
    assert "script" not in answer.headers["Content-Security-Policy"]
    example = requests.post(f"{server.url}/prompts", data={"example": "1"}, timeout=180)
    assert example.status_code == 200 and "tools were added (+find_symbol)" in example.text
    assert send(server, "nothing").status_code == 422
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_tokenizer_is_chosen_by_name_and_no_path_is_shown(make_server, tmp_path) -> None:
    folder = tmp_path / "secret-folder"
    folder.mkdir()
    byte_level_tokenizer().save_pretrained(folder)
    gone = tmp_path / "gone"
    server = make_server(tokenizers={"bytes": str(folder), "gone": str(gone)})
    form = requests.get(f"{server.url}/prompts?lang=en", timeout=30).text
    assert re.findall(r'<option value="(bytes|gone|bundled)">([^<]+)', form) == [
        ("bytes", "bytes"), ("gone", "gone"), ("bundled", "the bundled model")
    ]  # fmt: skip
    body = {"model": "m", "input": "tide and moon " * 20}
    answers = {name: send(server, json.dumps(body), tokenizer=name, lang="en") for name in ("bytes", "bundled", "gone")}
    count = len(body["input"])
    assert f"{count} tokens" in answers["bytes"].text and f"{count} tokens" not in answers["bundled"].text
    assert (
        "bytes has no chat template" in answers["bytes"].text
        and "Tokens of the bundled model" in answers["bundled"].text
    )
    assert answers["gone"].status_code == 422 and "cannot read the tokenizer of gone" in answers["gone"].text
    assert not any(str(tmp_path) in answer.text for answer in answers.values()) and str(tmp_path) not in form
    for language, sentence in (("en", "This server has no tokenizer ../gone"), ("zh", "本服务器没有分词器 ../gone")):
        refused = send(server, json.dumps(body), tokenizer="../gone", lang=language)
        assert refused.status_code == 400 and sentence in refused.text
