"""The section "Compute or bandwidth" of the page /scale in a real browser."""

from __future__ import annotations

from playwright.sync_api import Browser, expect


def test_a_step_is_drawn_under_the_roofs_of_this_machine_and_of_a_card(browser: Browser, live_server: str) -> None:
    """A100 80 GB: 312e12 / 2039e9 = 153.0 operations a byte. What is expected there is the bound times an error."""
    page = browser.new_page(locale="en-US", viewport={"width": 390, "height": 800})
    page.goto(f"{live_server}/scale?r_model=llama-3.1-8b&r_gpu=a100-80gb&r_batch=64&r_context=4096")
    section = page.locator("#roofline")
    ridge = section.locator("[data-number=ridge]").first
    expect(ridge).to_have_attribute("data-value", str(312e12 / 2039e9))
    decode = section.locator("[data-phase=decode]").first
    expect(decode).to_contain_text("bandwidth-bound")
    expect(decode).to_contain_text("Expect ")
    expect(section.locator("[data-phase=prefill]").first).to_contain_text("compute-bound")
    for plot, drawn in (("roofs", 3), ("decode", 3), ("prefill", 2), ("measured", 3), ("saturated", 12)):
        expect(page.locator(f"#scale-plot-roofline-{plot}")).to_have_attribute("data-drawn", str(drawn))
    decode.locator("[data-number=step_seconds] summary").press("Enter")
    expect(decode.locator("[data-number=step_seconds] .scale-formula")).to_contain_text("max(F / P, M / W)")
    expect(section.locator("#scale-crossings > li")).to_have_count(3)
    page.select_option("#scale-r_model", "gpt2")
    expect(section.locator(".scale-problem")).to_contain_text("context lies from 1 to 1024")
    page.locator("#scale-r_context").fill("1024")
    expect(section.locator("#scale-crossings > li").first).to_have_attribute("data-batch", "never")
    page.wait_for_url("**r_model=gpt2**")
    page.locator("#scale-r_batch").fill("256")
    page.select_option("#scale-r_gpu", "h100-80gb")
    expect(decode).to_contain_text("256 sequences, each with 1 024 keys")
    page.select_option("#scale-r_dtype", "float8")
    expect(ridge).to_have_attribute("data-value", str(1979e12 / 3350e9))
    page.select_option("#scale-r_gpu", "t4")
    expect(section.locator(".scale-problem")).to_contain_text("T4 16GB has no rate in float8")
    page.select_option("#scale-r_dtype", "int8")
    expect(ridge).to_have_attribute("data-value", str(130e12 / 320e9))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


def test_curves_of_ones_own_choice_stay_in_the_link(browser: Browser, live_server: str) -> None:
    page = browser.new_page(locale="en-US")
    page.goto(f"{live_server}/scale?r_model=llama-3.1-8b&r_gpu=a100-80gb&r_contexts=128,2048")
    expect(page.locator("#scale-crossings > li")).to_have_count(2)
    expect(page.locator("#scale-plot-roofline-decode")).to_have_attribute("data-drawn", "2")
    page.fill("#scale-r_batches", "1, 8, 64")
    page.locator("#scale-r_batches").blur()
    page.wait_for_url("**r_batches=1%2C8%2C64**")
    page.close()
