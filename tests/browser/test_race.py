"""With and without a cache: three strategies in step on the page, held against the server's own records."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import prefill, shows
from tests.browser.settling import comes_to, theater_of

OpenPage = Callable[..., Page]


def steps(page: Page, count: int) -> None:
    """Take `count` steps of the race, one at a time."""
    for _ in range(count):
        before = int(page.locator("#race").get_attribute("data-step") or 0)
        page.click("#race-step")
        expect(page.locator("#race")).to_have_attribute("data-step", str(before + 1))


def run_to_the_end(page: Page) -> None:
    page.select_option("#race-speed", "0")
    page.click("#race-run")
    expect(page.locator("#race")).to_have_attribute("data-phase", "done", timeout=60_000)


def figure(page: Page, strategy: str, name: str) -> str:
    return page.locator(f'[data-strategy-lane="{strategy}"] [data-figure="{name}"]').inner_text()


def records_of(page: Page, strategy: str, like: str) -> list[dict[str, Any]]:
    """The newest race's records of this strategy, as the server has them; `like`: the first token of its prompt."""
    theaters = page.evaluate("fetch('/api/theaters').then((r) => r.json())")["theaters"]
    for theater in reversed(theaters):
        if theater["name"] != f"race: {strategy}":
            continue
        count, path = theater["status"]["num_records"], f"/api/theaters/{theater['theater']}/records"
        found: list[dict[str, Any]] = [
            page.evaluate("(url) => fetch(url).then((r) => r.json())", f"{path}/{i}?format=json") for i in range(count)
        ]
        if found and found[0]["ops"][0]["prompt_token_bytes"][0] == like.encode().hex():
            return found
    pytest.fail(f"no race of {strategy}")


def test_the_sentence_counts_what_each_step_computed(open_page: OpenPage) -> None:
    """16 prompt tokens: the second step computes 17 without a cache, the third 18."""
    page = open_page("/?detail=race&max_tokens=4")
    expect(page.locator("#race-sentence")).to_contain_text("three strategies in step")
    steps(page, 1)
    expect(page.locator("#race-sentence")).to_contain_text("all three computed the prompt’s 16 tokens")
    steps(page, 2)
    said = page.locator("#race-sentence").inner_text()
    assert re.match(
        r"Step 3: without a cache 18 tokens were computed, 17 of them again; with it 1; all three chose “.”", said
    )
    assert [figure(page, s, "computed") for s in ("none", "contiguous", "paged")] == ["18", "1", "1"]
    assert [figure(page, s, "totalComputed") for s in ("none", "contiguous", "paged")] == ["51", "18", "18"]
    assert page.locator("html").get_attribute("data-num-records") == "0"  # the page's own run is left alone


def test_the_figures_are_those_of_the_servers_records(open_page: OpenPage) -> None:
    page = open_page("/?detail=race&max_tokens=12")
    page.fill("#prompt", "空山新雨后，天气晚来秋。")
    run_to_the_end(page)
    expect(page.locator("#race-verdict")).to_have_text("12 of 12 the same in all three")
    chosen = {}
    for strategy in ("none", "contiguous", "paged"):
        records = [r for r in records_of(page, strategy, "空") if r["kind"] == "step"]
        assert not any(r["has_capture"] for r in records), "nobody looks at its tensors, and they would cost time"
        total = sum(len(entry["token_ids"]) for r in records for entry in r["batch"])
        assert figure(page, strategy, "totalComputed").replace("\u2009", "") == str(total)
        chosen[strategy] = [o["token_id"] for r in records for o in r["outputs"]]
    assert chosen["none"] == chosen["contiguous"] == chosen["paged"] and len(chosen["none"]) == 12
    assert page.locator(".race-column").count() == 12
    assert set(page.locator(".race-mark").all_inner_texts()) == {"="}
    assert re.search(
        r"[\d.]+× the operations.* [\d.]+× the time: a step for 1 token", page.locator("#race-why").inner_text()
    )


def test_chance_is_the_same_for_all_three(open_page: OpenPage) -> None:
    page = open_page("/?detail=race&max_tokens=10&temperature=1.2&seed=11")
    run_to_the_end(page)
    expect(page.locator("#race-verdict")).to_have_text(re.compile(r"(\d+) of \1 the same in all three"))


def test_contiguous_reserves_what_paged_takes_block_by_block(open_page: OpenPage) -> None:
    """Step 2 has 17 positions: 5 blocks of 4 are 20 slots, a reservation is all 192 of them."""
    page = open_page("/?detail=race&max_tokens=4")
    steps(page, 2)
    label = "[data-strategy-lane={}] .race-strip"
    paged = page.locator(label.format("paged")).get_attribute("aria-label") or ""
    contiguous = page.locator(label.format("contiguous")).get_attribute("aria-label") or ""
    none = page.locator(label.format("none")).get_attribute("aria-label") or ""
    assert "16 positions read from the cache, 1 computed, 3 reserved and empty" in paged
    assert "16 positions read from the cache, 1 computed, 175 reserved and empty" in contiguous
    assert "0 positions read from the cache, 17 computed, 3 reserved and empty" in none


