"""A hybrid run in a real browser: every second layer sees all keys, the others a window; each kind has its own
blocks.
"""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import fail_on_violations, open_with_axe, violations
from tests.browser.driving import OpenPage, prefill, select, step, wait_until

HYBRID = "attention_window=16&attention_sinks=0&sliding_window_pattern=2"
PANEL = "#region-provenance"
FULL, WINDOWED = 0, 1  # groups, the one that sees most first: layers 1 and 3, layers 0 and 2


def held(page: Page) -> list[int]:
    """Return the blocks held in each group, from its title."""
    wait_until(page, "document.documentElement.dataset.moving === 'false'")
    return [int(title.get_attribute("data-held") or -1) for title in page.locator(".group-held").all()]


def blocks_of(page: Page) -> list[list[int]]:
    """Return the block ids of each group, from the log's header."""
    found: list[list[int]] = page.evaluate("""() => import('/static/js/state/store.js').then(({ log }) =>
      log.value.groups.map((g) => Array.from({ length: g.num_blocks }, (_, i) => g.first_block + i)))""")
    return found


def lit(page: Page, group: int) -> list[int]:
    """Return the highlighted blocks in the tables of `group`."""
    entries = page.locator(f'.table-row[data-group="{group}"] .entry.pointed').all()
    return [int(entry.get_attribute("data-to") or -1) for entry in entries]


def look_at_layer(page: Page, layer: int) -> None:
    page.select_option("#layer", str(layer))


def slot_block(page: Page) -> int:
    """Return the block of the slot in the provenance panel."""
    text = page.locator(f'{PANEL} [data-kind="slot"]').first.inner_text()
    found = re.search(r"= (\d+) · 4 \+ \d+ = \d+", text)
    assert found, text
    return int(found[1])


def test_a_weight_leads_to_the_block_of_its_layers_kind(open_page: OpenPage) -> None:
    page = open_page(f"/?{HYBRID}&layer=0")
    prefill(page)
    step(page, 6)
    pools = blocks_of(page)
    page.click('[data-position="18"]')
    windowed = slot_block(page)
    assert windowed in pools[WINDOWED]
    assert lit(page, WINDOWED) == [windowed]
    assert lit(page, FULL) == []
    expect(page.locator(f'{PANEL} [data-kind="table"]')).to_contain_text("In layers 0, 2: Logical block 4")
    expect(page.locator(f'{PANEL} [data-kind="bytes"]')).to_contain_text("2 layers · 2 KV heads")
    look_at_layer(page, 1)
    expect(page.locator(f'{PANEL} [data-kind="table"]')).to_contain_text("In layers 1, 3: Logical block 4")
    full = slot_block(page)
    assert full in pools[FULL]
    assert (lit(page, FULL), lit(page, WINDOWED)) == ([full], [])


def test_a_key_outside_the_window_is_marked_as_released(open_page: OpenPage) -> None:
    page = open_page(f"/?{HYBRID}&layer=0")
    prefill(page)
    step(page, 8)
    select(page, '{"position": 1}')
    expect(page.locator(f'{PANEL} [data-kind="released"]')).to_contain_text(
        "Layers 0, 2 see the last 16 keys: the block of this key was released. Layers 1, 3 keep it, in block 0."
    )
    expect(page.locator(f'{PANEL} [data-kind="weight"]')).to_contain_text("The query did not see this key")
    expect(page.locator(f'{PANEL} [data-kind="slot"]')).to_have_count(0)
    look_at_layer(page, 3)
    expect(page.locator(f'{PANEL} [data-kind="slot"]')).to_contain_text("0 · 4 + 1 = 1")


def test_the_windowed_pool_stops_growing_and_the_page_says_what_that_saves(open_page: OpenPage) -> None:
    page = open_page(f"/?{HYBRID}&max_tokens=40")
    prefill(page)
    titles = ["layers 1, 3 · all keys", "layers 0, 2 · the last 16 keys"]
    expect(page.locator(".pool-group .group-name")).to_have_text(titles)
    seen = [held(page)]
    for _ in range(6):
        step(page, 4)
        seen.append(held(page))
    assert [full for full, _ in seen] == [4, 5, 6, 7, 8, 9, 10]  # a block more every four tokens
    assert max(windowed for _, windowed in seen) <= 16 // 4 + 1  # the window, and the block that it begins in
    kept = int(page.locator("#all-kept").get_attribute("data-bytes") or 0)
    assert kept == 10 * 4 * 2048  # the full layers' ten blocks, in every layer
    page.click("#memory-figures .figure.held .figure-bytes")
    expect(page.locator(f'{PANEL} [data-kind="figure"]')).to_contain_text("40 slots · 1\u2009024 B = 40\u2009960 B")
    expect(page.locator(f'{PANEL} [data-kind="part"]')).to_have_count(2)
    memory = page.evaluate("""() => import('/static/js/state/store.js').then(({ record, state }) =>
      import('/static/js/core/state.js').then(({ memoryFigures }) =>
        JSON.stringify(memoryFigures(state.value)) === JSON.stringify(record.value.memory)))""")
    assert memory, "the page counts other figures than the engine"


def test_each_group_has_its_queue_and_arrow_keys_walk_over_both_pools(open_page: OpenPage) -> None:
    page = open_page(f"/?{HYBRID}")
    prefill(page)
    first = blocks_of(page)[WINDOWED][0]
    expect(page.locator(".queue")).to_have_count(2)
    expect(page.locator(f'.queue[data-group="{WINDOWED}"] .chip.head')).to_contain_text(f"▸{first + 4}")
    page.locator(f'.block-button[data-block="{first - 1}"]').focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".block-button:focus")).to_have_attribute(
        "aria-label", re.compile(f"Block {first}; layers 0, 2 · the last 16 keys; held by seq 0")
    )


def test_a_run_with_one_kind_of_layer_has_one_pool_without_a_title(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    expect(page.locator(".pool-group")).to_have_count(0)
    expect(page.locator(".queue")).to_have_count(1)
    expect(page.locator("#all-kept")).to_have_count(0)
    expect(page.locator("#sliding-window-pattern")).to_have_count(0)
    page.select_option("#attention-window", "16")
    expect(page.locator("#sliding-window-pattern")).to_have_value("0")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_violation_in_a_hybrid_run(open_page: OpenPage, scheme: str) -> None:
    page = open_with_axe(open_page, f"/?{HYBRID}&layer=0", color_scheme=scheme)
    prefill(page)
    step(page, 6)
    found = {"steps": violations(page)}
    select(page, '{"position": 1}')
    expect(page.locator(PANEL)).to_be_visible()
    fail_on_violations({**found, "released": violations(page)})
