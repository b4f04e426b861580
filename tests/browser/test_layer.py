"""Panel of one layer in a real browser: its parts and the logit lens of the chosen token."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from engine.trace import codec
from engine.trace.records import LayerCapture
from tests.browser.driving import prefill, step
from tests.browser.settling import address_settings, theater_of
from tests.server.conftest import Client

OpenPage = Callable[..., Page]


def test_the_last_cell_has_the_chosen_token_and_a_click_selects_a_layer(open_page: OpenPage) -> None:
    page = open_page("/?temperature=0&layer=1&detail=layer&detail_large=1")
    prefill(page)
    step(page)
    panel = page.locator("#layer-panel")
    expect(panel.locator(".layer-head")).to_contain_text("Layer 1")
    expect(panel).to_have_attribute("data-stale", "false")
    for part in ("before", "q", "k", "v", "attention", "between", "hidden", "ffn", "after"):
        expect(panel.locator(f"[data-part={part}] rect").nth(3)).to_be_attached()
    chosen = page.locator(".token-text").last.inner_text()
    cells = panel.locator(".layer-cell")
    expect(cells).to_have_count(5)  # the embedding, and four layers
    expect(cells.last.locator("b").first).to_have_text(chosen)
    expect(cells.last).to_have_attribute("data-right", "true")
    first = panel.locator(".layer-cell[data-first=true]")
    expect(first.locator("b").first).to_have_text(chosen)
    panel.locator(".layer-cell[aria-pressed=true]").press("ArrowRight")
    page.keyboard.press("Enter")
    expect(panel.locator(".layer-head")).to_contain_text("Layer 2")
    panel.locator("[data-part=embedding]").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tooltip")).to_contain_text("before layer 2")


def test_a_value_is_each_row_of_its_weights_times_what_attention_reads(open_page: OpenPage, live_server: str) -> None:
    page = open_page("/?temperature=0&layer=1&head=2&detail=layer")
    prefill(page)
    picture = page.locator("#layer-panel .layer-picture")
    picture.locator("[data-part=v]").click()
    rows = page.locator("#layer-product [role=slider]")
    rows.press("ArrowUp")
    row = int(rows.get_attribute("aria-valuenow") or -1)
    sentence = page.locator(".layer-product-said")
    expect(sentence).to_contain_text(f"Number {row}: row {row} of W")
    place = int(page.locator(".layer-of").inner_text().removeprefix("at "))
    viewer = Client(live_server)
    theater = theater_of(page)
    message = {"theater": theater, "seq_id": 0, "layer": 1, "heads": [2]}
    values = codec.decode(viewer.do("recompute", **message)["arrays"], LayerCapture).v[place, 0]
    viewer.io.disconnect()
    found = re.search(r"= (\S+), as in the pass", sentence.inner_text())
    assert found and float(found[1].replace("−", "-")) == pytest.approx(float(values[row]), abs=0.006)
    page.locator("#layer-product-close").click()
    expect(picture.locator("[data-part=v]")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")  # the key, whose position is rotated in afterwards
    expect(page.locator("#layer-product-close")).to_be_focused()
    expect(sentence).to_contain_text("makes it")


def test_a_recording_says_that_it_needs_a_live_run(open_page: OpenPage) -> None:
    page = open_page("/?detail=layer")
    expect(page.locator("#layer-panel")).to_contain_text("Nothing is computed yet")
    prefill(page)
    expect(page.locator("#layer-panel .layer-cell")).to_have_count(5)
    address = f"/?detail=layer&recording=/api/theaters/{theater_of(page)}/trace"
    replay = open_page(address, connection="replay")
    expect(replay.locator("#layer-panel")).to_contain_text("Start a live run")


def test_a_fork_without_a_head_says_which_is_off(open_page: OpenPage) -> None:
    page = open_page("/?temperature=0&layer=1&head=2&detail=layer&detail_large=1")
    prefill(page)
    step(page)
    expect(page.locator("#layer-off-layer")).to_have_text("Fork with layer 1 off")
    expect(page.locator("#layer-panel")).to_have_attribute("data-stale", "false")
    page.locator("#layer-off-head").click()
    expect(page.locator("#compare")).to_have_attribute("data-ready", "true")
    page.goto(f"{page.url.split('?')[0]}?theater={address_settings(page)['run_b']}&detail=layer&layer=1&head=2")
    expect(page.locator(".layer-off")).to_contain_text("off in this run: head 2 of layer 1 from record 3 on")
    expect(page.locator("#layer-panel .layer-cell")).to_have_count(5)


def test_the_lens_row_after_the_last_layer_is_what_the_model_chose(open_page: OpenPage) -> None:
    """Sampling is greedy: from the prompt's last token on, each column's guess is the next token, new ones included."""
    page = open_page("/?temperature=0&layer=3")
    prefill(page, "The moon rose")
    for _ in range(3):
        step(page)
    prompt = page.locator(".token.prompt").count()
    switch = page.locator("#stage-lens")
    expect(page.locator("#token-row-lens")).to_have_count(0)
    switch.press("Enter")
    expect(switch).to_have_attribute("aria-pressed", "true")
    tokens = page.locator(".token-text")
    count = tokens.count()
    assert count > prompt > 1
    for grown in (count, count + 1):
        expect(tokens).to_have_count(grown)
        for position in range(prompt - 1, grown - 1):
            guess = page.locator(f".token-row-guess[data-position='{position}']")
            expect(guess).to_have_attribute("data-right", "true")
            expect(guess).to_have_text(tokens.nth(position + 1).inner_text())
        step(page)
    column = page.locator(".token[data-position='2']")
    expect(column).to_have_attribute("aria-label", re.compile("logit lens after layer 3: "))
    page.locator("#layer").select_option("0")
    expect(column).to_have_attribute("aria-label", re.compile("logit lens after layer 0: "))
    expect(page.locator(".gutter-lens")).to_contain_text("layer 0")
    assert page.locator(".token-row-guess[data-right=false]").count() > 0
    switch.press("Enter")
    expect(page.locator("#token-row-lens")).to_have_count(0)
