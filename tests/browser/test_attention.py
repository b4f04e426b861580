"""The attention panel in a real browser, over the bundled model: matrix, proof, heads, softmax, candidates."""

import re
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import PAINTED, POEM, OpenPage, prefill, select, step, wait_for_record, wait_until
from tests.browser.dropping import drop_recording
from tests.browser.recording import record_prefill
from tests.browser.settling import theater_of, wait_for_value, wait_until_still

PAINTED_ROWS = """() => {
  // how many rows of the matrix carry a colour of the attention scale at their own key
  const canvas = document.querySelector('.matrix canvas');
  const context = canvas.getContext('2d');
  const [width, height] = [canvas.width, canvas.height];
  const data = context.getImageData(0, 0, width, height).data;
  const rows = new Set();
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const i = 4 * (y * width + x);
      if (data[i + 3] > 200 && data[i] - data[i + 2] > 90) rows.add(y);
    }
  return rows.size / (globalThis.devicePixelRatio || 1);
}"""


def painted_rows(page: Page) -> float:
    """Return the painted rows once all are painted, which takes several frames."""
    seen = [-1.0]
    while len(seen) < 4 or len(set(seen[-3:])) > 1:
        seen.append(page.evaluate(PAINTED_ROWS))
        wait_until_still(page)
    return seen[-1]


def number(text: str) -> float:
    """Parse a number of the page, with thin spaces and a real minus sign."""
    return float(text.replace("\u2009", "").replace("−", "-").strip())


def rows_of(page: Page) -> int:
    """Return the rows of the matrix: the tokens computed so far."""
    found = re.search(r"(\d+) rows", page.locator(".matrix .panel-canvas").get_attribute("aria-label") or "")
    assert found
    return int(found[1])


def prove(page: Page) -> dict[str, float]:
    """Recompute without the cache; return the differences by name, and the number of compared weights."""
    page.click(".proof-run")
    expect(page.locator(".proof-list")).to_be_visible(timeout=20_000)
    names = page.locator(".proof-list dt").all_inner_texts()
    values = page.locator(".proof-list dd").all_inner_texts()
    found = {name: number(value) for name, value in zip(names, values, strict=True)}
    count = re.search(r"([\d\u2009]+) weights", page.locator(".proof-scope").text_content() or "")
    assert count
    return {**found, "count": number(count[1])}


def test_earlier_attention_rows_equal_recomputed_ones(open_page: OpenPage) -> None:
    """Each of 8 heads has n(n + 1)/2 weights for n tokens, captured over one prefill and five steps."""
    page = open_page("/?layer=2")
    prefill(page)
    step(page, 5)
    computed = rows_of(page)
    found = prove(page)
    assert found["count"] == 8 * computed * (computed + 1) / 2
    assert 0 <= found["weights"] < 2e-5 and 0 <= found["K"] < 1e-4 and 0 <= found["V"] < 1e-4
    page.click(".proof-worst")  # where the difference is largest
    expect(page.locator("#chain")).to_contain_text("weight")
    page.select_option("#layer", "1")
    other = {name: page.locator(".proof-list dd").nth(i).inner_text() for i, name in enumerate(("weights", "K", "V"))}
    assert all(0 <= number(value) < 1e-4 for value in other.values())  # all layers were compared in one pass
    bars = page.locator("#proof .layer-bar")
    expect(bars).to_have_count(4)
    expect(page.locator(".layer-bar[aria-pressed=true]")).to_have_attribute("data-layer", "1")
    bars.nth(3).click()
    expect(page.locator("#layer")).to_have_value("3")
    bars.nth(3).press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(page.locator("#layer")).to_have_value("2")
    expect(page.locator("#proof-verdict")).to_contain_text(re.compile("4 layers equal within [0-9.]+e−[5-9]"))
    assert page.locator(".layer-bar i[data-differs=true]").count() == 0


def test_a_fault_is_marked_in_the_first_layer_that_it_changes(open_page: OpenPage) -> None:
    """The fault shifts keys by one slot, so each query reads its neighbour's key; K itself is unchanged."""
    page = open_page("/?fault=slot_off_by_one&layer=2")
    prefill(page)
    step(page, 2)
    page.click(".proof-run")
    expect(page.locator("#proof-verdict")).to_contain_text(re.compile("Layer 0 is off first: (weights|K) by"))
    assert page.locator(".layer-bar i[data-differs=true]").count() > 4