def test_looking_back_and_pausing(open_page: OpenPage) -> None:
    page = open_page("/?detail=race&max_tokens=60")
    page.select_option("#race-speed", "4")  # the whole of it takes fifteen seconds
    page.click("#race-run")
    expect(page.locator("#race")).to_have_attribute("data-step", re.compile(r"^[3-9]|^\d\d"), timeout=30_000)
    page.click("#race-pause")
    expect(page.locator("#race")).to_have_attribute("data-phase", "ready")
    count = page.locator("#race").get_attribute("data-step")
    page.focus("#race-look")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#race")).to_have_attribute("data-step", "1")
    expect(page.locator("#race-sentence")).to_contain_text("Step 1:")
    assert figure(page, "none", "totalComputed") == "16"
    page.keyboard.press("End")
    expect(page.locator("#race")).to_have_attribute("data-step", count or "")


def test_a_reset_begins_another_race_in_the_same_theaters(open_page: OpenPage) -> None:
    page = open_page("/?detail=race&max_tokens=3")
    run_to_the_end(page)
    newest = """fetch('/api/theaters').then((r) => r.json())
      .then((a) => a.theaters.filter((t) => t.name.startsWith('race: ')).slice(-3).map((t) => t.theater))"""
    before = page.evaluate(newest)
    page.click("#race-reset")
    expect(page.locator("#race-sentence")).to_contain_text("three strategies in step")
    page.fill("#prompt", "床前明月光，")
    run_to_the_end(page)
    assert figure(page, "paged", "totalComputed") == "8"  # 6 + 3 - 1
    assert page.evaluate(newest) == before


def test_two_pages_race_at_once(open_page: OpenPage) -> None:
    pages = [open_page("/?detail=race&max_tokens=8") for _ in range(2)]
    for page in pages:
        page.select_option("#race-speed", "0")
        page.click("#race-run")
    for page in pages:
        expect(page.locator("#race")).to_have_attribute("data-phase", "done", timeout=60_000)
        expect(page.locator("#race-verdict")).to_have_text("8 of 8 the same in all three")


def test_what_cannot_be_raced_is_one_sentence(open_page: OpenPage) -> None:
    page = open_page("/?detail=race&num_blocks=4")
    page.click("#race-step")
    expect(page.locator("#race-sentence")).to_contain_text("over max_model_len 16")
    expect(page.locator("#race")).to_have_attribute("data-phase", "idle")


def test_a_lost_connection_ends_the_race_in_a_sentence(open_page: OpenPage) -> None:
    page = open_page("/?detail=race&max_tokens=20")
    steps(page, 2)
    page.context.set_offline(True)
    page.evaluate("window.dispatchEvent(new Event('offline'))")
    expect(page.locator("#race-sentence")).to_contain_text("The race ended early", timeout=40_000)
    page.context.set_offline(False)
    expect(page.locator("#connection")).to_have_class(re.compile("live"), timeout=40_000)
    page.click("#race-step")
    expect(page.locator("#race-sentence")).to_contain_text("Step 1:")


def test_a_replay_says_that_it_cannot_race(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    theater = theater_of(page)
    replay = open_page(f"/?detail=race&recording=/api/theaters/{theater}/trace", connection="replay")
    shows(replay, 1)
    expect(replay.locator("#race-nothing")).to_contain_text("A race needs live runs")
    expect(replay.locator("#race-run")).to_have_count(0)


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1920, 1080)])
@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_everything_is_seen_at_once(open_page: OpenPage, width: int, height: int, locale: str) -> None:
    page = open_page("/?detail=race&max_tokens=6", width=width, height=height, locale=locale)
    run_to_the_end(page)
    race = "document.querySelector('#race')"
    comes_to(page, f"{race}.scrollHeight <= {race}.clientHeight", True)
    assert page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]") == [
        width,
        height,
    ]
    cut = """[...document.querySelectorAll('.race-lanes td, .race-lanes th')]
      .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent)"""
    assert page.evaluate(cut) == []


def test_a_phone_races_with_a_thumb(open_page: OpenPage) -> None:
    page = open_page("/?detail=race&max_tokens=4&region=detail", width=390, height=844, is_mobile=True, has_touch=True)
    box = page.locator("#race-step").bounding_box()
    assert box and box["height"] >= 44
    run_to_the_end(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    expect(page.locator("#race-verdict")).to_have_text("4 of 4 the same in all three")
