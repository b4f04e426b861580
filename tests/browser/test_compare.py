"""Forks and comparisons of two runs on the page, against the server's comparison."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import fail_on_violations, open_with_axe, violations
from tests.browser.driving import POEM, OpenPage
from tests.browser.dropping import drop_recording
from tests.browser.recording import GOLDEN
from tests.browser.settling import address, address_settings


def compared(page: Page) -> dict[str, Any]:
    """Return the server's comparison of the two runs in the address."""
    found = address_settings(page)
    answer: dict[str, Any] = page.evaluate(
        "([a, b]) => fetch(`/api/compare?a=${a}&b=${b}`).then((r) => r.json())", [found["run_a"], found["run_b"]]
    )
    return answer


def text_of(token: dict[str, Any]) -> str:
    return bytes.fromhex(token["token_bytes"]).decode()


def perform(page: Page, steps: int) -> None:
    """Prefill a poem of 16 tokens in record 1, then generate a token in each record."""
    expect(page.locator("#btn-prefill")).to_be_enabled()
    page.evaluate("(text) => import('/static/js/state/prompts.js').then((prompts) => prompts.writeDraft(text))", POEM)
    page.click("#btn-prefill")
    expect(page.locator("html")).to_have_attribute("data-painted", "1", timeout=20_000)
    for step in range(steps):
        page.click("#btn-step")
        expect(page.locator("html")).to_have_attribute("data-painted", str(2 + step), timeout=20_000)


def take_the_second(page: Page) -> None:
    page.locator(".candidate-take").first.click()
    expect(page.locator("#compare")).to_have_attribute("data-ready", "true", timeout=30_000)


def test_a_vllm_log_is_compared_and_its_gaps_are_unknown(open_page: OpenPage) -> None:
    """No operation differs between the two recordings of one run, and vLLM's unreported work is not shown as zero."""
    page = open_page()
    runs = "recording=rec-beside-vllm&run_a=rec-beside-ours&run_b=rec-beside-vllm"
    page.goto(f"{page.url.split('?')[0]}?{runs}&detail=compare&distance=bench")
    expect(page.locator("#compare")).to_have_attribute("data-ready", "true", timeout=30_000)
    steps = compared(page)["a"]["totals"]["num_steps"]
    expect(page.locator("#compare-op")).to_contain_text(f"No operation differs: all {steps} steps are equal.")
    cells = page.locator('#compare-totals tr[data-figure="flops"] td')
    assert "FLOP" not in cells.nth(1).inner_text() and cells.nth(1).inner_text() == "?"
    expect(cells.nth(1)).to_have_attribute("aria-label", "Unknown: vLLM 0.32.0 does not say it.")
    assert cells.nth(0).inner_text() not in ("?", "0")
    expect(page.locator("#watched-badge")).to_contain_text("vLLM 0.32.0")
    expect(page.locator("#compare-notes")).to_contain_text("B is vLLM 0.32.0, written down as it ran")


def test_choosing_another_candidate_shows_both_continuations(open_page: OpenPage) -> None:
    page = open_page("/?max_tokens=12&ignore_eos=1")
    perform(page, 3)
    page.reload()  # a link to the moment
    expect(page.locator("html")).to_have_attribute("data-painted", "4", timeout=20_000)
    label = page.locator(".candidate-take").first.get_attribute("aria-label") or ""
    taken = re.match(r"Take “(.+)” instead", label)
    assert taken
    take_the_second(page)
    found = compared(page)
    first = found["first_token"]
    # record 1 chose the token at position 16, so record 4 chose that at 19
    assert (first["position"], first["a"]["record"], first["b"]["record"]) == (19, 4, 5)
    assert text_of(first["b"]) == taken[1]
    verdict = f"request-0, position 19: A “{text_of(first['a'])}”, B “{taken[1]}”."
    expect(page.locator("#compare-token")).to_contain_text(verdict)
    expect(page.locator("#compare-op")).to_contain_text("First operation that differs: record 5, operation 1.")
    expect(page.locator(".runs-place.first.earliest")).to_have_count(1)
    # the run on stage is still the first one, as far as it was
    assert address_settings(page)["theater"] == address_settings(page)["run_a"]
    expect(page.locator("html")).to_have_attribute("data-num-records", "5")

    page.click("#compare-step")
    expect(page.locator(".runs-place")).to_have_count(2, timeout=20_000)
    page.click("#compare-finish")
    expect(page.locator("#compare-finish")).to_have_count(0, timeout=30_000)  # nothing is left to compute
    expect(page.locator(".runs-place")).to_have_count(12 - 3)
    found = compared(page)
    tokens = found["sequences"][0]["b"]["tokens"]
    lane = page.locator('.runs-place .compare-token[data-side="b"]')
    assert [t.strip() for t in lane.all_inner_texts()] == [text_of(t) for t in tokens[3:]]
    # a token of the other run: the stage follows that run, at the record that chose it
    lane.nth(2).click()
    expect(page.locator("html")).to_have_attribute("data-num-records", str(found["runs"][1]["num_records"]))
    expect(page.locator("html")).to_have_attribute("data-view-index", str(tokens[5]["record"]))
    now = address_settings(page)
    assert now["theater"] == now["run_b"] != now["run_a"]
    expect(page.locator("#compare-b option:checked")).to_contain_text("on stage")
    # there the choice is a record of its own, and the step after it names its source
    page.locator('.compare-way[data-side="b"]').last.click()
    expect(page.locator("html")).to_have_attribute("data-view-index", "4")
    expect(page.locator("#sentence")).to_contain_text("You chose “")
    page.locator('.compare-way[data-side="a"]').first.click()  # and back to the first
    expect(page.locator("#compare-a option:checked")).to_contain_text("on stage")

    second = open_page("/" + address(page))  # a link shows the same two, and any two can be chosen
    expect(second.locator("#compare-token")).to_contain_text(verdict, timeout=20_000)
    second.click("#compare-swap")
    expect(second.locator("#compare-token")).not_to_contain_text(verdict, timeout=20_000)
    assert address_settings(second)["run_a"] == now["run_b"] and address_settings(second)["run_b"] == now["run_a"]
    second.select_option("#compare-b", now["run_b"])  # a run and itself
    expect(second.locator("#compare-token")).to_contain_text("No token differs", timeout=20_000)
    expect(second.locator("#compare-op")).to_contain_text("No operation differs")


