"""Panel of forgotten tokens in a real browser: choosing a policy, inspecting a forgotten key, keeping it in a fork."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.driving import OpenPage, prefill, step, wait_for_record
from tests.browser.settling import address_settings

IN_SIGHT = """(selector) => {
  const { left, top, width, height } = document.querySelector(selector).getBoundingClientRect();
  return [0.1, 0.9].every((part) => {
    const at = document.elementFromPoint(left + Math.min(8, width / 2), top + part * height);
    return at?.matches(`${selector}, ${selector} *`);
  });
}"""
POEM = "春江潮水连海平，海上明月共潮生。"  # 16 tokens


def test_a_forgotten_key_explains_itself_and_can_be_kept(open_page: OpenPage) -> None:
    page = open_page("/?temperature=0&detail_large=1", height=1400)
    expect(page.locator("#detail-forgetting")).to_have_count(0)  # nothing is forgotten yet
    page.select_option("#forget-policy", "tova")
    page.select_option("#forget-budget", "8")
    page.check("#forget-compare")
    prefill(page, POEM)
    step(page, 2)
    page.click("#detail-forgetting")
    panel = page.locator("#forgetting")
    expect(panel).to_contain_text("each KV head of a layer keeps 8 tokens")
    head = panel.locator("thead th").nth(1)
    expect(head).to_have_attribute("title", "layer 0, KV head 0")
    own = panel.locator("tbody tr td:nth-of-type(1) .forgetting-cell")
    expect(own).to_have_count(18)
    expect(panel.locator("tbody tr td:nth-of-type(1) .forgetting-cell[data-gone=true]")).to_have_count(18 - 8)
    expect(panel.locator("#forgetting-memory")).to_contain_text("pairs,")
    expect(panel.locator("#forgetting-quality")).to_contain_text("over 3 outputs")
    missed = panel.locator("#forgetting-quality button").last
    expect(missed).to_contain_text("that any forgotten token would have had in 32 heads")  # 4 layers of 8 query heads
    gone = panel.locator("tbody tr td:nth-of-type(1) .forgetting-cell[data-gone=true]").first
    name = str(gone.get_attribute("aria-label"))
    position = int(name.split()[1].rstrip(","))
    gone.click()
    why = panel.locator("#forgetting-why")
    expect(why).to_contain_text(f"Layer 0, KV head 0 forgot “{POEM[position]}” (position {position}) when")
    expect(why).to_contain_text("was number")
    expect(why).to_contain_text("the budget is 8")
    before = address_settings(page)["theater"]
    page.click("#forgetting-keep")
    expect(page.locator("#compare")).to_have_attribute("data-ready", "true")
    found = address_settings(page)
    assert found["run_a"] == before != found["run_b"]
    page.goto(f"{page.url.split('?')[0]}?theater={found['run_b']}&detail=forgetting")
    row = page.locator(f'#forgetting tr[data-row="{position}"]')
    expect(row).to_have_attribute("data-pinned", "true")
    expect(row.locator(".forgetting-cell[data-gone=true]")).to_have_count(0)


def test_a_finished_sequence_is_shown_as_finished(open_page: OpenPage) -> None:
    page = open_page("/?forget_policy=tova&forget_budget=8&max_tokens=2&ignore_eos=1&detail=forgetting")
    prefill(page, POEM)
    memory = page.locator("#forgetting-memory")
    expect(memory).to_contain_text("pairs,")
    step(page)
    expect(memory).to_have_text("The sequence has finished: its blocks are free, and nothing of it is masked any more.")


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (390, 844)])
def test_the_reason_of_a_forgotten_key_is_visible_beside_its_cell(open_page: OpenPage, width: int, height: int) -> None:
    page = open_page("/?temperature=0&forget_policy=tova&forget_budget=8", width=width, height=height)
    page.evaluate(
        """async (text) => {
          const { submit } = await import('/static/js/net/commands.js');
          await submit([{ text }]);
        }""",
        POEM * 3,
    )
    page.click("#btn-prefill")
    wait_for_record(page, 1)
    step(page, 2)
    page.evaluate(
        "import('/static/js/state/settings.js').then(({ settings }) => {"
        " settings.region.value = 'detail'; settings.detail.value = 'forgetting' })"
    )
    cells = page.locator(".forgetting-cell[data-gone=true]")
    expect(cells).not_to_have_count(0)
    for index in (0, cells.count() // 2, cells.count() - 1):
        cells.nth(index).click()
        expect(page.locator("#forgetting-why")).to_be_visible()
        assert page.evaluate(IN_SIGHT, "#forgetting-why p"), index
        assert page.evaluate(IN_SIGHT, ".forgetting-cell[aria-pressed=true]"), index
