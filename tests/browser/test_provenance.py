"""Provenance panel in a real browser: for each selection its chain in words, its links, the way back."""

import re

from playwright.sync_api import Page, expect

from tests.browser.driving import POEM, OpenPage, prefill, select, step, wait_for_record, wait_until

PANEL = "#region-provenance"


def link(page: Page, kind: str) -> str:
    return page.locator(f'{PANEL} [data-kind="{kind}"]').first.inner_text()


def test_a_keys_provenance_is_in_the_link(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    step(page)
    expect(page.locator(PANEL)).to_have_count(0)
    page.click('[data-position="9"]')
    expect(page.locator(PANEL)).to_be_visible()
    expect(page.locator("#prompt")).not_to_be_visible()
    kinds = page.locator(f"{PANEL} li[data-kind]").evaluate_all("(all) => all.map((e) => e.dataset.kind)")
    assert kinds[:6] == ["query", "weight", "key", "slot", "block", "table"]
    assert "2 · 4 + 1 = 9" in link(page, "slot")  # block 2, position 9 mod 4
    assert "tokens 0–15 of its prompt" in link(page, "decision")
    assert "2\u2009048 B a token" in link(page, "bytes")
    wait_until(page, "location.search.includes('select=p9s0')")
    other = open_page("/" + page.url[page.url.index("?") :])
    expect(other.locator(PANEL)).to_contain_text("2 · 4 + 1 = 9")
    page.keyboard.press("Escape")
    expect(page.locator(PANEL)).to_have_count(0)
    expect(page.locator("#prompt")).to_be_visible()


def test_a_weight_of_an_earlier_query_is_the_captured_one(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    step(page, 2)
    select(page, '{"query": 10, "position": 4}')
    weight = page.evaluate("""async () => {
      const store = await import('/static/js/state/store.js');
      const { attentionRow } = await import('/static/js/core/sequence_view.js');
      const row = attentionRow(store.log.value, 1, 0, store.layer.value, store.head.value, 10);
      return String(Number(row.weights[4].toPrecision(4)));
    }""")
    assert f"weight {weight}, rank" in link(page, "weight")
    assert "position 10" in link(page, "query")


def test_links_of_a_chain_lead_through_the_run_and_back_and_forward(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    step(page, 2)
    page.click('[data-position="9"]')
    page.locator(f'{PANEL} [data-kind="decision"] .way', has_text="record 2").click()
    wait_for_record(page, 1)
    page.locator(f'{PANEL} [data-kind="block"] .way').click()
    expect(page.locator(f"{PANEL} h2")).to_contain_text("Block")
    page.locator(f'{PANEL} [data-kind="decision"] .way', has_text="allocate").click()
    expect(page.locator(f"{PANEL} h2")).to_contain_text("Decision")
    page.click("#btn-chain-back")
    expect(page.locator(f"{PANEL} h2")).to_contain_text("Block")
    page.click("#btn-chain-back")
    page.click("#btn-chain-back")
    wait_for_record(page, 3)
    expect(page.locator(f"{PANEL} h2")).to_contain_text("Key")
    page.click("#btn-chain-forward")
    wait_for_record(page, 1)


def test_a_reused_block_names_its_writer(open_page: OpenPage) -> None:
    page = open_page("/?max_tokens=4&speed=0")
    prefill(page)
    page.click("#btn-run")
    expect(page.locator(".status.finished")).to_have_count(1)
    page.fill("#prompt", POEM[:12] + "何处")
    page.click("#btn-prefill")
    wait_until(page, "document.querySelectorAll('.entry').length >= 4")
    page.click('[data-position="1"]')
    assert "written by seq 0, which no longer holds the block" in link(page, "written")
    assert "prefix-cache hit" in link(page, "owners")


def test_a_sequence_and_a_decision_have_provenance_chains(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    page.locator(".table-name").first.click()
    expect(page.locator(f"{PANEL} h2")).to_contain_text("Sequence")
    assert "request-0" in link(page, "request")
    page.locator(f'{PANEL} [data-kind="blocks"] .way').nth(1).click()
    expect(page.locator(f'{PANEL} [data-kind="block"] .provenance-value')).to_have_text("1")
    select(page, '{"record": 1, "op": 2}')
    assert "Block 0 goes to seq 0, as logical block 0." in link(page, "decision")


def test_every_link_has_its_fidelity_and_chinese_words(open_page: OpenPage) -> None:
    page = open_page(locale="zh-CN")
    prefill(page)
    step(page)
    page.click('[data-position="9"]')
    links = page.locator(f"{PANEL} li[data-kind]")
    expect(links.first).to_be_visible()  # the panel comes when it is first shown
    assert links.count() == page.locator(f"{PANEL} li[data-kind] .fidelity").count() >= 8
    text = page.locator(PANEL).inner_text()
    assert re.search("预填充|接纳|提示", text)
    assert not re.search(r"chain\.|op\.\w+", text)  # no key without its words