def test_every_change_of_the_form_makes_a_fork(open_page: OpenPage) -> None:
    """A prompt of 16 and 12 tokens take 27 slots: 7 blocks of 4, or 4 blocks of 8."""
    page = open_page("/?max_tokens=12&ignore_eos=1")
    perform(page, 11)
    page.click("#btn-fork")
    page.click("#fork-config")
    expect(page.locator("#fork-make")).to_be_disabled()
    page.fill("#fork-num-blocks", "2")
    page.click("#fork-make")
    expect(page.locator("#fork-problem")).to_contain_text("max_model_len 8", timeout=20_000)  # and the form stays
    page.fill("#fork-num-blocks", "")
    page.fill("#fork-block-size", "8")
    page.click("#fork-make")
    expect(page.locator("#compare")).to_have_attribute("data-ready", "true", timeout=30_000)
    expect(page.locator("#compare-notes")).to_contain_text("block_size: A 4, B 8")
    peak = page.locator('[data-figure="blocks_peak"] td')  # the fork still runs on when it is first compared
    expect(peak).to_have_text(["7", "4", "−3"], timeout=20_000)
    expect(page.locator('#compare-requests tbody tr [data-figure="blocks"]')).to_have_text(["7", "4"], timeout=20_000)
    for _ in range(8):
        page.click("#btn-back")
    expect(page.locator("html")).to_have_attribute("data-view-index", "4")
    page.click("#btn-fork")
    page.click("#fork-abort")
    expect(page.locator("#fork-note")).to_contain_text("The first 5 records are rerun and checked")
    for kind, op in (
        ("abort", "frees block"),
        ("request", "entered the waiting queue"),
        ("sampling", "other parameters"),
        ("token", "From outside"),
    ):
        if not page.locator("#fork-form").is_visible():
            page.click("#compare-fork")
        page.click(f"#fork-{kind}")
        if kind == "request":
            page.fill("#fork-prompt", "床前明月光，")
        if kind == "sampling":
            page.fill("#fork-temperature", "1.5")
            page.fill("#fork-seed", "3")
        before = address_settings(page).get("run_b")
        page.click("#fork-make")
        expect(page.locator("#fork-form")).to_have_count(0, timeout=30_000)
        assert address_settings(page)["run_b"] != before
        expect(page.locator(".compare-ops dd").last).to_contain_text(op, timeout=20_000)
        expect(page.locator("#compare-op")).to_contain_text(f"record {5 if kind == 'token' else 6},")


