"""The page on a phone, on a tablet and in a low window: visible parts, and the height of the transport."""

import itertools

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import OpenPage, prefill, step, wait_for_record, wait_for_rest, wait_until
from tests.browser.overlaps import overlapping
from tests.browser.settling import resize, wait_until_still

REGIONS = (".header", ".setup", ".stage", ".detail", ".memory", ".transport")
STOPS = ("ask", "answer", "again", "keep", "blocks", "yours")
PHONE = {"width": 390, "height": 844}
# whether keys are drawn in their violet, which nothing else in the picture has
SHOWS_KEYS = """(() => { const canvas = document.querySelector('.opening-picture canvas');
  if (!canvas?.width) return false;
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let violet = 0;
  for (let i = 0; i < data.length; i += 4)
    if (data[i + 3] > 80 && data[i + 2] > data[i + 1] + 50 && data[i] > data[i + 1] + 15) violet += 1;
  return violet > 400 })()"""


def share(page: Page) -> float:
    """Return the share of the window's height that transport and narration take."""
    return float(page.evaluate("document.querySelector('.transport').getBoundingClientRect().height / innerHeight"))


def box(page: Page, selector: str) -> dict[str, float]:
    found = page.evaluate("(s) => document.querySelector(s)?.getBoundingClientRect().toJSON()", selector)
    assert found is not None and found["width"] > 0, selector
    return dict(found)


