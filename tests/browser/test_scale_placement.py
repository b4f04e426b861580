"""The section "Placement" of the page /scale in a real browser."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from tests.browser.driving import wait_until


def test_a_demand_is_placed_drawn_and_tried(browser: Browser, live_server: str) -> None:
    page = browser.new_page(locale="en-US", viewport={"width": 390, "height": 800})
    page.goto(f"{live_server}/scale?p_nodes=2&p_node_gpus=4&p_output_tokens=16&p_rate=20")
    apart = page.locator("[data-way=apart]")
    expect(apart.locator(".scale-total")).to_have_text("2 GPUs")
    expect(apart.locator(".scale-cluster")).to_have_attribute("aria-label", "1 nodes are used: 1 prefill, 1 decode")
    expect(apart.locator(".scale-node")).to_have_count(2)
    expect(apart.locator(".scale-node .scale-gpu[data-kind=free]")).to_have_count(6)
    apart.locator(".scale-numbers > summary").click()
    per_gpu = apart.locator("[data-number=rate_per_gpu]")
    per_gpu.locator("summary").click()
    expect(per_gpu.locator("[data-with-numbers]")).to_have_text("= 20 / 2")
    decoded = apart.locator("[data-number=goodput_of_decode] li", has_text="T = ")
    expect(decoded).to_have_text(re.compile(r"^T = 0\.\d{1,7}: seconds of a step"))  # six digits, not seventeen
    expect(page.locator("[data-way]", has_text="scale.placement.")).to_have_count(0)  # each symbol has its words
    apart.get_by_role("button", name="Try it").press("Enter")
    expect(apart.locator("[data-tried]")).to_contain_text("simulated, 300 requests", timeout=60_000)
    page.locator("#scale-p_rate").fill("100")  # what was tried was another demand's
    expect(apart.locator("[data-tried]")).to_have_count(0)
    page.wait_for_url("**p_rate=100**")
    page.select_option("#scale-p_model", "llama-2-70b")
    expect(page.locator("[data-way=on_one_node] .scale-problem")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


def test_a_papers_figures_are_made_when_one_asks_and_stay_in_the_link(browser: Browser, live_server: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US")
    page = context.new_page()
    page.goto(f"{live_server}/scale#paper")
    page.click("#scale-paper-show")
    for panel, lines in (("ttft_p90", 2), ("prefill_rate", 4), ("ttft_speedup", 4), ("throughput", 2)):
        expect(page.locator(f"#scale-plot-paper-{panel}")).to_have_attribute("data-drawn", str(lines), timeout=60_000)
    expect(page.locator("[data-compared=rate_both] td").first).to_have_text("1.6")
    expect(page.locator("[data-compared=crossing] td").first).to_have_text("not as a number")
    assert "paper=distserve" in page.url
    context.close()


def test_a_link_to_a_section_leads_there_and_keeps_its_name(browser: Browser, live_server: str) -> None:
    """The sections before it are empty at first, and grow for as long as the server answers."""
    page = browser.new_page(locale="en-US", viewport={"width": 390, "height": 800})
    page.goto(f"{live_server}/scale#placement")
    expect(page.locator("[data-way=apart] .scale-total")).to_be_visible()
    expect(page.locator("#size .scale-number").first).to_be_attached()
    wait_until(page, "Math.abs(document.querySelector('#placement').getBoundingClientRect().top - 50) < 50")
    page.locator("#scale-p_rate").fill("11")
    page.wait_for_url("**p_rate=11#placement")
    page.mouse.wheel(0, -600)  # from now on the page is the reader's
    wait_until(page, "document.querySelector('#placement').getBoundingClientRect().top > 300")
    page.set_viewport_size({"width": 700, "height": 800})
    page.wait_for_timeout(300)
    assert page.evaluate("document.querySelector('#placement').getBoundingClientRect().top") > 100
    page.close()
