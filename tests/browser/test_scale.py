"""The page /scale in a real browser: sizes, queues, rooflines, placements, and the whole page."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FilePayload, Page, expect

from tests.browser.axe import AXE, fail_on_violations, violations
from tests.browser.driving import wait_until


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


SLOW = 60_000
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


def test_numbers_show_common_mistakes_and_sources(page: Page) -> None:
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


def test_a_chosen_configuration_is_computed_and_removed_again(page: Page) -> None:
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


def test_invalid_configurations_are_refused_in_the_readers_language(page: Page) -> None:
    page.locator(".scale-config summary").click()
    page.fill("#scale-config-text", "{}")
    page.locator("#scale-config-text").blur()
    expect(page.locator("#size .scale-problem")).to_contain_text("lacks model_type", timeout=SLOW)
    page.get_by_role("button", name="中文").click()
    expect(page.locator("#size .scale-problem")).to_contain_text("配置里没有 model_type", timeout=SLOW)
    page.close()


def test_a_pair_of_gpus_is_drawn_with_the_heads_of_each(page: Page) -> None:
    field = page.locator("label:has(#scale-tensor_parallel) input[type=number]")
    field.fill("2")
    ranks = page.locator("#scale-ranks .scale-rank")
    expect(ranks).to_have_count(2)
    expect(ranks.nth(1)).to_contain_text("query heads 32–63")
    expect(ranks.nth(1)).to_contain_text("KV heads 4–7")
    assert ranks.nth(1).locator("[data-own=true]").count() == 4
    field.fill("16")
    expect(ranks).to_have_count(16)
    expect(page.locator("#scale-ranks ~ .hint").first).to_contain_text("each group of 2 GPUs keeps the same")


def test_a_links_k_is_derived_and_used_by_the_queues(page: Page) -> None:
    k = page.locator("#scale-split [data-number=split_speedup]")
    expect(k).to_be_attached()
    fast = float(k.get_attribute("data-value") or 0)
    page.click("#scale-split-use")
    expect(page.locator("label:has(#scale-q_speedup) input[type=number]")).to_have_value(f"{fast:.3g}")
    page.select_option("#scale-q_link", "ethernet-25g")
    expect(page.locator("#scale-split-slower")).to_be_visible()
    assert float(k.get_attribute("data-value") or 0) < 1 < fast


def test_number_fields_keep_their_bounds_and_links_beyond_them_are_ignored(page: Page) -> None:
    fields = page.locator("input[type=number]")
    for i in range(fields.count()):
        field = fields.nth(i)
        before = field.input_value()
        field.fill("-1")
        expect(page.locator("small.bounds")).to_have_count(1)
        field.blur()
        expect(field).to_have_value(before)
        field.focus()
        expect(page.locator("small.bounds")).to_have_count(0)
    assert fields.count() >= 25
    page.goto(page.url.partition("?")[0] + "?block_size=0&q_gpus=1&p_nodes=99")
    expect(page.locator("#scale-block_size")).to_have_value("16")
    expect(page.locator("#scale-q_gpus")).to_have_value("2")
    expect(page.locator("#scale-p_nodes")).to_have_value("4")


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


def test_a_slider_moves_the_numbers_and_stays_in_the_link(browser: Browser, live_server: str) -> None:
    """Splitting is faster at R · D = 3 · 0.25 < 0.936. At R = 5 one GPU is refused with a sentence, the others are
    shown.
    """
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


def test_a_step_is_drawn_under_the_roofs_of_this_machine_and_of_a_card(browser: Browser, live_server: str) -> None:
    """The ridge of an A100 80 GB is 312e12 / 2039e9 = 153.0 operations a byte. The expected time is the bound times an
    error.
    """
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
    expect(section.locator(".scale-problem")).to_contain_text("context must be from 1 to 1024")
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


def test_chosen_curves_stay_in_the_link(browser: Browser, live_server: str) -> None:
    page = browser.new_page(locale="en-US")
    page.goto(f"{live_server}/scale?r_model=llama-3.1-8b&r_gpu=a100-80gb&r_contexts=128,2048")
    expect(page.locator("#scale-crossings > li")).to_have_count(2)
    expect(page.locator("#scale-plot-roofline-decode")).to_have_attribute("data-drawn", "2")
    page.fill("#scale-r_batches", "1, 8, 64")
    page.locator("#scale-r_batches").blur()
    page.wait_for_url("**r_batches=1%2C8%2C64**")
    page.close()


def test_a_demand_is_placed_drawn_and_simulated(browser: Browser, live_server: str) -> None:
    page = browser.new_page(locale="en-US", viewport={"width": 390, "height": 800})
    page.goto(f"{live_server}/scale?p_nodes=2&p_node_gpus=4&p_output_tokens=16&p_rate=20")
    apart = page.locator("[data-way=apart]")
    expect(apart.locator(".scale-total")).to_have_text("2 GPUs")
    expect(apart.locator(".scale-cluster")).to_have_attribute("aria-label", "1 node is used: 1 prefill, 1 decode")
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
    page.locator("#scale-p_rate").fill("100")  # clears the result, which is of another demand
    expect(apart.locator("[data-tried]")).to_have_count(0)
    page.wait_for_url("**p_rate=100**")
    page.select_option("#scale-p_model", "llama-2-70b")
    expect(page.locator("[data-way=on_one_node] .scale-problem")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


def test_a_chinese_table_heading_does_not_break_after_each_character(browser: Browser, live_server: str) -> None:
    page = browser.new_page(locale="zh-CN", viewport={"width": 390, "height": 800})
    page.goto(f"{live_server}/scale")
    headings = page.locator(".scale-way thead th:not(:first-child)")
    expect(headings.first).to_have_text("个数")
    assert min(headings.evaluate_all("(all) => all.map((e) => e.clientWidth)")) >= 60
    page.close()


def test_figures_of_a_paper_are_computed_on_request_and_stay_in_the_link(browser: Browser, live_server: str) -> None:
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
    """The sections above it are empty at first and grow while the server answers."""
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


SLOW = 60_000
PLOTS = ("size-terms", "size-requests", "roofline-roofs", "roofline-decode", "roofline-prefill", "queues",
         "queues-latency", "queues-throughput", "queues-goodput")  # fmt: skip


def test_all_sections_pass_axe_and_every_plot_can_be_saved(browser: Browser, live_server: str) -> None:
    """No Chinese table lacks a translation: an untranslated head has an underscore or is a single English word."""
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
    fail_on_violations({"scale": violations(page)})
    around = page.locator("figure", has=page.locator("#scale-plot-queues"))
    for name, begins in (("PNG", b"\x89PNG"), ("SVG", b"<svg"), ("CSV", "方式,".encode())):
        with page.expect_download() as saved:
            around.get_by_text(name, exact=True).click()
        assert saved.value.suggested_filename == f"kvtheater-queues.{name.lower()}"
        assert Path(saved.value.path()).read_bytes().startswith(begins)
    context.close()


def test_names_of_settings_break_at_underscores(browser: Browser, live_server: str) -> None:
    page = browser.new_page(locale="en-US", viewport={"width": 390, "height": 800})
    page.goto(f"{live_server}/scale")
    name = page.locator("label:has(#scale-max_num_batched_tokens) span")
    expect(name).to_have_text("max_num_batched_tokens")
    parts = name.evaluate(
        """span => [...span.childNodes].filter(node => node.nodeType === Node.TEXT_NODE).map(node => {
          const range = document.createRange();
          range.selectNode(node);
          return range.getClientRects().length;
        })"""
    )
    assert parts and set(parts) == {1}, parts  # no part of the name is on two lines
    beside = page.locator("#scale-max_num_batched_tokens, label:has(#scale-max_num_batched_tokens) + label input")
    assert len({box["y"] for one in beside.all() if (box := one.bounding_box())}) == 1  # though its name is longer
    page.close()
