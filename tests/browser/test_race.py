"""With and without a cache: three strategies in step on the page, held against the server's own records."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import complain, open_with_axe, violations
from tests.browser.settling import comes_to

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


def test_the_figures_are_those_of_the_servers_records(open_page: OpenPage) -> None:
    """Two pages race at once, with chance: each in its own theaters, and the same for all three strategies."""
    other, page = (open_page("/?detail=race&max_tokens=12&ignore_eos=1&temperature=1.2&seed=11") for _ in range(2))
    page.fill("#prompt", "空山新雨后，天气晚来秋。")
    other.select_option("#race-speed", "0")
    other.click("#race-run")
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
    assert page.locator(".runs-place").count() == 12
    assert set(page.locator(".runs-mark").all_inner_texts()) == {"="}
    assert page.locator("html").get_attribute("data-num-records") == "0"  # the page's own run is left alone
    expect(other.locator("#race")).to_have_attribute("data-phase", "done", timeout=60_000)
    expect(other.locator("#race-verdict")).to_have_text("12 of 12 the same in all three")


def test_a_race_is_paused_looked_back_at_and_begun_again_with_the_keyboard(open_page: OpenPage) -> None:
    page = open_page("/?detail=race&max_tokens=60")
    page.select_option("#race-speed", "4")  # the whole of it takes fifteen seconds
    page.locator("#race-run").press("Enter")
    expect(page.locator("#race")).to_have_attribute("data-step", re.compile(r"^[3-9]|^\d\d"), timeout=30_000)
    page.locator("#race-pause").press("Enter")
    expect(page.locator("#race")).to_have_attribute("data-phase", "ready")
    count = page.locator("#race").get_attribute("data-step")
    page.focus("#race-look")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#race")).to_have_attribute("data-step", "1")
    expect(page.locator("#race-sentence")).to_contain_text("all three computed the prompt’s 16 tokens")
    assert figure(page, "none", "totalComputed") == "16"
    page.keyboard.press("End")
    expect(page.locator("#race")).to_have_attribute("data-step", count or "")
    page.locator("#race-reset").press("Enter")
    expect(page.locator("#race-sentence")).to_contain_text("three strategies in step")
    expect(page.locator("#race-run")).to_be_focused()


def test_a_lost_connection_ends_the_race_in_a_sentence(open_page: OpenPage) -> None:
    page = open_page("/?detail=race&max_tokens=20")
    steps(page, 2)
    page.context.set_offline(True)
    page.evaluate("window.dispatchEvent(new Event('offline'))")
    expect(page.locator("#race-sentence")).to_contain_text("The runs ended early", timeout=40_000)
    page.context.set_offline(False)
    expect(page.locator("#connection")).to_have_class(re.compile("live"), timeout=40_000)
    page.click("#race-step")
    expect(page.locator("#race-sentence")).to_contain_text("Step 1:")


@pytest.mark.parametrize(
    ("width", "height", "locale"), [(1280, 800, "en-US"), (1920, 1080, "zh-CN"), (390, 844, "zh-CN")]
)
def test_everything_is_seen_at_once_and_no_serious_violation(
    open_page: OpenPage, width: int, height: int, locale: str
) -> None:
    phone = width < 720
    page = open_with_axe(
        open_page,
        "/?detail=race&max_tokens=6&region=detail",
        width=width,
        height=height,
        locale=locale,
        is_mobile=phone,
        has_touch=phone,
    )
    run_to_the_end(page)
    complain({"race": violations(page)})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    if phone:  # with a thumb, and scrolled
        box = page.locator("#race-step").bounding_box()
        assert box and box["height"] >= 44
        return
    race = "document.querySelector('#race')"
    comes_to(page, f"{race}.scrollHeight <= {race}.clientHeight", True)
    assert page.evaluate("document.documentElement.scrollHeight") == height
    cut = """[...document.querySelectorAll('.race-lanes td, .race-lanes th')]
      .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent)"""
    assert page.evaluate(cut) == []
