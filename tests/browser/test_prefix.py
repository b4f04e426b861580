"""The prefix cache on the page: a tree for the keyboard, its held blocks, and hits of a written prompt."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.loader import from_module
from tests.browser.axe import fail_on_violations, open_with_axe, violations
from tests.browser.driving import POEM, OpenPage, add, prefill
from tests.browser.dropping import drop_recording
from tests.browser.settling import wait_for_value
from tests.tiny_models import tiny_model, tiny_tokenizer


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Submit sixty prompts with two prefixes, one after the other, in a pool with room for all."""
    path = tmp_path_factory.mktemp("forked") / "forked.kvtrace"
    model = from_module(tiny_model("llama"), tiny_tokenizer(), "tiny-llama")
    with Engine(model, EngineConfig(block_size=4, num_blocks=400, max_num_seqs=4), log_path=path) as engine:
        for i in range(60):
            beginning = list(range(3 + 20 * (i % 2), 19 + 20 * (i % 2)))  # sixteen tokens: four blocks
            own = [3 + i // 2, 40 - i // 3, 5, 6, 7]
            engine.add_request([*beginning, *own], SamplingParams(max_tokens=4, ignore_eos=True), f"r{i}")
        while engine.has_unfinished():
            engine.step()
    return path


def rows(page: Page) -> list[tuple[str, str]]:
    """Return (level, text) of the rows in the document."""
    found = page.locator("[role=treeitem]").evaluate_all(
        "(all) => all.map((row) => [row.ariaLevel, row.querySelector('.prefix-text').innerText])"
    )
    return [(level, text) for level, text in found]


def test_two_prompts_that_begin_alike_are_one_branch_that_forks(open_page: OpenPage) -> None:
    page = open_page("/?detail=prefix&block_size=4&lang=en")
    expect(page.locator("#detail-panel")).to_contain_text("Nothing is cached yet")
    prefill(page, "春江潮水连海平，海上明月共潮生。")
    expect(page.locator("[role=treeitem]")).to_have_count(1)
    add(page, "春江潮水连海平，海上生明月，天涯")
    page.click("#btn-step")
    expect(page.locator("[role=treeitem]")).to_have_count(3)
    found = rows(page)
    assert [level for level, _ in found] == ["1", "2", "2"]
    assert found[0][1].endswith("春江潮水连海平，")  # two blocks of four, which both have
    held = re.compile("held by seq 0, seq 1")
    expect(page.locator("[role=treeitem]").first).to_have_attribute("aria-description", held)


def test_a_typed_prompt_marks_the_blocks_that_it_would_hit(open_page: OpenPage) -> None:
    page = open_page("/?detail=prefix&block_size=4&lang=en")
    prefill(page, POEM)
    expect(page.locator("#prefix-text")).to_be_visible()
    page.fill("#prefix-text", "春江潮水连海平，何处春江无月明。")
    answer = page.locator("#prefix-answer")
    expect(answer).to_contain_text("2 of 3 blocks would hit: 8 of 16 tokens")
    expect(answer).to_contain_text("the next block shares 0 tokens")
    expect(page.locator(".prefix-cell.hit")).to_have_count(2)
    page.fill("#prefix-text", "白日依山尽，黄河入海流。")
    expect(answer).to_contain_text("No cached prompt begins like it")
    expect(page.locator(".prefix-cell.hit")).to_have_count(0)
    page.fill("#prefix-text", "")
    expect(answer).to_be_empty()


def test_a_block_selected_in_the_tree_is_selected_everywhere(open_page: OpenPage) -> None:
    page = open_page("/?recording=rec-prefix&detail=prefix", connection="replay")
    page.locator(".prefix-cell").first.click()
    expect(page.locator("[data-block='0'][aria-pressed=true]")).to_have_count(1)  # in the pool
    expect(page.locator(".prefix-row.shown")).to_have_count(1)


def test_arrow_keys_walk_the_tree_which_holds_only_visible_rows(open_page: OpenPage, forked: Path) -> None:
    page = open_page("/?detail=prefix")
    drop_recording(page, forked)
    items = page.locator("[role=treeitem]")
    expect(items.first).to_be_visible()
    assert items.count() < 40
    page.locator("[role=treeitem][tabindex='0']").focus()
    page.keyboard.press("End")
    wait_for_value(page, "Number(document.activeElement.dataset.row) > 40", True)
    page.keyboard.press("ArrowLeft")
    wait_for_value(page, "document.activeElement.getAttribute('aria-level')", "1")
    expect(page.locator("[role=treeitem]:focus")).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("[role=treeitem]:focus")).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("Enter")  # and is shown block by block once it is open again
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("[role=treeitem]:focus")).to_have_class(re.compile("single"))
    page.keyboard.press("Enter")
    expect(page.locator("[role=treeitem]:focus")).to_have_attribute("aria-selected", "true")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible(open_page: OpenPage, scheme: str) -> None:
    page = open_with_axe(
        open_page, "/?recording=rec-preemption&detail=prefix", connection="replay", color_scheme=scheme
    )
    page.select_option("#prefix-request", "2")
    expect(page.locator("#prefix-answer")).not_to_be_empty()
    fail_on_violations({"prefix": violations(page)})


def test_on_a_phone_rows_are_thumb_sized_and_no_wider_than_it(open_page: OpenPage) -> None:
    page = open_page(
        "/?recording=rec-preemption&detail=prefix&region=detail", connection="replay", width=390, height=844
    )
    box = page.locator("[role=treeitem]").first.bounding_box()
    assert box is not None and box["height"] >= 44
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390


def test_a_private_log_has_a_tree_without_texts(open_page: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "private.kvtrace"
    model = from_module(tiny_model("llama"), tiny_tokenizer(), "tiny-llama")
    with Engine(model, EngineConfig(block_size=4, num_blocks=64, private=True), log_path=path) as engine:
        for i in range(2):
            prompt = [*range(3, 15), 20 + i, 5, 6, 7, 8]
            engine.add_request(prompt, SamplingParams(max_tokens=2, ignore_eos=True), f"r{i}")
        while engine.has_unfinished():
            engine.step()
    page = open_page("/?detail=prefix&lang=en")
    drop_recording(page, path)
    expect(page.locator("#detail-panel")).to_contain_text("This log is private")
    expect(page.locator("#prefix-request")).to_have_count(0)
    found = rows(page)
    assert [level for level, _ in found] == ["1", "2", "2"]
    assert [text.lstrip("▾▸ ") for _, text in found] == ["positions 0–11", "positions 12–15", "positions 12–15"]
