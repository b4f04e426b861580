"""The whole page /scale: under axe, on paper to take along, and in one language at a time."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.browser.axe import AXE, complain, violations

SLOW = 60_000
PLOTS = ("size-terms", "size-requests", "roofline-roofs", "roofline-decode", "roofline-prefill", "queues",
         "queues-latency", "queues-throughput", "queues-goodput")  # fmt: skip


def test_all_sections_pass_axe_and_every_plot_can_be_taken_along(browser: Browser, live_server: str) -> None:
    """In Chinese, whose words no table may lack: a head that is an id has an underscore or is a bare English word."""
    context = browser.new_context(bypass_csp=True, locale="zh-CN", color_scheme="dark", accept_downloads=True)
    page = context.new_page()
    page.goto(f"{live_server}/scale?r_model=llama-3.1-8b&r_gpu=a100-80gb&max_model_len=262144&model=gpt2")
    for plot in PLOTS:
        expect(page.locator(f"#scale-plot-{plot}")).to_have_attribute("data-drawn", re.compile("[1-9]"), timeout=SLOW)
    expect(page.locator("[data-way=together] .scale-total")).to_be_visible(timeout=SLOW)
    expect(page.locator("#scale-beyond")).to_contain_text("GPT-2 (124M) 只有 1")
    tables = page.locator("figure details")
    for at in range(tables.count()):
        tables.nth(at).evaluate("details => details.open = true")
    expect(page.locator("figure thead tr")).to_have_count(tables.count())
    heads = page.locator("figure thead th").all_inner_texts()
    ids = [head for head in heads if re.fullmatch(r"[a-z_]+", head) and head != "max_model_len"]
    assert len(heads) > 20 and ids == []
    page.add_script_tag(path=str(AXE))
    complain({"scale": violations(page)})
    around = page.locator("figure", has=page.locator("#scale-plot-queues"))
    for name, begins in (("PNG", b"\x89PNG"), ("SVG", b"<svg"), ("CSV", "方式,".encode())):
        with page.expect_download() as saved:
            around.get_by_text(name, exact=True).click()
        assert saved.value.suggested_filename == f"kvtheater-queues.{name.lower()}"
        assert Path(saved.value.path()).read_bytes().startswith(begins)
    context.close()
