"""Memory region in a real browser: map of the pool, free queue, tables, figures."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import POEM, OpenPage, add, prefill, step, wait_for_record, wait_for_rest, wait_until
from tests.browser.settling import wait_for_value, wait_until_still

GEOMETRY = """() => {
  const box = (e) => e.getBoundingClientRect();
  const region = box(document.querySelector('#region-memory'));
  const scroll = document.querySelector('.pool-scroll');
  const cut = [...document.querySelectorAll('#memory-figures *')].filter(
    (e) => e.getClientRects().length && (box(e).bottom > region.bottom || box(e).right > region.right + 1));
  return { cut: cut.map((e) => e.className || e.tagName), scrolls: scroll.scrollHeight > scroll.clientHeight,
           level: document.querySelector('.pool').dataset.level };
}"""


@pytest.mark.parametrize(
    ("query", "level"),
    [
        ("", "slots"),
        ("?num_blocks=256", "blocks"),
        ("?num_blocks=12&block_size=16", "slots"),
        ("?strategy=contiguous", "slots"),
    ],
)
def test_at_1280_by_800_the_pool_fits_and_no_figure_is_cut(open_page: OpenPage, query: str, level: str) -> None:
    page = open_page("/" + query)
    prefill(page)
    step(page)
    wait_for_value(page, f"({GEOMETRY})()", {"cut": [], "scrolls": False, "level": level})


def test_a_pool_of_thousands_is_a_map_that_arrow_keys_walk(open_page: OpenPage) -> None:
    page = open_page("/?num_blocks=4096")
    prefill(page)
    wait_for_value(page, f"({GEOMETRY})()", {"cut": [], "scrolls": False, "level": "blocks"})
    expect(page.locator(".block-button")).to_have_count(1)
    page.locator(".block-button").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".block-button:focus")).to_have_attribute("aria-label", re.compile("Block 1; held by seq 0"))
    page.keyboard.press("ArrowDown")
    expect(page.locator(".block-button:focus")).to_have_attribute("aria-label", re.compile("free, place"))


def queue_comes_to(page: Page, chips: list[str]) -> None:
    """Wait until the displayed free queue is this one."""
    wait_until(page, "document.documentElement.dataset.moving === 'false'")
    expect(page.locator("#free-queue .chip")).to_have_text(chips)


def test_the_free_queue_names_every_block_in_order(open_page: OpenPage) -> None:
    page = open_page("/?num_blocks=12&max_tokens=4", motion=True)
    prefill(page)
    queue_comes_to(page, ["▸4–11"])
    step(page)
    queue_comes_to(page, ["▸5–11"])
    page.click("#btn-run")
    expect(page.locator(".status.finished")).to_have_count(1)
    # the tail has no hash and goes to the front; cached blocks go to the back, the last of the table first
    queue_comes_to(page, ["▸4–11", "3–0#"])
    expect(page.locator("#usage")).to_contain_text("held 0.0")
    expect(page.locator("#usage")).to_contain_text("held + cached 33")


def test_figures_are_the_exact_bytes_and_select_what_they_count(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    step(page)
    page.hover("#memory-figures .figure.held .figure-bytes")
    expect(page.locator(".tooltip")).to_contain_text("40\u2009960 bytes")  # 5 blocks of 4 slots of 2048 bytes
    page.click("#memory-figures .figure.held .figure-bytes")
    expect(page.locator("#region-provenance")).to_contain_text("5 · 4 · 2\u2009048 = 40\u2009960 B")
    expect(page.locator(".entry.pointed")).to_have_count(5)


def test_the_contiguous_counterfactual_is_the_formula_with_this_runs_numbers(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    add(page, "白日依山尽，")
    step(page)
    expect(page.locator("#contiguous-fit")).to_contain_text("2 × 192 slots; only 1 fits: 1 of 2 would wait")
    page.click("#contiguous")
    panel = page.locator("#region-provenance")
    expect(panel).to_contain_text("2 · 192 · 2\u2009048 = 786\u2009432 B")
    expect(panel).to_contain_text("⌊192 / 192⌋ = 1")
    expect(panel.locator(".reservations li")).to_have_count(2)
    expect(panel.locator(".reservations .unfit")).to_have_count(1)


def test_a_block_moves_from_the_free_queue_and_the_motion_ends(open_page: OpenPage) -> None:
    page = open_page(motion=True)
    prefill(page)
    wait_until(page, "document.documentElement.dataset.moving === 'false'")
    page.evaluate("""() => {
      window.frames_ = new Set();
      const look = () => {
        window.frames_.add(document.querySelector('.pool-window canvas').toDataURL());
        requestAnimationFrame(look);
      };
      look();
    }""")
    step(page)
    wait_for_rest(page, 2)
    wait_until_still(page)
    moved = page.evaluate("window.frames_.size")
    assert moved >= 3  # before, on the way, after
    page.wait_for_timeout(300)
    assert page.evaluate("window.frames_.size") == moved


def test_on_a_phone_the_map_and_the_provenance_chain_scroll_together(open_page: OpenPage) -> None:
    page = open_page(width=390, height=844, is_mobile=True, has_touch=True)
    page.click("#tab-setup")
    page.fill("#prompt", POEM)
    page.click("#btn-prefill")
    wait_for_record(page, 1)
    page.click("#tab-memory")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.locator(".entry").nth(2).click()
    expect(page.locator("#region-provenance")).to_be_visible()
    memory, panel = (page.locator(f"#region-{name}").bounding_box() for name in ("memory", "provenance"))
    assert memory and panel
    assert panel["y"] >= memory["y"] + memory["height"] - 1  # below, never over it
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_two_samples_share_blocks_until_one_writes(open_page: OpenPage) -> None:
    page = open_page(motion=True)
    prefill(page)
    add(page, POEM[:12] + "何处")
    step(page)
    expect(page.locator(".entry.shared")).to_have_count(6)  # three blocks in two tables
    page.locator('.table-row[data-seq="1"] .table-name').hover()
    expect(page.locator('.table-row[data-seq="1"] .entry.pointed')).to_have_count(4)


def test_live_tokens_are_counted_as_another_models(open_page: OpenPage) -> None:
    """The prompt's 16 tokens take 0.5 MiB each as Llama 2 7B, 4.5 MiB each as GPT-3; the formula has these numbers."""
    page = open_page()
    prefill(page)
    bytes_now = page.locator("#as-model .figure-bytes")
    expect(page.locator("#as-model")).to_contain_text("16 tokens as")
    expect(bytes_now).to_have_text("8\u2009MiB ▸")
    page.locator("#as-model select").select_option(label="GPT-3 175B")
    expect(bytes_now).to_have_text("72\u2009MiB ▸")
    wait_until(page, "location.search.includes('as_model=gpt-3')")
    bytes_now.press("Enter")
    opened = page.locator("#as-model-formula")
    expect(opened).to_contain_text("2 · 96 · 96 · 128 · 2 · 16 = 75\u2009497\u2009472 B")
    expect(opened).to_contain_text("arXiv 2005.14165, table 2.1")
    expect(page.locator("#as-model-fit")).to_contain_text("Its weights are 326 GiB beside that. 8 × A100 SXM 80GB hold")
    expect(opened).to_contain_text(
        "2\u2009300 times what a token takes in this run"
    )  # 4,718,592 / 2,048, to three digits
    step(page)
    expect(page.locator("#as-model")).to_contain_text("17 tokens as")
