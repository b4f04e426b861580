"""Presets as the page gets them: complete in both languages, playable, within the server's limits."""

import json
import urllib.request
from typing import Any

import pytest

from engine.config import EngineConfig, SamplingParams
from tests.server.conftest import Client, Server


@pytest.fixture
def facts(server: Server) -> dict[str, Any]:
    with urllib.request.urlopen(server.url + "/api/model") as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def test_every_preset_says_in_both_languages_what_to_watch(facts: dict[str, Any]) -> None:
    for preset in facts["presets"]:
        for text in (preset["title"], preset["watch"], preset["end"], preset["prompts"]):
            assert set(text) == {"en", "zh"} and all(text.values()), preset["id"]
    ids = [preset["id"] for preset in facts["presets"]]
    assert len(set(ids)) == len(ids)


def test_a_preset_names_settings_that_the_page_can_set_back(facts: dict[str, Any]) -> None:
    for preset in facts["presets"]:
        assert set(preset["config"]) <= set(EngineConfig.__struct_fields__) == set(facts["config"])
        assert set(preset["sampling"]) <= set(SamplingParams.__struct_fields__) == set(facts["sampling"])


def test_every_configuration_can_follow_any_other(client: Client, theater: str, facts: dict[str, Any]) -> None:
    """The next preset resets a setting of the previous one, by naming the server's own value."""
    for preset in facts["presets"]:
        config = {**facts["config"], **preset["config"]}
        assert client.do("configure", theater=theater, config=config)["ok"], preset["id"]


def test_several_pages_may_race_at_once(facts: dict[str, Any]) -> None:
    """A page has one session, and three more while it races."""
    assert facts["limits"]["max_theaters"] >= 4 * 4
