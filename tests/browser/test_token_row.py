"""Token row and motion model in a real browser: sub-steps, vectors, 2,000 tokens, scrolling."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.capture import CaptureRequest
from engine.model.loader import from_module
from tests.browser.driving import OpenPage, prefill, step, wait_for_record, wait_for_rest, wait_until
from tests.browser.dropping import drop_recording
from tests.browser.settling import theater_of
from tests.tiny_models import tiny_model, tiny_tokenizer

LONG_PROMPT = 1990
NUM_DECODED = 12


def positions(page: Page) -> list[int]:
    """Return the positions that have a column in the document."""
    return [int(p) for p in page.locator(".token").evaluate_all("(all) => all.map((e) => e.dataset.position)")]


def in_sight(page: Page, position: int) -> bool:
    return bool(
        page.evaluate(
            """(position) => {
              const token = document.querySelector(`.token[data-position="${position}"]`)?.getBoundingClientRect();
              const sight = document.querySelector('.token-row-scroll').getBoundingClientRect();
              return Boolean(token) && token.left >= sight.left - 1 && token.right <= sight.right + 1;
            }""",
            position,
        )
    )


@pytest.fixture(scope="module")
def long_recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record 1,990 prompt tokens in two chunks, of which only the second is captured, then 12 decode steps."""
    path = tmp_path_factory.mktemp("strip") / "long.kvtrace"
    model = from_module(tiny_model("llama", max_position_embeddings=2048), tiny_tokenizer(), "tiny-llama")
    config = EngineConfig(block_size=4, num_blocks=512, max_num_batched_tokens=1024)
    with Engine(model, config, log_path=path) as engine:
        prompt = [3 + i % 40 for i in range(LONG_PROMPT)]
        engine.add_request(prompt, SamplingParams(max_tokens=NUM_DECODED + 1, ignore_eos=True))
        engine.step()
        engine.capture = CaptureRequest(layers=None, heads=None)
        while engine.has_unfinished():
            engine.step()
    return path


def test_2000_tokens_keep_the_document_small_and_the_keyboard_walks_along_them(
    open_page: OpenPage, long_recording: Path
) -> None:
    page = open_page(motion=True)
    drop_recording(page, long_recording)
    last = LONG_PROMPT + NUM_DECODED
    wait_for_rest(page, 2 + NUM_DECODED)
    assert in_sight(page, last)
    assert len(positions(page)) < 60
    page.locator(".minimap-track").focus()
    page.keyboard.press("Home")
    expect(page.locator('.token[data-position="0"]')).to_be_visible()
    assert len(positions(page)) < 60
    # the first chunk was computed without anybody watching: its columns say so
    expect(page.locator('.token[data-position="0"]')).to_have_attribute(
        "aria-label", re.compile("vectors not captured in their step")
    )
    page.locator(".minimap-newest").click()
    assert in_sight(page, last)
    label = page.locator(f'.token[data-position="{last - 1}"]').get_attribute("aria-label")
    assert label and "attention" in label and "not captured" not in label
    page.locator(".token[tabindex='0']").focus()
    for key, position in (("Home", 0), ("PageDown", 10), ("ArrowRight", 11), ("End", last), ("ArrowLeft", last - 1)):
        page.keyboard.press(key)
        expect(page.locator(".token:focus")).to_have_attribute("data-position", str(position))
    page.locator("#btn-first").click()
    wait_for_rest(page, -1)
    assert positions(page) == []


def test_dragging_the_overview_moves_the_token_row(open_page: OpenPage, long_recording: Path) -> None:
    page = open_page()
    drop_recording(page, long_recording)
    wait_for_rest(page, 2 + NUM_DECODED)
    box = page.locator(".minimap-track").bounding_box()
    assert box
    # 2,003 of the 2,003 places that can come: the middle of the picture is position 1,001
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 5)
    expect(page.locator('.token[data-position="1001"]')).to_have_count(1)
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 5, steps=4)
    page.mouse.up()
    expect(page.locator('.token[data-position="501"]')).to_have_count(1)
    assert len(positions(page)) < 60