def test_a_fork_is_made_and_left_with_the_keyboard_alone(open_page: OpenPage) -> None:
    """The focus moves to the result of a press, and through the tokens of both lanes."""
    page = open_page("/?max_tokens=8&ignore_eos=1", width=1280, height=800)
    perform(page, 2)
    focused = "document.activeElement.id || document.activeElement.className"
    page.locator("#btn-fork").press("Enter")
    expect(page.locator("#fork-token")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#fork-form")).to_have_count(0)
    assert page.evaluate(focused) == "compare-fork"
    page.keyboard.press("Enter")
    page.locator("#fork-make").press("Enter")
    expect(page.locator("#compare")).to_have_attribute("data-ready", "true", timeout=30_000)
    expect(page.locator(".compare-tokens")).to_be_focused()
    rows = page.evaluate(
        "[...document.querySelectorAll('.compare-head > *')].map((e) => e.getBoundingClientRect().top)"
    )
    assert len(rows) == 6 and max(rows) - min(rows) < 10, rows  # one line of tools

    # the answer is refreshed with each record: both runs have their last tokens
    page.wait_for_function("document.querySelector('.runs-place:last-child').querySelectorAll('button').length === 2")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("End")
    side = "document.activeElement.dataset.side"
    assert page.evaluate(f"{side} + document.activeElement.closest('.runs-place').className").startswith("aruns-place")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(side) == "b"
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-view-index", "4")
    assert address_settings(page)["theater"] == address_settings(page)["run_b"]


def test_only_diverging_sequences_are_listed(open_page: OpenPage) -> None:
    page = open_page("/?max_tokens=6&ignore_eos=1&n=6&temperature=1.2&seed=3", width=390, height=844)
    perform(page, 1)
    page.click("#tab-detail")
    page.click("#detail-compare")
    page.click("#compare-fork")
    page.click("#fork-token")
    page.click("#fork-make")
    expect(page.locator("#compare")).to_have_attribute("data-ready", "true", timeout=30_000)
    page.click("#compare-step")
    expect(page.locator(".runs-place")).to_have_count(1, timeout=20_000)
    expect(page.locator(".compare-pair")).to_have_count(1)
    expect(page.locator("#compare-same summary")).to_have_text("5 more sequences with the same tokens in both")
    verdict, lanes = page.locator("#compare-token").bounding_box(), page.locator(".compare-pair").bounding_box()
    assert verdict and lanes and verdict["y"] < lanes["y"]
    page.locator("#compare-same summary").press("Enter")
    expect(page.locator(".compare-pair")).to_have_count(6)
    cut = page.evaluate(
        """[...document.querySelectorAll('#compare-totals :is(th, td)')]
          .filter((e) => e.getBoundingClientRect().right > innerWidth).map((e) => e.textContent)"""
    )
    assert cut == []  # the difference, which stands last, is in sight


@pytest.mark.parametrize(
    ("scheme", "locale", "width"), [("light", "en-US", 1280), ("dark", "zh-CN", 1280), ("light", "zh-CN", 390)]
)
def test_no_serious_violation(open_page: OpenPage, scheme: str, locale: str, width: int) -> None:
    page = open_with_axe(
        open_page, "/?max_tokens=8&ignore_eos=1", color_scheme=scheme, locale=locale, width=width, height=844
    )
    perform(page, 2)
    if width < 700:
        page.click("#tab-detail")
    page.click("#detail-compare")
    page.click("#compare-fork")
    found = {"form": violations(page)}
    for kind in ("request", "abort", "sampling", "config", "token"):
        page.click(f"#fork-{kind}")
        found[kind] = violations(page, "#region-detail")  # the rest is as it was
    page.click("#fork-make")
    expect(page.locator("#compare")).to_have_attribute("data-ready", "true", timeout=30_000)
    found["compared"] = violations(page)
    if width < 700:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    fail_on_violations(found)


def test_two_recordings_are_compared_without_a_live_run(open_page: OpenPage) -> None:
    """The run on stage is A, own recordings come first in the lists, and a sentence states the result."""
    page = open_page("/?recording=rec-preemption&detail=compare", connection="replay")
    shipped = page.locator("#compare-b optgroup[label='Recordings that come along'] option")
    expect(shipped.filter(has_text="on stage")).to_have_count(1)
    expect(page.locator("#compare-a option:checked")).to_contain_text("on stage")
    expect(page.locator("#compare-b option[value=rec-prefix]")).to_contain_text(re.compile(r"· \d+ requests? ·"))
    page.select_option("#compare-b", "rec-prefix")
    expect(page.locator("#compare")).to_have_attribute("data-ready", "true", timeout=30_000)
    expect(page.locator("#compare-summary")).to_contain_text(re.compile(r"^[AB] .+: .+\."))


def test_an_uploaded_run_is_compared_at_once(open_page: OpenPage) -> None:
    page = open_page("/?detail=compare")
    drop_recording(page, GOLDEN)
    expect(page).to_have_url(re.compile("recording=rec-"))
    expect(page.locator("#compare-a option:checked")).to_contain_text("on stage")
    expect(page.locator("#compare-b optgroup").first).to_have_attribute("label", "Your runs and recordings")
