"""The page /scale."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect


def test_a_model_and_a_load_give_numbers_that_open_their_formulas(browser: Browser, live_server: str) -> None:
    page = browser.new_page()
    page.goto(f"{live_server}/scale?lang=en&model=gpt-3&context=1024&batch=16")
    batch = page.locator('[data-number="kv_batch"]').first
    expect(batch).to_have_attribute("data-value", str(72 * 2**30))
    page.locator('[data-number="kv_token"] summary').click()
    expect(page.locator('[data-number="kv_token"]')).to_contain_text(
        re.compile(r"2 · L · Hkv · D · bytes = 4\s718\s592 B")
    )
    page.select_option("#scale-model", "llama-3.1-8b")
    expect(batch).to_have_attribute("data-value", str(16 * 1024 * 131_072), timeout=20_000)
    expect(page).to_have_url(re.compile("context=1024"))
    page.fill("#scale-tensor_parallel", "3")
    expect(page.locator(".scale-problem")).to_contain_text("32 heads of Llama 3.1 8B cannot be divided among 3 GPUs")
    expect(page.locator("#scale-sizes")).to_have_count(0)
    page.close()