def test_a_column_shows_the_captured_numbers(open_page: OpenPage) -> None:
    page = open_page("/?layer=1&head=5")
    prefill(page)
    step(page)
    wait_for_rest(page, 2)
    theater = theater_of(page)
    layers: dict[str, Any] = page.evaluate(
        f"fetch('/api/theaters/{theater}/records/2/layers/1?format=json').then((r) => r.json())"
    )
    position = positions(page)[-1] - 1  # the token computed in this step
    page.locator(f'.token[data-position="{position}"]').focus()
    tip = page.locator(".tooltip")
    expect(tip).to_contain_text("‖K‖")
    head = {"k": 5 // 4, "v": 5 // 4, "q": 5}  # 8 query heads over 2 KV heads: query head 5 reads KV head 1
    for kind in ("k", "v", "q"):
        page.keyboard.press("ArrowDown")
        vector: list[float] = layers[kind][0][head[kind]]
        norm = math.sqrt(sum(x * x for x in vector))
        expect(tip).to_contain_text(f"‖{kind.upper()}‖ = {float(f'{norm:.3g}'):g}")
        expect(tip).to_contain_text(f"{len(vector)} × float32, layer 1")
        shown = page.locator(".tip-numbers span").all_inner_texts()
        assert len(shown) == len(vector)
        for text, value in zip(shown, vector, strict=True):
            assert abs(float(text.replace("−", "-")) - value) <= 0.005 + 1e-9
    # a query of an earlier step is not stored, and the column says why
    page.keyboard.press("ArrowLeft")
    expect(tip).to_contain_text("only the step that computed this query used it")


def test_a_link_shows_a_step_up_to_a_sub_step(open_page: OpenPage) -> None:
    page = open_page(motion=True)
    prefill(page)
    step(page, 2)
    wait_for_rest(page, 3)
    theater = theater_of(page)
    text = page.locator("#generated").inner_text()
    chosen = positions(page)[-1]  # at the end of this step, which computed the one before it
    seen = []
    for sub in range(6):
        linked = open_page(f"/?theater={theater}&step=3&sub={sub}")
        wait_for_rest(linked, 3)
        label = linked.locator(f'.token[data-position="{chosen - 1}"]').get_attribute("aria-label") or ""
        weight = linked.locator(f'.token[data-position="{chosen - 2}"]').get_attribute("aria-label") or ""
        seen.append(
            (
                "no key and value yet" in label,
                "computed, not written yet" in label,
                "block" in label,
                "attention" in weight,
                positions(linked)[-1] == chosen,
                linked.locator("#generated").inner_text() == text,
            )
        )
        linked.context.close()
    assert seen == [
        (True, False, False, False, False, False),  # schedule
        (True, False, False, False, False, False),  # allocate
        (False, True, False, False, False, False),  # qkv
        (False, False, True, False, False, False),  # write
        (False, False, True, True, False, False),  # attend
        (False, False, True, True, True, True),  # sample
    ]


def test_going_back_draws_the_later_record_until_the_motion_ends(open_page: OpenPage) -> None:
    page = open_page(motion=True)
    prefill(page)
    step(page, 2)
    wait_for_rest(page, 3)
    newest = positions(page)[-1]
    drawn = page.evaluate(
        """() => new Promise((resolve) => {
          const seen = [];
          const root = document.documentElement;
          document.querySelector('#btn-back').click();
          const look = () => {
            seen.push([root.dataset.painted, root.dataset.moving]);
            if (root.dataset.painted === '2') resolve(seen);
            else setTimeout(look, 20);
          };
          setTimeout(look, 20);
        })"""
    )
    assert ["3", "true"] in drawn
    assert drawn[-1][0] == "2"
    assert positions(page)[-1] == newest - 1


@pytest.mark.parametrize("motion", [False, True], ids=["the system's wish", "the setting"])
def test_without_motion_a_step_is_drawn_at_once(open_page: OpenPage, motion: bool) -> None:
    page = open_page("/?motion=0" if motion else "/", motion=motion)
    prefill(page)
    moved = page.evaluate(
        """() => new Promise((resolve) => {
          let moved = 0;
          const root = document.documentElement;
          const look = () => {
            if (root.dataset.moving === 'true') moved += 1;
            if (root.dataset.painted === '2') resolve(moved);
            else requestAnimationFrame(look);
          };
          document.querySelector('#btn-step').click();
          look();
        })"""
    )
    assert moved == 0


def test_the_token_row_follows_the_newest_column_unless_it_was_scrolled(open_page: OpenPage) -> None:
    page = open_page("/?motion=0")
    prefill(page)
    step(page, 8)
    wait_for_record(page, 9)
    newest = positions(page)[-1]
    assert in_sight(page, newest)
    page.locator(".token-row-scroll").hover()
    page.mouse.wheel(-5000, 0)
    expect(page.locator('.token[data-position="0"]')).to_have_count(1)
    expect(page.locator(".minimap-newest")).to_be_visible()
    step(page, 2)
    assert page.locator(".token-row-scroll").evaluate("(e) => e.scrollLeft") == 0
    page.locator(".minimap-newest").click()
    assert in_sight(page, newest + 2)
    step(page, 8)
    assert in_sight(page, newest + 10)


def test_a_new_run_is_followed_after_scrolling_in_the_last(open_page: OpenPage, long_recording: Path) -> None:
    page = open_page("/?motion=0")
    drop_recording(page, long_recording)
    wait_for_rest(page, 2 + NUM_DECODED)
    page.locator(".token-row-scroll").hover()
    page.evaluate(
        """() => document.querySelector('.token-row-scroll')
          .addEventListener('scrollend', () => { globalThis.wheelIsOver = true; }, { once: true })"""
    )
    page.mouse.wheel(-100_000, 0)
    expect(page.locator('.token[data-position="0"]')).to_have_count(1)
    wait_until(page, "globalThis.wheelIsOver === true")  # until then the wheel may scroll once more
    drop_recording(page, long_recording)
    expect(page.locator(f'.token[data-position="{LONG_PROMPT + NUM_DECODED}"]')).to_be_in_viewport()


def test_nothing_of_the_stage_shifts_while_steps_come(open_page: OpenPage) -> None:
    page = open_page("/?speed=8", motion=True)
    prefill(page)
    wait_for_rest(page, 1)
    page.evaluate(
        """() => {
          globalThis.shifts = [];
          new PerformanceObserver((list) => {
            for (const entry of list.getEntries())
              for (const source of entry.sources) {
                const node = source.node?.closest?.('.stage *');
                if (node && !node.closest('.token-row-tokens')) globalThis.shifts.push(node.className);
              }
          }).observe({ type: 'layout-shift', buffered: false });
        }"""
    )
    boxes = """[...document.querySelectorAll('.stage-head, .token-row, .token-row-window, .minimap, .gutter, .chain')]
      .map((e) => { const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })"""
    places = """[...document.querySelectorAll('.pool, .tables, .figures, .below, .transport')]
      .map((e) => [e.getBoundingClientRect().left, e.getBoundingClientRect().top])"""
    before, stood = page.evaluate(boxes), page.evaluate(places)
    x = page.locator('.token[data-position="3"]').evaluate("(e) => [e.style.left, e.style.width]")
    step(page, 6)
    assert page.locator('.token[data-position="6"]').count() == 1
    assert page.evaluate(boxes) == before and page.evaluate(places) == stood
    assert page.evaluate("globalThis.shifts") == []
    page.click("#btn-first")
    wait_for_rest(page, -1)
    page.click("#btn-forward")
    page.click("#btn-forward")
    wait_for_rest(page, 1)
    assert page.locator('.token[data-position="3"]').evaluate("(e) => [e.style.left, e.style.width]") == x


def test_a_rebuilt_token_row_keeps_its_scroll_position(open_page: OpenPage) -> None:
    """Another distance has another token row; there too the newest token is below the newest column."""
    page = open_page("/?recording=rec-moon&step=20&distance=bench", connection="replay", width=1280, height=720)
    page.wait_for_selector(".token")
    newest = max(positions(page))
    assert in_sight(page, newest)
    page.evaluate(
        "import('/static/js/state/settings.js').then(({settings}) => { settings.viewMode.value = 'present'; })"
    )
    page.wait_for_selector(".present-regions .token")
    page.wait_for_timeout(300)  # what would come wrong has come
    assert in_sight(page, newest)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_on_a_phone_each_row_shows_its_name_and_fidelity_mark(open_page: OpenPage, lang: str) -> None:
    """Names and fidelity marks end before the first column."""
    page = open_page(f"/?lang={lang}", width=390, height=844)
    page.click("#btn-step")
    expect(page.locator(".gutter-name")).to_have_count(4)
    ends = """(names) => {
      const start = document.querySelector(".token-row-scroll").getBoundingClientRect().left;
      return names.every((name) => {
        const text = document.createRange();
        text.selectNodeContents(name);
        return text.getBoundingClientRect().right <= start;
      });
    }"""
    assert page.locator(".gutter-name").evaluate_all(ends)
