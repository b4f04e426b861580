"""Film of a first visit and the first look after it: own words, other words, and links to the other pages."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import open_with_axe, violations
from tests.browser.driving import OpenPage, wait_until
from tests.browser.settling import resize

BEATS = ["next", "ask", "again", "race", "kept", "serve", "fan"]
SENTENCES: dict[str, dict[str, str | re.Pattern[str]]] = {
    "en": {
        "next": "What comes next?",
        "ask": re.compile("query, Q.*key, K.*value, V"),  # where they are first seen they are named
        "race": re.compile(r"^\d\d(\.\d)? times the work for the same text: a row .*, a cell "),
        "kept": re.compile("2\u2009KiB for each word"),  # 2 · 4 layers · 2 KV heads · 32 · 4 bytes
        "fan": re.compile("^Choose a word .* or write your own"),
    },
    "zh": {
        "next": "下一个字是什么？",
        "ask": re.compile("查询 Q.*键 K.*值 V"),
        "race": re.compile(r"^同样的文字，\d\d(\.\d)? 倍的计算：一行.*一格"),
        "kept": re.compile("每个字 2\u2009KiB"),
    },
}


def ready(page: Page) -> None:
    page.wait_for_selector("#opening[data-ready=true]")


def to_the_fan(page: Page) -> None:
    ready(page)
    for _ in BEATS:
        page.keyboard.press("ArrowRight")
    expect(page.locator("#opening")).to_have_attribute("data-beat", "fan")


@pytest.mark.parametrize(("locale", "language"), [("en-US", "en"), ("zh-CN", "zh")])
def test_arrow_keys_walk_through_the_opening_in_the_users_language(
    open_page: OpenPage, locale: str, language: str
) -> None:
    page = open_page(opening=True, locale=locale)
    ready(page)
    for beat in BEATS:
        expect(page.locator("#opening")).to_have_attribute("data-beat", beat)
        if beat in SENTENCES[language]:
            expect(page.locator("#opening-sentence")).to_have_text(SENTENCES[language][beat])
        page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#opening")).to_have_attribute("data-beat", "serve")


def test_the_opening_plays_and_pauses(open_page: OpenPage) -> None:
    page = open_page(opening=True, motion=True)
    ready(page)
    time = page.locator("#opening-time")
    wait_until(page, "Number(document.querySelector('#opening-time').value) > 0.5")
    page.click("#opening-play")
    stopped = time.input_value()
    page.wait_for_timeout(400)
    assert time.input_value() == stopped


TIMES = """Promise.all(['opening_panel', 'paint_race', 'time'].map((name) =>
  import(`/static/js/panels/intro/${name}.js`))).then(([{ scene }, { computedTokens, stepsAt }, { beatAt }]) => {
    const { local } = beatAt(Number(document.querySelector('#opening-time').value));
    const [without, kept] = computedTokens(scene.value.found.film, stepsAt(scene.value.found, 'race', local));
    return without / kept;
  })"""


def test_the_text_of_the_race_matches_its_counters(open_page: OpenPage) -> None:
    """The text agrees with the counters at each moment and at the end of the whole text."""
    page = open_page(opening=True, motion=True)
    ready(page)
    factors = []
    for second in (16.5, 18, 20, 22.9):
        page.locator("#opening-time").fill(str(second))
        expect(page.locator("#opening")).to_have_attribute("data-beat", "race")
        text = page.locator("#opening-sentence").inner_text()
        factors.append(float(text.split()[0]))
        assert factors[-1] == pytest.approx(page.evaluate(TIMES), rel=0.006), second
    assert factors == sorted(factors) and factors[0] < factors[-1]


def test_without_motion_the_opening_stops_at_complete_pictures(open_page: OpenPage) -> None:
    page = open_page(opening=True)
    ready(page)
    before = page.locator("#opening-time").input_value()
    assert 3 < float(before) <= 4  # the end of the first part
    page.wait_for_timeout(400)
    assert page.locator("#opening-time").input_value() == before


def test_a_skipped_opening_leads_to_the_intro_and_is_not_shown_again(open_page: OpenPage) -> None:
    page = open_page(opening=True)
    page.keyboard.press("Escape")
    expect(page.locator("#intro")).to_have_attribute("data-records", "2")  # read at once: there is a picture
    expect(page.locator("#intro-head")).to_contain_text("one of 32 heads")
    expect(page.locator("#intro-kept")).to_have_text(
        "Kept: K and V of 6 tokens, 2\u2009KiB each: 12\u2009KiB, in 2 blocks."
    )
    page.click("#intro-step")
    expect(page.locator("#intro")).to_have_attribute("data-records", "3")
    expect(page.locator("#intro-kept")).to_contain_text("of 7 tokens")
    page.click("#intro-more")
    page.wait_for_selector("#connection.live")
    page.goto(page.url.split("?")[0])
    page.wait_for_selector("#connection.live")
    expect(page.locator("#opening")).to_have_count(0)


def test_a_clicked_word_starts_an_own_run(open_page: OpenPage) -> None:
    """The second word of the fan is forced in a live run, which continues step by step and has a link."""
    page = open_page(opening=True)
    to_the_fan(page)
    word = page.locator(".opening-fan li:nth-child(2) b").inner_text()
    page.click(".opening-fan li:nth-child(2) button")
    look = page.locator("#intro")
    expect(look).to_be_visible()
    expect(page).to_have_url(re.compile(r"theater=.*distance=look"))
    expect(page.locator(".intro-text .generated")).to_have_text(re.compile(rf"^\s*{re.escape(word)}"))
    count = int(look.get_attribute("data-records") or 0)
    page.click("#intro-step")
    expect(look).to_have_attribute("data-records", str(count + 1))
    link = "/?" + page.url.split("?")[1]
    phone = open_page(link, width=390, height=844, until="#intro")
    expect(phone.locator(".intro-text .generated")).to_have_text(re.compile(rf"^\s*{re.escape(word)}"))


COVERED = """[...document.querySelectorAll('.intro :is(button, a, input)')].filter((e) => e.checkVisibility())
  .filter((e) => {
    const { left, top, width, height } = e.getBoundingClientRect();
    return !e.contains(document.elementFromPoint(left + width / 2, top + height / 2));
  }).map((e) => e.id || e.className)"""


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (844, 390), (390, 844)])
def test_nothing_covers_a_button_of_the_intro(open_page: OpenPage, width: int, height: int) -> None:
    page = open_page("/?distance=look", width=width, height=height, until="#intro")
    assert page.evaluate(COVERED) == []
    page.fill("#own-words", "word " * 200)
    page.press("#own-words", "Enter")
    expect(page.locator("#toasts")).to_contain_text("max_model_len")  # no prompt of so many tokens
    assert page.evaluate(COVERED) == []


@pytest.mark.parametrize(("locale", "words"), [("en-US", "My name is Kim"), ("zh-CN", "春眠不觉晓")])
def test_own_words_are_shown_on_the_stage_at_once(open_page: OpenPage, locale: str, words: str) -> None:
    """A visitor enters words at the end of the film and in the first look, by a click into the field and Enter."""
    page = open_page(opening=True, locale=locale)
    to_the_fan(page)
    page.wait_for_url("**/?theater=*")  # its own session, which is built meanwhile
    expect(page.locator("#opening-skip")).to_have_text({"en-US": "Go on", "zh-CN": "继续"}[locale])
    for text in (words, words + words[-1]):
        before = page.url
        page.click("#own-words")
        page.keyboard.type("   ")
        page.keyboard.press("Enter")  # nothing was written: nothing is read
        expect(page.locator("#own-go")).to_be_disabled()
        expect(page.locator("#own-words")).to_have_value("   ")
        assert page.url == before
        page.fill("#own-words", "")
        page.click("#own-words")
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        expect(page.locator(".intro-text .prompt")).to_have_text(text)
        expect(page.locator("#intro")).to_have_attribute("data-records", "2")
        expect(page).not_to_have_url(before)
        expect(page.locator("#intro-head")).to_contain_text("32")
        page.wait_for_timeout(300)
        assert page.locator("#intro").get_attribute("data-records") == "2"  # it was read once


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (390, 844)])
def test_the_intro_leads_to_every_page(open_page: OpenPage, width: int, height: int) -> None:
    page = open_page("/?distance=look", until="#intro", width=width, height=height)
    doors = page.locator(".intro-door")
    expect(doors).to_have_text(
        ["Lessons", "Be the allocator", "Museum", "Scale", "Prompts", "Benchmarks", "Teach", "Everything"]
    )
    for box in (door.bounding_box() for door in doors.all()):
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= width and box["y"] + box["height"] <= height
        assert box["height"] >= 44
    for link in page.locator("a.intro-door").all():
        assert page.request.get(page.evaluate("(e) => e.href", link.element_handle())).ok
    page.click("#intro-teach")
    expect(page.locator("#class-open")).to_be_visible()
    page.click("#class-start .side-close")
    page.click("#intro-museum")
    expect(page.locator("#museum")).to_be_visible()
    page.click("#btn-intro")
    page.click("#intro-learn")
    expect(page.locator(".path-card")).not_to_have_count(0)
    page.go_back()
    expect(page.locator("#intro-doors")).to_be_visible()
    page.go_back()
    expect(page.locator("#museum")).to_be_visible()


def test_any_later_word_can_be_replaced(open_page: OpenPage) -> None:
    page = open_page(opening=True)
    to_the_fan(page)
    page.click(".opening-fan li:nth-child(1) button")
    page.wait_for_selector("#intro")
    for _ in range(3):
        step(page)
    first = page.url
    page.click("#intro-fan")
    word = page.locator(".opening-fan li:nth-child(3) b").inner_text()
    page.click(".opening-fan li:nth-child(3) button")
    expect(page).not_to_have_url(first)
    expect(page.locator(".intro-text .generated")).to_have_text(re.compile(re.escape(word) + r"\s*$"))
    expect(page.locator("#intro-head")).to_contain_text("one of 32 heads")
    kept = page.locator("#intro-kept").inner_text()
    page.click("#intro-back")  # to the choice itself
    expect(page.locator("#intro-sentence")).to_have_text(f"You chose “{word}”.")
    expect(page.locator("#intro-kept")).to_contain_text("Kept: K and V of")
    assert page.locator("#intro-kept").inner_text() != kept
    painted = """(() => { const { width, height } = document.querySelector('.intro canvas');
      const data = document.querySelector('.intro canvas').getContext('2d').getImageData(0, 0, width, height).data;
      return data.filter((value, i) => i % 4 === 3 && value > 0).length > 8000 })()"""
    wait_until(page, painted)  # keys and values are still there


KEYS = """Promise.all(['state/store', 'panels/intro/paint_record', 'core/sequence_view'].map((name) =>
  import(`/static/js/${name}.js`))).then(([store, { headShown }, { vectorOf }]) => {
    const now = store.sequenceView.value;
    const { layer, head } = headShown(now);
    const { num_heads, num_kv_heads } = now.log.header.model;
    const view = { ...now, layer, head, kvHead: Math.floor(head / (num_heads / num_kv_heads)) };
    return Array.from({ length: 5 }, (_, p) => [...vectorOf(view, 'k', p) ?? []]).flat();
  })"""


def test_a_replaced_word_leaves_earlier_records_unchanged(open_page: OpenPage) -> None:
    """The head in the picture stays the same while the run grows and is forked, and so do earlier keys."""
    page = open_page("/?distance=look", until="#intro")
    label = page.locator("#intro-head")
    expect(label).to_have_text(re.compile(r"^Layer \d, head \d: one of 32 heads"))
    title = label.inner_text()
    wait_until(page, f"({KEYS}).then((keys) => keys.length === 5 * 32)")
    keys = page.evaluate(KEYS)
    for rank in (2, 3, 2, 3):
        for _ in range(3):
            step(page)
        expect(label).to_have_text(title)
        page.click("#intro-fan")
        before = page.url
        page.click(f".opening-fan li:nth-child({rank}) button")
        expect(page).not_to_have_url(before)
        expect(label).to_have_text(title)
        wait_until(page, f"({KEYS}).then((keys) => keys.length === 5 * 32)")
        assert page.evaluate(KEYS) == pytest.approx(keys, abs=1e-5)
    shared = open_page("/?" + page.url.split("?")[1], until="#intro-head")
    expect(shared.locator("#intro-head")).to_have_text(title)


def step(page: Page) -> None:
    records = page.locator("#intro").get_attribute("data-records") or ""
    page.click("#intro-step")
    expect(page.locator("#intro")).not_to_have_attribute("data-records", records)


def test_words_of_the_opening_are_visible_and_large_enough(open_page: OpenPage) -> None:
    page = open_page(opening=True)
    to_the_fan(page)
    for width, height in ((390, 844), (844, 390), (768, 1024), (1280, 720)):
        resize(page, width, height)
        boxes = page.evaluate(
            "[...document.querySelectorAll('.opening-word, #opening-skip, #opening-play')]"
            ".map(e => { const {left, top, right, bottom, height} = e.getBoundingClientRect();"
            " return {left, top, right, bottom, height} })"
        )
        assert len(boxes) > 3
        for box in boxes:
            assert box["left"] >= 0 and box["top"] >= 0 and box["right"] <= width and box["bottom"] <= height
            assert box["height"] >= (44 if height > 480 else 32)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_is_accessible(open_page: OpenPage) -> None:
    page = open_with_axe(open_page, opening=True)
    ready(page)
    for beat in BEATS:
        expect(page.locator("#opening")).to_have_attribute("data-beat", beat)
        if beat in ("next", "race", "fan"):
            assert violations(page) == [], beat
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    page.wait_for_selector("#intro")
    assert violations(page) == []


def test_a_link_to_a_place_skips_the_opening(open_page: OpenPage) -> None:
    page = open_page("/?recording=rec-moon&step=3", opening=True, until="#connection.replay")
    expect(page.locator("#opening")).to_have_count(0)