def test_the_weighted_sum_of_values_equals_the_engines_vector(open_page: OpenPage) -> None:
    """The sums agree within float32's rounding in every layer, for heads of both KV heads, after a prefill and a
    decode.
    """
    page = open_page("/?answer=output&detail_large=1", height=1000)
    expect(page.locator(".output .hint")).to_contain_text("times its weight")
    prefill(page)
    for count in (0, 2):
        step(page, count)
        for layer, head in ((0, 0), (1, 7), (2, 3), (3, 5)):
            page.select_option("#layer", str(layer))
            page.select_option("#head", str(head))
            expect(page.locator("#attention-output .softmax-query")).to_contain_text(f"layer {layer}, head {head}")
            largest = page.locator("#attention-output").get_attribute("data-largest") or ""
            assert 0 <= float(largest) < 1e-5
    expect(page.locator("#output-foot")).to_contain_text(re.compile("Σ.*= captured.*± [0-9.]+e−[5-9]"))
    expect(page.locator(".output-picture")).to_have_attribute("aria-label", re.compile("18 values.*32 numbers"))
    box = page.locator(".output-picture").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 22)
    expect(page.locator("#tooltip")).to_contain_text(re.compile(r"V\[\d+\] · weight = .* = "))
    select(page, '{"query": 5, "position": 2}')  # one that the prefill computed
    expect(page.locator("#attention-output .softmax-query")).to_contain_text("@5")
    expect(page.locator(".output-picture")).to_have_attribute("aria-label", re.compile("^6 values"))
    assert 0 <= float(page.locator("#attention-output").get_attribute("data-largest") or "") < 1e-5
    page.click("#answer-softmax")
    expect(page.locator(".softmax-table")).to_be_visible()


def test_a_recording_without_attention_outputs_says_so(open_page: OpenPage) -> None:
    page = open_page("/?recording=rec-moon&step=6&answer=output", connection="replay")
    expect(page.locator("#output-foot")).to_contain_text("not captured")


HOLD_THE_FIRST = """() => import('/static/js/net/client.js').then(({ Client }) => {
  const ask = Client.prototype.ask;
  Client.prototype.ask = function (event, ...rest) {
    if (event !== 'recompute' || globalThis.release) return ask.call(this, event, ...rest);
    return new Promise((done) => (globalThis.release = () => ask.call(this, event, ...rest).then(done)));
  };
})"""


def test_a_late_comparison_does_not_replace_the_next(open_page: OpenPage) -> None:
    page = open_page("/?layer=2")
    prefill(page)
    step(page)
    page.evaluate(HOLD_THE_FIRST)
    page.click(".proof-run")
    wait_until(page, "Boolean(globalThis.release)")
    page.evaluate("import('/static/js/state/store.js').then((store) => store.goTo(1))")  # before it has so many tokens
    expect(page.locator(".proof-run")).to_have_attribute("aria-disabled", "false")
    prove(page)
    page.evaluate("globalThis.release().then(() => new Promise((done) => setTimeout(done, 200)))")
    expect(page.locator(".proof-list")).to_be_visible()


def test_a_late_viewer_compares_every_row_too(open_page: OpenPage) -> None:
    """Captures are sent with the newest records only; those of older ones are fetched."""
    page = open_page()
    prefill(page)
    page.select_option("#speed", "0")
    page.click("#btn-run")
    wait_until(page, f"{PAINTED} >= 24")  # more records than travel with their captures
    last = 24
    late = open_page(f"/?theater={theater_of(page)}&step={last}")
    wait_for_record(late, last)
    computed = int(
        re.findall(r"(\d+) rows", late.locator(".matrix .panel-canvas").get_attribute("aria-label") or "")[0]
    )
    assert prove(late)["count"] == 8 * computed * (computed + 1) / 2


