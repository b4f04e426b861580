"""Words of all folders in one table."""

import json
from pathlib import Path
from typing import get_args

import pytest
from flask import Flask

from app.ground.paths import static_dir
from app.lessons.words import question_texts
from app.page import words
from app.scenes.scene_texts import prompts_of
from app.session.closing import Cause
from engine.options.words import option_texts
from engine.trace.messages import Voice


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that replaces `static`, with the glossary that every language needs."""
    monkeypatch.setattr(words, "static_dir", lambda: tmp_path)
    write_words(tmp_path, "i18n", {"sentence.a": ["One, ", "two."]})
    write_words(tmp_path, "bench", {"bench.a": "only there"})
    (tmp_path / "js/i18n/glossary.en.json").write_text("{}", encoding="utf-8")
    return tmp_path


def write_words(folder: Path, folder_name: str, texts: dict[str, str | list[str]]) -> None:
    (folder / "js" / folder_name).mkdir(parents=True)
    (folder / "js" / folder_name / "words.en.json").write_text(json.dumps(texts), encoding="utf-8")


def test_words_of_all_folders_are_joined(folders: Path) -> None:
    write_words(folders, "net", {"net.a": "a"})
    texts = words.words_of("en")["texts"]
    assert (texts["sentence.a"], texts["net.a"], "bench.a" in texts) == ("One, two.", "a", False)


def test_a_key_in_two_folders_is_refused(folders: Path) -> None:
    write_words(folders, "net", {"sentence.a": "another"})
    with pytest.raises(ValueError, match=r"net/words.en.json has 'sentence.a', which another file has too"):
        words.words_of("en")


def test_a_key_of_the_engines_own_words_is_refused(folders: Path) -> None:
    write_words(folders, "net", {next(iter(option_texts("en"))): "another"})
    with pytest.raises(ValueError, match="which another file has too"):
        words.words_of("en")


@pytest.mark.parametrize("language", words.languages())
def test_no_page_repeats_a_key_of_the_benchmark_page(language: str) -> None:
    every = words.bench_words_of(language)["texts"]
    bench_keys = {key for key in every if key.startswith(("bench.", "gain."))}
    assert len(every) > 1000 and len(bench_keys) > 50
    assert not bench_keys & words.words_of(language)["texts"].keys()


@pytest.mark.parametrize("language", words.languages())
def test_every_cause_of_a_runs_end_has_a_sentence(language: str) -> None:
    """`deleted` has a separate text, and `grown` closes recordings without viewers."""
    texts = words.words_of(language)["texts"]
    assert not [cause for cause in set(get_args(Cause)) - {"deleted", "grown"} if f"closed.{cause}" not in texts]


def test_lazy_words_are_sent_with_their_panel_and_are_part_of_exports(folders: Path) -> None:
    write_words(folders, "panels/a", {"a.tab": "A"})
    (folders / "js/panels/a/lazy.en.json").write_text(json.dumps({"a.more": ["more, ", "later"]}), encoding="utf-8")
    assert "a.more" not in words.words_of("en")["texts"]
    assert "a.more" not in words.bench_words_of("en")["texts"]
    exported = words.file_words_of("en")["texts"]
    assert (exported["a.tab"], exported["a.more"]) == ("A", "more, later")


@pytest.mark.parametrize("language", words.languages())
def test_long_texts_are_lazy_but_part_of_exports(language: str) -> None:
    long = words.long_texts(language)
    assert "op.admit.entry.new.long" in long and all(key.endswith(".long") for key in long)
    assert not long.keys() & words.words_of(language)["texts"].keys()
    assert long.items() <= words.file_words_of(language)["texts"].items()


@pytest.mark.parametrize("page", ["", "bench/", "scale/", "telling/"])
def test_missing_texts_of_a_language_fall_back_to_english(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fallback is per key, in all requests for words, scenes, questions, options and operations."""
    shipped = static_dir() / "js"
    for path in [*shipped.rglob("*.en.json"), *shipped.rglob("*.zh.json")]:
        target = tmp_path / "js" / path.relative_to(shipped)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    (tmp_path / "js/i18n/words.eo.json").write_text('{"chain.title": "eo"}', encoding="utf-8")
    monkeypatch.setattr(words, "static_dir", lambda: tmp_path)
    app = Flask(__name__)
    app.register_blueprint(words.blueprint())
    found = {code: app.test_client().get(f"/words/{page}{code}.json") for code in ("en", "eo")}
    assert [answer.status_code for answer in found.values()] == [200, 200]
    english, translated = ((body := answer.get_json()).get("texts", body) for answer in found.values())
    changed = {"chain.title": "eo"} if "chain.title" in english else {}
    assert translated == {**english, **changed} and bool(changed) == (page != "telling/")
    assert words.file_words_of("eo")["texts"].keys() == words.file_words_of("en")["texts"].keys()
    assert words.file_words_of("eo")["glossary"]["eo"] == words.file_words_of("en")["glossary"]["en"]


def test_the_servers_texts_fall_back_to_english() -> None:
    assert question_texts("eo") == question_texts("en") and prompts_of("presets", "moon", "eo")
    assert option_texts("eo") == option_texts("en") != option_texts("zh")
    assert Voice("eo").say("sequence.name", id=1) == Voice("en").say("sequence.name", id=1)
