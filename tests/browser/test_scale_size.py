"""The page /scale computes costs of a user's model, shows common claims, and refuses in the page's language."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Browser, FilePayload, Page, expect

SLOW = 30_000  # ms: a server that counts parameters while others work
CONFIG = {
    "model_type": "gemma3_text", "num_hidden_layers": 6, "sliding_window": 512, "hidden_size": 640, "vocab_size": 1000,
    "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 2048,
}  # fmt: skip


@pytest.fixture
def page(browser: Browser, live_server: str) -> Page:
    page = browser.new_page()
    page.goto(f"{live_server}/scale?lang=en&model=qwen2-72b&kv_dtype=int4")
    page.set_default_timeout(60_000)
    expect(page.locator("#scale-sizes")).to_be_visible(timeout=SLOW)
    return page


def test_what_is_often_said_and_where_figures_stand_is_beside_the_number(page: Page) -> None:
    token = page.locator('#scale-sizes [data-number="kv_token"]')
    token.locator("summary").click()
    expect(token.locator("[data-with-numbers]")).to_contain_text("2 · 80 · 8 · (128 · 0.5 + 4)")
    right = 2 * 80 * 8 * (64 + 4)
    expect(token).to_have_attribute("data-value", str(right))
    for kind, wrong in (("hidden_size", 2 * 80 * 8192 // 2), ("quarter", 2 * 80 * 8 * 64), ("generation", 8 * right)):
        expect(token.locator(f'[data-mistake="{kind}"]')).to_have_attribute("data-value", str(wrong))
    expect(token.locator('[data-source="L, Hkv, D"]')).to_contain_text("arXiv 2407.10671, table 1")
    memory = page.locator('#scale-card [data-number="kv_room"]')
    memory.locator("summary").click()
    expect(memory.locator('[data-source="M"]')).to_contain_text("(2025-01-23). Checked 2026-11-24 with: the listing")
    page.locator(".scale-sources summary").click()
    rows = page.locator(".scale-sources tbody tr")
    expect(rows.filter(has_text="A10 24GB").nth(1)).to_contain_text("flops_per_second.bfloat16, flops_per_second.int8")
    expect(rows.filter(has_text="A10 24GB").nth(1)).to_contain_text("Not checked")
    page.close()


def test_a_configuration_that_is_chosen_is_computed_and_let_go_again(page: Page) -> None:
    page.locator(".scale-config summary").click()
    file: FilePayload = {"name": "mine.json", "mimeType": "application/json", "buffer": json.dumps(CONFIG).encode()}
    page.set_input_files("#scale-config-file", file)
    sliding = page.locator('#scale-sizes [data-number="kv_token_sliding"]')
    expect(sliding).to_have_attribute("data-value", str(5 * 2 * (128 + 4)), timeout=SLOW)
    expect(page.locator('#scale-sizes [data-number="kv_token_full"]')).to_have_attribute("data-value", "264")
    expect(page.locator("#scale-model-facts")).to_contain_text("5 with a window")
    expect(page).to_have_url(re.compile("config=[A-Za-z0-9_-]{20,}"))
    page.reload()  # a link has it whole
    expect(sliding).to_have_attribute("data-value", str(5 * 2 * (128 + 4)), timeout=SLOW)
    page.locator(".scale-config button").click()
    expect(sliding).to_have_count(0, timeout=SLOW)
    expect(page).not_to_have_url(re.compile("config="))
    page.close()


def test_what_is_no_configuration_is_said_in_the_language_that_is_read(page: Page) -> None:
    page.locator(".scale-config summary").click()
    page.fill("#scale-config-text", "{}")
    page.locator("#scale-config-text").blur()
    expect(page.locator("#size .scale-problem")).to_contain_text("no model_type", timeout=SLOW)
    page.get_by_role("button", name="中文").click()
    expect(page.locator("#size .scale-problem")).to_contain_text("配置里没有 model_type", timeout=SLOW)
    page.close()


def test_a_slider_by_keyboard_and_the_plots_with_their_numbers(page: Page) -> None:
    page.focus("#scale-tensor_parallel")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("tensor_parallel=4"))
    card = page.locator('#scale-fits tr[data-gpu="a100-80gb"] [data-number="paged"]')
    expect(card).to_contain_text("requests", timeout=SLOW)
    for plot in ("size-terms", "size-requests"):
        figure = page.locator(f"#scale-plot-{plot}")
        expect(figure).to_have_attribute("data-drawn", re.compile("[1-9]"), timeout=SLOW)
        around = page.locator("figure", has=figure)
        around.locator("summary").click()
        expect(around.locator("tbody tr").first).to_be_visible()
        expect(around.get_by_role("link", name="CSV")).to_have_attribute("href", re.compile("^data:text/csv"))
    page.close()