def stays_in_width(page: Page) -> bool:
    return bool(page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"))


@pytest.mark.parametrize(
    ("locale", "sizes"),
    [
        ("en-US", {(390, 844): 0.2, (360, 640): 0.2, (320, 568): 0.24, (667, 375): 0.35}),
        ("zh-CN", {(390, 844): 0.2, (390, 664): 0.2, (844, 390): 0.35}),
    ],
)
def test_on_a_phone_the_transport_bar_is_small(
    open_page: OpenPage, locale: str, sizes: dict[tuple[int, int], float]
) -> None:
    page = open_page(locale=locale, is_mobile=True, has_touch=True, **PHONE)

    def leaves_it(*buttons: str) -> None:
        for (width, height), most in sizes.items():
            resize(page, width, height)
            assert share(page) <= most, (width, height)
            assert stays_in_width(page)
            for button in buttons:
                at = box(page, button)
                assert at["left"] >= 0 and at["right"] <= width and at["bottom"] <= height, (button, width, height)

    leaves_it()
    page.click("#btn-prefill")
    wait_for_record(page, 1)
    step(page, 1)
    leaves_it()
    page.click("#btn-back")
    wait_for_record(page, 1)
    leaves_it("#btn-step", "#btn-live", "#btn-transport-more")  # looking back, with the way to the newest record


def test_hidden_controls_open_with_one_tap_on_phones(open_page: OpenPage) -> None:
    page = open_page("/", is_mobile=True, has_touch=True, **PHONE)
    page.click("#btn-prefill")
    wait_for_record(page, 1)
    rest = ("#phase-attend", "#speed", "#btn-first", "#btn-last", "#btn-reset", "#btn-fork")
    for selector in rest:
        expect(page.locator(selector)).to_be_hidden()
    before = box(page, "#btn-step")
    page.click("#btn-transport-more")
    expect(page.locator("#btn-transport-more")).to_have_attribute("aria-expanded", "true")
    for selector in rest:
        at = box(page, selector)
        assert at["height"] >= 40 and at["left"] >= 0 and at["right"] <= 390 and at["bottom"] <= 844, (selector, at)
    assert box(page, "#btn-step") == before  # the thumb stays where it is
    for button in ("#btn-share", "#btn-download", "#btn-export", "#btn-help"):
        at = box(page, button)
        assert at["left"] >= 0 and at["right"] <= 390 and at["width"] >= 40, button
    page.click("#tab-memory")
    step(page, 1)
    expect(page.locator("#region-memory")).to_be_visible()  # who watches the memory stays there


@pytest.mark.parametrize(("width", "height"), [(390, 844), (360, 640)])
def test_prefill_and_step_on_a_phone_show_the_stage(open_page: OpenPage, width: int, height: int) -> None:
    page = open_page("/?region=setup", width=width, height=height, is_mobile=True, has_touch=True)
    for button, record in (("#btn-prefill", 1), ("#btn-step", 2)):
        page.click("#tab-setup")
        page.evaluate("scrollTo(0, 400)")
        page.click(button)
        wait_for_record(page, record)
        expect(page.locator("#tab-stage")).to_have_attribute("aria-pressed", "true")
        tokens, transport, tabs = box(page, ".token-row-tokens"), box(page, ".transport"), box(page, ".tabs")
        attention = box(page, ".gutter-row")
        assert attention["top"] >= tabs["bottom"] and tokens["top"] + 44 <= transport["top"], (attention, tokens)


def test_turning_a_phone_keeps_the_newest_column_visible(open_page: OpenPage) -> None:
    page = open_page("/", is_mobile=True, has_touch=True, **PHONE)
    page.click("#btn-prefill")
    wait_for_record(page, 1)
    step(page, 6)
    for width, height in ((1280, 390), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        wait_until_still(page)
    wait_until(
        page,
        "(() => { const all = document.querySelectorAll('.token-row-tokens .token'); const last = all[all.length - 1];"
        " const strip = document.querySelector('.token-row-scroll').getBoundingClientRect();"
        " const box = last?.getBoundingClientRect();"
        " return Boolean(box) && box.left >= strip.left - 1 && box.right <= strip.right + 1 })()",
    )


def test_an_injected_fault_leaves_the_header_whole_on_a_phone(open_page: OpenPage) -> None:
    page = open_page(
        "/?detail=museum&exhibit=missing_causal_mask&region=detail", is_mobile=True, has_touch=True, **PHONE
    )
    expect(page.locator("#fault-badge")).to_be_visible()
    assert page.evaluate("document.scrollingElement.scrollWidth") == 390
    assert box(page, "#btn-help")["right"] <= 390


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_a_tablet_shows_stage_and_pool_together(open_page: OpenPage, locale: str) -> None:
    page = open_page(width=768, height=1024, locale=locale)
    prefill(page)
    step(page, 2)
    for width, height in ((768, 1024), (820, 1180), (1024, 768)):
        resize(page, width, height)
        foot = box(page, ".transport")["top"]
        for selector in (".token-row", ".pool", "#prompt"):
            at = box(page, selector)
            assert at["top"] >= 48 and at["bottom"] <= foot and at["right"] <= width, (selector, width, at)
        assert share(page) <= 0.2 and stays_in_width(page)


@pytest.mark.parametrize(
    ("locale", "sizes"), [("en-US", [(1280, 640), (1280, 720), (1100, 700)]), ("zh-CN", [(1280, 720), (1280, 800)])]
)
def test_no_two_texts_are_printed_over_each_other(
    open_page: OpenPage, locale: str, sizes: list[tuple[int, int]]
) -> None:
    """Rows are dropped in low windows. The records have several sequences, a shared prefix and a preemption."""
    for path in (
        "/?recording=rec-preemption&step=20&detail=scheduler",
        "/?recording=rec-samples&step=6",
        "/?recording=rec-prefix&step=8&telling=expert",
    ):
        page = open_page(path, locale=locale, connection="replay")
        page.wait_for_selector("#detail-panel > *")
        wait_until(page, "Number(document.documentElement.dataset.painted) > 0")
        for width, height in sizes:
            resize(page, width, height)
            found = {region: overlapping(page, region) for region in REGIONS}
            assert found == {region: [] for region in REGIONS}, (path, width, height)
            assert page.evaluate("document.scrollingElement.scrollHeight") == height


def test_texts_that_lie_over_each_other_are_found(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    page.evaluate(
        "(() => { const tool = document.querySelector('.pool-title'); tool.style.position = 'relative';"
        " tool.style.top = '26px'; })()"
    )
    assert overlapping(page, ".memory") != []


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_the_legend_of_the_stage_is_complete_beside_the_choice_of_a_head(open_page: OpenPage, locale: str) -> None:
    page = open_page("/?recording=rec-preemption&step=10", connection="replay", locale=locale)
    wait_for_record(page, 10)
    ends = "(selector) => document.querySelector(selector).lastElementChild.getBoundingClientRect().right"
    for width in (1100, 1280, 1400, 1440, 1600, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        tools = page.locator(".stage-tools").bounding_box()
        choice = page.locator(".choice").bounding_box()
        assert tools and choice
        assert page.evaluate(ends, ".scales") <= choice["x"], width
        pattern = page.locator("#pattern").bounding_box()
        assert pattern and pattern["width"] >= 110, width
        assert choice["x"] + choice["width"] <= tools["x"] + tools["width"] + 1, width


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_the_tour_card_never_covers_its_subject(open_page: OpenPage, locale: str) -> None:
    page = open_page(tour=True, locale=locale, is_mobile=True, has_touch=True, **PHONE)
    for stop in STOPS:
        expect(page.locator("#tour")).to_have_attribute("data-stop", stop)
        expect(page.locator(".tour-ring")).to_be_visible()
        if stop == "ask":
            page.click("#btn-step")
            wait_for_rest(page, 1)
            page.click("#btn-step")
            wait_for_rest(page, 2)
        wait_until_still(page)
        card, ring, transport = box(page, "#tour"), box(page, ".tour-ring"), box(page, ".transport")
        assert ring["bottom"] <= card["top"] + 1 or ring["top"] >= card["bottom"], (stop, card, ring)
        assert ring["top"] >= box(page, ".tabs")["bottom"] - 1 and card["bottom"] <= transport["top"], (stop, ring)
        page.click("#tour-next")
    expect(page.locator("#tour")).to_have_count(0)


def test_the_tour_on_a_phone_asks_for_a_tap_and_takes_it(open_page: OpenPage) -> None:
    page = open_page(tour=True, is_mobile=True, has_touch=True, **PHONE)
    page.click("#btn-step")
    wait_for_rest(page, 1)
    page.click("#btn-step")
    wait_for_rest(page, 2)
    page.click("#tour-next")
    expect(page.locator(".tour-task")).to_have_text("Tap the tallest bar.")
    wait_until_still(page)
    strip = box(page, ".token-row-window")
    page.touchscreen.tap(strip["left"] + 40, strip["top"] + 40)
    expect(page.locator("#tour")).to_have_attribute("data-done", "true")


def test_presenting_fits_a_phone_and_a_tablet(open_page: OpenPage) -> None:
    page = open_page("/?scene=shared-prefix&distance=room", until=".present-title", has_touch=True, **PHONE)
    wait_until(page, "Number(document.documentElement.dataset.numRecords) >= 1")
    for _ in range(3):
        page.keyboard.press("PageDown")
    expect(page.locator("#sentence")).not_to_be_empty()
    for width, height in ((390, 844), (360, 640), (844, 390), (768, 1024)):
        resize(page, width, height)
        foot = box(page, ".transport")["top"]
        for selector in (".token-row", ".pool"):
            at = box(page, selector)
            assert at["bottom"] <= foot + 1 and at["right"] <= width + 1 and at["height"] >= 60, (selector, at)
        for selector in ("#present-card", "#sentence", "#btn-step", "#present-leave", "#present-next"):
            at = box(page, selector)
            assert at["top"] >= 0 and at["bottom"] <= height and at["right"] <= width, (selector, at)
        assert page.evaluate("document.scrollingElement.scrollHeight") <= height and stays_in_width(page)
        assert overlapping(page, ".transport") == overlapping(page, "#present-card") == []
        assert float(page.evaluate("parseFloat(getComputedStyle(document.querySelector('#sentence')).fontSize)")) >= 16


def test_no_line_is_drawn_to_a_hidden_table(open_page: OpenPage) -> None:
    page = open_page("/?scene=moon&distance=room", until=".present-title")
    wait_until(page, "Number(document.documentElement.dataset.numRecords) >= 1")
    page.keyboard.press("PageDown")
    wait_until(page, "Number(document.documentElement.dataset.painted) >= 1")
    painted = """(() => { const canvas = document.querySelector('.pool-overlay canvas');
      const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
      return data.some((value, i) => i % 4 === 3 && value > 0) })()"""
    assert page.evaluate(painted) is False
    page.keyboard.press("Escape")
    expect(page.locator(".tables")).to_be_visible()
    wait_until(page, painted)


@pytest.mark.parametrize(
    ("width", "height", "locale"),
    [(390, 844, "en-US"), (360, 640, "zh-CN"), (844, 390, "en-US"), (768, 1024, "zh-CN"), (1280, 720, "en-US")],
)
def test_the_intro_of_a_recording_shows_its_vectors_and_fits(
    open_page: OpenPage, width: int, height: int, locale: str
) -> None:
    """Several sequences run; the first look shows one, which needs no number."""
    page = open_page(
        "/?recording=rec-samples&step=6&distance=look", until="#intro", width=width, height=height, locale=locale
    )
    wait_until(page, SHOWS_KEYS)
    for selector in ("#intro-opening", "#intro-learn", "#intro-more", "#intro-sentence", "#intro-step", "#intro-fan"):
        at = box(page, selector)
        assert at["left"] >= 0 and at["right"] <= width and at["top"] >= 0 and at["bottom"] <= height, (selector, at)
        assert at["height"] < 180, (selector, at)
    assert overlapping(page, "#intro") == [] and stays_in_width(page)
    sentence = page.locator("#intro-sentence").inner_text()
    assert "seq" not in sentence and "序列 0" not in sentence
    page.click("#intro-fan")
    page.wait_for_selector(".opening-word")
    wait_until_still(page)
    words = "[...document.querySelectorAll('.opening-word')]"
    boxes = page.evaluate(f"{words}.map((e) => e.getBoundingClientRect().toJSON())")
    assert len(boxes) >= 2
    for above, below in itertools.pairwise(boxes):
        assert below["top"] >= above["bottom"] and below["bottom"] <= box(page, "#intro-sentence")["top"], boxes
