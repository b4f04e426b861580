"""The section "Queues" of the page /scale in a real browser."""

from __future__ import annotations

from playwright.sync_api import Browser, expect


def test_a_slider_moves_the_numbers_and_stays_in_the_link(browser: Browser, live_server: str) -> None:
    """R · D = 3 · 0.25 < 0.936: splitting is faster. At R = 5 one GPU is refused in a sentence, the others go on."""
    page = browser.new_page(locale="en-US", viewport={"width": 390, "height": 800})
    page.goto(f"{live_server}/scale?q_rate=3")
    numbers = page.locator("#scale-ttft [data-number]")
    expect(numbers).to_have_count(3)
    expect(page.locator("#scale-crossing")).to_contain_text("0.9361")
    expect(page.locator("#scale-plot-queues")).to_have_attribute("data-drawn", "3")
    one, inter, intra = (float(numbers.nth(i).get_attribute("data-value") or 0) for i in range(3))
    assert one == 0.25 + 3 * 0.0625 / (2 * 0.25) and intra < inter < one
    page.locator("[data-number=ttft_one] summary").press("Enter")
    expect(page.locator("[data-number=ttft_one] .scale-formula")).to_contain_text("D + R · D² / (2 · (1 − R · D))")
    slider = page.locator("#scale-q_rate")
    slider.fill("5")
    expect(numbers).to_have_count(2)
    expect(page.locator("#scale-ttft .scale-problem")).to_contain_text("grows without end")
    page.wait_for_url("**q_rate=5")
    slider.press("ArrowRight")
    page.wait_for_url("**q_rate=5.1")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()