def test_a_recording_says_why_it_cannot_recompute(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    replay = open_page(f"/?recording=/api/theaters/{theater_of(page)}/trace", connection="replay")
    wait_for_record(replay, 1)
    expect(replay.locator(".proof-run")).to_have_attribute("aria-disabled", "true")
    expect(replay.locator("#proof")).to_contain_text("needs a live model")
    replay.locator(".proof-run").focus()
    expect(replay.locator("#tooltip")).to_contain_text("no live model")


def test_the_matrix_grows_and_shrinks_with_the_view(open_page: OpenPage) -> None:
    page = open_page("/?layer=0&head=0&detail_large=1", height=1000)
    prefill(page)
    label = page.locator(".matrix .panel-canvas")
    rows = rows_of(page)
    expect(label).to_have_attribute("aria-label", re.compile(rf"{rows} rows"))
    assert painted_rows(page) > 20
    step(page, 2)
    expect(label).to_have_attribute("aria-label", re.compile(rf"{rows + 2} rows"))
    after = painted_rows(page)
    page.keyboard.press("Home")
    wait_for_record(page, -1)
    wait_for_value(page, f"({PAINTED_ROWS})()", 0)
    page.keyboard.press("End")
    wait_for_record(page, 3)
    wait_for_value(page, f"({PAINTED_ROWS})()", after)


def test_a_weight_is_reached_by_keyboard_and_held(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    step(page)
    newest = rows_of(page) - 1
    page.locator(".matrix .panel-canvas").focus()
    page.keyboard.press("ArrowUp")  # the cursor appears at the newest row
    for key in ("ArrowUp", "ArrowUp", "ArrowLeft", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    expect(page.locator("#tooltip")).to_contain_text("row computed in record 2")
    sentence = page.locator(".matrix [aria-live]").inner_text()
    assert re.search(r"\S+ @\d+ read \S+ @\d+; weight <?[\d.]+ · layer \d, head \d; row computed in record 2", sentence)
    page.keyboard.press("Enter")
    read = re.findall(r"@(\d+)", sentence)
    assert [int(p) for p in read] == [newest - 2, newest - 5]  # two up from the newest row, three left
    expect(page.locator("#chain")).to_contain_text(f"@{read[0]}")
    expect(page.locator("#chain")).to_contain_text(f"@{read[1]}")


def test_the_keyboard_cursor_in_the_matrix_stays_on_existing_rows(open_page: OpenPage) -> None:
    """Going back with the cursor on a later row clears its description and causes no error."""
    page = open_page()
    prefill(page)
    step(page, 4)
    page.locator(".matrix .panel-canvas").focus()
    page.keyboard.press("ArrowUp")  # the newest row
    sentence = page.locator(".matrix [aria-live]")
    expect(sentence).to_contain_text("row computed in record 6")
    page.keyboard.press("3")
    wait_for_record(page, 1)
    expect(sentence).to_have_text("")
    page.keyboard.press("ArrowUp")
    expect(sentence).to_contain_text("row computed in record 2")
    page.keyboard.press("0")
    wait_for_record(page, -1)
    expect(sentence).to_have_text("")


def test_heads_are_grouped_by_their_kv_head_and_chosen(open_page: OpenPage) -> None:
    page = open_page("/?layer=0&head=0")
    prefill(page)
    assert page.locator(".bracket").all_inner_texts() == ["KV head 0", "KV head 1"]
    cell = page.locator('[data-cell="2/5"]')
    expect(cell).to_have_attribute("aria-label", "Layer 2, head 5 · KV head 1")
    cell.hover()
    expect(page.locator("#tooltip")).to_contain_text("reads")
    cell.click()
    expect(page.locator("#layer")).to_have_value("2")
    expect(page.locator("#head")).to_have_value("5")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowDown")
    expect(page.locator('[data-cell="3/4"]')).to_be_focused()
    expect(page.locator('[data-cell="3/4"]')).to_have_attribute("aria-selected", "true")


def test_the_softmax_computed_on_the_page_equals_the_captured_weights(open_page: OpenPage) -> None:
    page = open_page("/?layer=1&head=2&detail_large=1", width=1920, height=1080)
    prefill(page)
    step(page, 2)
    keys = rows_of(page)
    expect(page.locator(".softmax-query")).to_contain_text(f"{keys} keys")
    body = page.locator(".softmax-table tbody tr:not(.rest):not(.sum)")
    rows = [[cell.replace("−", "-").lstrip("<") for cell in row.locator("td").all_inner_texts()] for row in body.all()]
    assert len(rows) >= 5
    captured = [float(row[3]) for row in rows]
    assert captured == sorted(captured, reverse=True)
    for score, exp, weight, kept, delta in rows:
        assert float(weight) == pytest.approx(float(kept), abs=1e-4) and float(delta) < 2e-5
        assert float(score) < 100 and 0 <= float(exp) <= 1
    total = page.locator(".softmax-table tr.sum td").all_inner_texts()
    assert float(total[2]) == pytest.approx(1, abs=1e-4) and float(total[3]) == pytest.approx(1, abs=1e-4)
    assert float(rows[0][1]) / float(total[1]) == pytest.approx(captured[0], abs=1e-3)
    body.first.locator("button").click()
    expect(page.locator("#chain")).to_contain_text("query")


@pytest.mark.parametrize(("height", "lines"), [(720, 4), (800, 5), (1000, 6)])
def test_probabilities_of_the_candidates_and_all_others_add_up_to_one(
    open_page: OpenPage, height: int, lines: int
) -> None:
    """The page lists as many tokens as can be read, and sums up the rest in one line."""
    page = open_page(height=height)
    prefill(page, POEM)
    listed = page.locator(".candidate .num").all_inner_texts()
    assert "<0.0001" in listed
    assert page.locator(".candidate .num").evaluate_all("all => all.every((e) => e.scrollWidth <= e.clientWidth)")
    assert len(listed) == lines and sum(float(text.lstrip("<")) for text in listed) == pytest.approx(1, abs=0.02)
    expect(page.locator(".candidate.chosen")).to_have_count(1)
    page.hover(".candidate.chosen")
    expect(page.locator("#tooltip")).to_contain_text("ln p −0.")
    page.click("#answer-softmax")
    expect(page.locator(".softmax-table")).to_be_visible()
    expect(page.locator(".candidate")).to_have_count(0)
    expect(page).to_have_url(re.compile("answer=softmax"))


@pytest.mark.parametrize(
    ("width", "height", "layout"), [(1280, 800, "three"), (1920, 1080, "wide"), (390, 844, "stack")]
)
def test_the_attention_panel_is_laid_out_for_its_width(
    open_page: OpenPage, width: int, height: int, layout: str
) -> None:
    page = open_page("/?answer=softmax", width=width, height=height)
    page.click("#btn-prefill")  # the poem is there
    wait_for_record(page, 1)
    if width < 720:
        page.click("#tab-detail")
    expect(page.locator(".attention")).to_have_attribute("data-layout", layout)
    right = page.evaluate(
        "Math.max(...[...document.querySelectorAll('.attention *')].map(e => e.getBoundingClientRect().right))"
    )
    edge = page.evaluate("document.querySelector('.attention').getBoundingClientRect().right")
    assert edge <= width and right <= edge + 1, "nothing is cut at the right"


def test_thumbnails_are_not_reused_for_a_run_of_the_same_second(
    open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holds for a run that is shorter than the number of the announced row."""
    monkeypatch.setattr("engine.setup.header.datetime", Mock(now=Mock(return_value=datetime(2026, 1, 1, tzinfo=UTC))))
    page = open_page("/?detail=attention")
    for next_one, num_prompt_tokens in (("healthy", 12), ("short", 2)):
        drop_recording(page, record_prefill(tmp_path / f"before-{next_one}.kvtrace", 12, "missing_causal_mask"))
        expect(page.locator(".not-causal")).to_be_visible()
        drop_recording(page, record_prefill(tmp_path / f"{next_one}.kvtrace", num_prompt_tokens, None))
        expect(page.locator(".matrix .panel-foot")).to_have_text("query ↓ · key → · row to its max")
        expect(page.locator(".matrix .panel-canvas")).to_have_attribute(
            "aria-label", re.compile(f"{num_prompt_tokens} rows")
        )


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1440, 900), (1920, 1080)])
def test_a_larger_panel_has_larger_layers(open_page: OpenPage, width: int, height: int) -> None:
    """The larger panel is laid out in rows; its overview of layers must not be lower than in columns."""
    page = open_page(width=width, height=height)
    prefill(page)
    high = "document.querySelector('.overview .panel-canvas').clientHeight"
    before = page.evaluate(high)
    page.click(".detail-size")
    expect(page.locator(".attention")).to_have_attribute("data-layout", "tall")
    wait_until_still(page)
    assert page.evaluate(high) > before
