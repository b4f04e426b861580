"""A visitor's actions work in a real browser over the real server and the bundled model."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.driving import POEM, SENT, OpenPage, num_records, prefill, step, tokens, wait_for_record, wait_until
from tests.browser.settling import wait_until_still


def test_prefill_step_and_reset_compute_as_they_say(open_page: OpenPage) -> None:
    page = open_page()
    expect(page.locator("#prompt")).to_have_value("Who has seen the wind?")
    expect(page.locator("#stage-text")).to_contain_text("Nothing is on stage yet")
    expect(page.locator("#sentence")).to_contain_text("Nothing is computed yet")
    expect(page.locator(".block-button")).to_have_count(48)
    prefill(page)
    count = len(tokens(page))
    assert "".join(tokens(page)).startswith(POEM)
    expect(page.locator("#sentence")).to_contain_text(f"read the whole prompt at once: {count - 1} tokens")
    assert len(page.locator("#generated").inner_text()) == 1
    step(page, 2)
    assert len(page.locator("#generated").inner_text()) == 3  # one character a token in this poem
    expect(page.locator("#sentence")).to_contain_text(f"read the {count + 1} keys")
    page.click("#btn-reset")
    wait_for_record(page, -1)
    expect(page.locator("#prompt")).to_have_value(POEM)
    expect(page.locator('[data-block="0"]')).to_have_attribute("aria-label", re.compile("free, place 1"))


def test_going_back_shows_what_was_and_live_comes_back(open_page: OpenPage) -> None:
    page = open_page(motion=True)
    prefill(page)
    step(page, 3)
    sentence = page.locator("#sentence").inner_text()
    count = len(tokens(page))
    page.click("#btn-back")
    wait_for_record(page, 3)
    assert len(tokens(page)) == count - 1
    page.keyboard.press("ArrowLeft")
    wait_for_record(page, 2)
    page.click("#btn-forward")
    wait_for_record(page, 3)
    page.click("#btn-live")
    wait_for_record(page, 4)
    assert page.locator("#sentence").inner_text() == sentence
    page.click("#btn-first")
    wait_for_record(page, -1)
    assert tokens(page) == []
    page.click("#btn-step")  # of the run, whatever is looked at
    wait_for_record(page, 5)


def test_a_shared_link_asks_before_its_visitor_drives_the_owners_run(open_page: OpenPage) -> None:
    """A run of the visitor's own leaves the owner's run in place in each view; taking it over makes the visitor its
    driver.
    """
    owner = open_page()
    prefill(owner)
    step(owner)
    for view, drive in (("look", "#intro-step"), ("bench", "#btn-step")):
        link = f"/?{owner.url.split('?')[1]}&distance={view}"
        phone = open_page(link, width=390, height=844, until=drive)
        wait_for_record(phone, 2)
        phone.click(drive)
        expect(phone.locator("#notice-foreign")).to_be_visible()
        wait_for_record(owner, 2)
        phone.click("#btn-own-run")
        expect(phone.locator("#notice-foreign")).to_have_count(0)
        wait_until(phone, f"!location.search.includes({owner.url.split('theater=')[1].split('&')[0]!r})")
        if view == "bench":
            phone.click(drive)
        wait_for_record(phone, 1)
        assert num_records(owner) == 3
    taker = open_page(link, until="#btn-step")
    taker.click("#btn-step")
    taker.click("#btn-drive")
    taker.click("#btn-step")
    wait_for_record(owner, 3)
    taker.reload()
    wait_for_record(taker, 3)
    taker.click("#btn-step")
    wait_for_record(owner, 4)


def test_a_lost_connection_is_shown_and_restored(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    page.context.set_offline(True)
    page.evaluate("window.dispatchEvent(new Event('offline'))")
    expect(page.locator("#connection")).to_have_class(re.compile("lost"))
    assert tokens(page)  # what is there stays
    page.context.set_offline(False)
    expect(page.locator("#connection")).to_have_class(re.compile("live"))
    step(page)


def test_everything_works_by_keyboard(open_page: OpenPage) -> None:
    page = open_page()
    page.locator("body").press("p")
    wait_for_record(page, 1)
    page.keyboard.press("s")
    wait_for_record(page, 2)
    page.keyboard.press("Home")
    wait_for_record(page, -1)
    page.keyboard.press("End")
    wait_for_record(page, 2)
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_have_count(0)
    page.locator('[data-position="3"]').focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.position") == "4"
    expect(page.locator("#chain")).to_contain_text("@4")


def test_a_pointed_key_is_marked_in_the_pool(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    step(page)
    page.mouse.move(0, 0)
    wait_until_still(page)
    canvas = ".pool-window canvas"
    before = page.evaluate(f"document.querySelector('{canvas}').toDataURL()")
    page.click('[data-position="9"]')
    expect(page.locator('[data-position="9"]')).to_have_class(re.compile("pointed"))
    expect(page.locator(".token-row-block.pointed")).to_have_text("2")
    wait_until(page, f"document.querySelector('{canvas}').toDataURL() !== {before!r}")
    page.keyboard.press("Escape")
    page.locator("#prompt").focus()
    page.mouse.move(0, 0)
    wait_until(page, f"document.querySelector('{canvas}').toDataURL() === {before!r}")


def test_preemption_and_eviction_in_a_small_pool_are_described(open_page: OpenPage) -> None:
    page = open_page("/?num_blocks=8&max_tokens=16&speed=0&telling=expert")
    for prompt in ("春江潮水连海平，海上", "白日依山尽，黄河", "床前明月光，疑是地"):
        page.fill("#prompt", prompt)
        page.click("#btn-add")
        wait_until(page, SENT)
    page.click("#btn-run")
    wait_until(page, "[...document.querySelectorAll('.status')].filter((e) => e.matches('.finished')).length === 3")
    sentences = ""
    for index in range(int(page.locator("html").get_attribute("data-num-records") or 0)):
        page.evaluate("(i) => import('/static/js/state/store.js').then((store) => store.goTo(i))", index)
        wait_for_record(page, index)
        sentences += page.locator("#sentence").inner_text() + "\n"
    assert re.search(r"seq \d was preempted for seq \d. It was the last one admitted. Of its \d+ computed", sentences)
    assert re.search(r"computed tokens \d+ stay in the prefix cache", sentences)
    assert re.search(r"\d cached blocks? evicted", sentences)
    assert re.search(r"seq \d waits: it needs \d blocks?, 0 free", sentences)
    assert re.search(r"is back after its preemption; \d+ tokens? computed again", sentences)
    assert re.search(r"Not one of the \d+ tokens? of seq \d hits the prefix cache", sentences)
    page.fill("#prompt", "白日依山尽，黄河")
    page.click("#btn-prefill")
    expect(page.locator("#sentence")).to_contain_text("The prefix cache held 4 of the 8 tokens")


def test_a_prompt_of_several_lines_is_one_line_on_the_stage(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page, "春江潮水连海平\n海上明月共潮生\n滟滟随波千万里")
    text, scales = page.locator("#stage-text").bounding_box(), page.locator(".scales").bounding_box()
    assert text and scales and text["y"] + text["height"] <= scales["y"]
    expect(page.locator("#stage-text .prompt .text-mark")).to_have_count(2)
    line = page.locator(".running-line").bounding_box()
    assert line and line["height"] <= 36


def test_a_setting_out_of_range_is_explained_in_one_sentence(open_page: OpenPage) -> None:
    page = open_page()
    page.fill("#prompt", POEM)
    page.locator("#sampling summary").click()
    page.fill("#min-p", "2")
    page.press("#min-p", "Tab")
    expect(page.locator("label:has(#min-p) .bounds, #min-p ~ .bounds")).to_have_text("Between 0 and 1.")
    expect(page.locator("#min-p")).not_to_have_value("2")
    page.fill("#stop", "千")
    page.press("#stop", "Tab")
    page.click("#btn-prefill")
    wait_for_record(page, 1)
    page.select_option("#speed", "0")
    page.click("#btn-run")
    expect(page.locator(".status.finished")).to_have_count(1)
    assert page.locator("#generated").inner_text().startswith("滟滟随波")


def test_normalized_punctuation_is_announced(open_page: OpenPage) -> None:
    page = open_page()
    expect(page.locator("#rewritten")).to_have_count(0)
    page.fill("#prompt", "春天来了,花开了")
    expect(page.locator("#rewritten")).to_contain_text("，？！")


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1920, 1080)])
def test_a_desktop_page_does_not_scroll(open_page: OpenPage, width: int, height: int) -> None:
    page = open_page(width=width, height=height)
    prefill(page)
    size = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    assert size == [width, height]


def test_from_click_to_painted_is_quick(open_page: OpenPage) -> None:
    """Only the fastest three of eleven steps are checked: other tests slow some of them, a slow page all of them."""
    page = open_page(motion=True)
    prefill(page)
    click = """() => new Promise((done) => {
      const before = Number(document.documentElement.dataset.painted);
      const start = performance.now();
      document.querySelector('#btn-step').click();
      const look = () => {
        if (Number(document.documentElement.dataset.painted) > before) done(performance.now() - start);
        else requestAnimationFrame(look);
      };
      look();
    })"""
    times = sorted(float(page.evaluate(click)) for _ in range(11))
    assert times[2] < 250, times  # generous for a shared machine; the benchmark holds the real figure
