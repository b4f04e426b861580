"""The time panel in a real browser. `open_page` fails a test when anything on the page breaks the security policy."""

import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from engine.model.loader import load_model
from tests.browser.driving import OpenPage, prefill, step, wait_for_record


def drawn(page: Page, name: str, index: int) -> None:
    """Wait until the chart is drawn for record `index`."""
    expect(page.locator("html")).to_have_attribute("data-chart", re.compile(rf"^{name}/{index}/"), timeout=60_000)


def test_plotly_is_loaded_from_this_server_with_the_first_chart(open_page: OpenPage) -> None:
    page = open_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    prefill(page)
    step(page, 2)
    assert page.evaluate("typeof Plotly") == "undefined"
    page.click("#detail-time")
    drawn(page, "latency", 3)
    assert [url for url in requests if url.endswith("plotly.min.js")] == [
        page.url.split("/?")[0].rstrip("/") + "/vendor/plotly.min.js"
    ]
    assert page.locator(".chart .bars .point").count() > 0
    # the parts of the step shown add up to what the transport says it took
    parts = [seconds(text) for text in page.locator(".chart-values dd").all_inner_texts()]
    assert abs(sum(parts[:-1]) - parts[-1]) < 0.02 * parts[-1] and len(parts) == 5
    assert page.locator(".chart-values dd.total").inner_text() == page.locator(".position b").inner_text()


def seconds(text: str) -> float:
    value, unit = text.split("\u2009")
    return float(value) / (1000 if unit == "ms" else 1)


TEXT_MIDDLES = """() => [...document.querySelectorAll('.chart-choice')].map((choice) => {
  const range = document.createRange();
  range.selectNodeContents(choice);
  const [text, box] = [range.getBoundingClientRect(), choice.getBoundingClientRect()];
  return Math.abs(text.top + text.bottom - box.top - box.bottom);
})"""


def test_texts_of_choices_in_the_time_panel_are_centered_on_phones(open_page: OpenPage) -> None:
    page = open_page("/?detail=time&region=detail", width=390, height=844)
    expect(page.locator(".chart-choice[href]")).to_be_visible()
    assert max(page.evaluate(TEXT_MIDDLES)) <= 2


def test_an_empty_chart_explains_itself_and_keeps_its_height(open_page: OpenPage) -> None:
    page = open_page("/?detail=time&chart=roofline")
    expect(page.locator(".chart")).to_contain_text("Each step becomes a point")
    before = page.locator(".chart").bounding_box()
    prefill(page)
    drawn(page, "roofline", 1)
    assert page.locator(".chart").bounding_box() == before


def test_a_bar_of_a_chart_leads_to_its_step_and_shows_its_values(open_page: OpenPage) -> None:
    page = open_page("/?detail=time")
    prefill(page)
    step(page, 3)
    drawn(page, "latency", 4)
    box = page.locator(".chart .nsewdrag").first.bounding_box()
    assert box is not None
    # steps 1 to 4 on an axis from 0.4 to 4.6
    x = box["x"] + box["width"] * (2 - 0.4) / 4.2
    page.mouse.move(x, box["y"] + box["height"] - 4)
    expect(page.locator(".tooltip")).to_contain_text("Record 3, step 2")
    expect(page.locator(".tooltip")).to_contain_text("forward, decode")
    page.mouse.click(x, box["y"] + box["height"] - 4)
    wait_for_record(page, 2)
    drawn(page, "latency", 2)


def test_every_chart_draws_in_both_themes_and_saves(open_page: OpenPage) -> None:
    page = open_page("/?detail=time", color_scheme="dark")
    prefill(page)
    step(page, 2)
    for name in ("sequences", "memory", "roofline", "latency"):
        page.click(f"#chart-{name}")
        drawn(page, name, 3)
    for kind, begins in (("PNG", b"\x89PNG"), ("SVG", b"<svg"), ("CSV", b"record,step,phase,schedule")):
        with page.expect_download() as saved:
            page.click(f".chart-downloads button:has-text('{kind}')")
        assert Path(saved.value.path()).read_bytes().startswith(begins)
        assert saved.value.suggested_filename.startswith("step-latency-")


def test_sequences_show_the_latencies_of_the_score(open_page: OpenPage) -> None:
    page = open_page("/?detail=time&chart=sequences")
    prefill(page)
    step(page, 2)
    drawn(page, "sequences", 3)
    row = page.locator(".latency-table tbody tr").inner_text()
    for figure in re.findall(r"[\d.]+\u2009ms", page.locator(".sequence-times").inner_text()):
        assert figure in row


def test_the_roofs_are_measured_when_the_roofline_is_opened(open_page: OpenPage) -> None:
    page = open_page("/?detail=time&chart=roofline")
    prefill(page)
    drawn(page, "roofline", 1)
    note = page.locator(".chart-note")
    expect(note).to_contain_text("median of 5 runs", timeout=30_000)
    expect(note).to_contain_text("Ridge at")
    expect(page.locator(".chart .annotation-text").first).to_contain_text("FLOP/s, measured")


def test_the_flow_chart_describes_the_selected_sequence(open_page: OpenPage) -> None:
    page = open_page("/?lang=en&detail=time&chart=flow")
    prompt = "Who has seen the wind?"
    tokenizer = load_model("bundled").tokenizer
    assert tokenizer
    ids = tokenizer.encode(prompt)

    def part(name: str) -> Locator:
        return page.locator(f"#flow [data-part={name}]")

    prefill(page, prompt)
    expect(part("tokenizer")).to_contain_text(f"“{prompt}”→ {len(ids)} ids: {ids[0]} {ids[1]} {ids[2]} {ids[3]} …")
    expect(part("tokenizer")).to_have_attribute("data-works", "false")
    expect(part("kv_cache_manager")).to_contain_text("2 blocks taken: 0 1")
    expect(part("model_runner")).to_contain_text(f"K and V into slots 0 to {len(ids) - 1}")
    step(page)
    expect(part("scheduler")).to_contain_text("0 waiting, 1 running→ 1 sequence, 1 of 512 tokens")
    expect(part("kv_cache_manager")).to_contain_text("no block taken")
    expect(part("model_runner")).to_contain_text(f"K and V into slot {len(ids)}{len(ids) + 1} keys read")
    expect(part("detokenizer")).to_contain_text("↺ to the scheduler")
    page.click("#btn-back")
    page.click("#btn-back")
    expect(part("tokenizer")).to_have_attribute("data-works", "true")
    expect(part("scheduler")).to_contain_text("queued; no step yet")
