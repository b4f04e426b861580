"""Setup region: scenes, settings of cache and scheduler, and a list of sequences that stays usable."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import PAINTED, POEM, SENT, OpenPage, prefill, step, wait_for_record, wait_until
from tests.browser.settling import address, theater_of, wait_for_value

SUBMIT = """(texts) => import('/static/js/net/commands.js')
  .then(({ submit }) => submit(texts.map((text) => ({ text }))))"""
LOG = "import('/static/js/state/store.js').then((store) => store.log.value.id)"
HEADER = "import('/static/js/state/store.js').then((store) => ({ ...store.log.value.header.engine }))"


def play(page: Page, scene: str) -> None:
    """Start the scene: a new log whose first record is the submission."""
    page.select_option("#scene", scene)
    before = page.evaluate(LOG)
    page.click("#btn-scene")
    wait_until(page, f"{LOG}.then((id) => id > {before})")  # the scene before may show its first record too
    wait_until(page, "import('/static/js/state/store.js').then((store) => store.numRecords.value === 1)")
    wait_for_record(page, 0)


def open_settings(page: Page, group: str) -> None:
    page.evaluate("(id) => { document.getElementById(id).open = true; }", group)


def commit(page: Page, field: str, value: str) -> None:
    page.fill(field, value)
    page.press(field, "Tab")


def test_a_scene_says_what_to_watch_and_sets_everything(open_page: OpenPage) -> None:
    page = open_page("/?temperature=0.7&block_size=8")
    page.select_option("#scene", "shared-prefix")
    expect(page.locator("#scene-watch")).to_contain_text("finds that beginning in the prefix cache")
    play(page, "shared-prefix")
    expect(page.locator(".sequence")).to_have_count(1)
    expect(page.locator("#temperature")).to_have_value("0")
    assert page.evaluate(HEADER)["block_size"] == 4
    for last in (1, 3, 4):  # the second prompt comes in by itself after two steps, and the page looks at it
        page.click("#btn-step")
        wait_for_record(page, last)
    expect(page.locator(".sequence")).to_have_count(2)
    expect(page.locator(".sequence.shown b")).to_have_text("seq 1")
    expect(page.locator("#sentence")).to_contain_text("16 of the 29 tokens of seq 1 had been computed before")


def test_a_scene_ends_with_what_its_run_proves_and_a_link_plays_it(open_page: OpenPage) -> None:
    page = open_page("/?scene=tokens")
    wait_for_record(page, 0)
    expect(page.locator("#scene")).to_have_value("tokens")
    expect(page.locator("#scene-end")).to_have_count(0)
    page.select_option("#speed", "0")
    page.click("#btn-run")
    end = "The prompt has 6 words and 16 tokens: 16 slots, in 4 blocks."
    expect(page.locator("#scene-end")).to_have_text(end, timeout=20_000)
    expect(page.locator("#sentence")).to_contain_text(end)
    wait_until(page, "location.search.includes('scene=tokens')")
    page.reload()
    page.wait_for_selector("#connection.live")
    expect(page.locator("#scene-end")).to_have_text(end)
    assert page.evaluate("import('/static/js/state/store.js').then((store) => store.numRecords.value)") > 2


def test_a_language_is_remembered_and_its_example_prompts_stay_until_one_is_sent(open_page: OpenPage) -> None:
    page = open_page(locale="zh-CN")
    expect(page.locator("#btn-prefill")).to_have_text("预填充")
    page.click("#btn-language")
    expect(page.locator("#btn-prefill")).to_have_text("Prefill")
    address(page)  # the choice is stored with it
    page.goto(page.url.split("?")[0])
    expect(page.locator("#prompt")).to_have_value("Who has seen the wind?")
    page.click("#btn-language")
    expect(page.locator("#prompt")).to_have_value(POEM)
    assert "床前明月光，" in page.locator(".presets").inner_text()
    prefill(page, "空山新雨后，")
    page.click("#btn-language")
    expect(page.locator("#prompt")).to_have_value("空山新雨后，")


def test_one_key_switches_to_the_sentences_for_experts(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    expect(page.locator("#sentence")).to_contain_text("The model read the whole prompt at once: 16 tokens")
    expect(page.locator("#sentence")).not_to_contain_text("cache")
    page.keyboard.press("Escape")
    page.locator("body").press("e")
    expect(page.locator("#sentence")).to_contain_text("Prefill, step 1: 16 prompt tokens of seq 0 at once")
    expect(page.locator("#sentence")).to_contain_text("Not one of the 16 tokens of seq 0 hits the prefix cache")
    wait_until(page, "location.search.includes('telling=expert')")
    page.locator("body").press("?")
    expect(page.locator("#help")).to_contain_text("sentences for experts, or plain ones")


def test_one_scene_after_another_leaves_no_setting_behind(open_page: OpenPage) -> None:
    page = open_page()
    play(page, "chunks")
    assert page.evaluate(HEADER)["max_num_batched_tokens"] == 16
    step(page, 2)
    expect(page.locator("#sentence")).to_contain_text(re.compile("Only “|more tokens of the prompt"))
    play(page, "batch")
    engine = page.evaluate(HEADER)
    assert (engine["max_num_batched_tokens"], engine["max_num_seqs"]) == (512, 2)
    play(page, "samples")
    expect(page.locator("#n")).to_have_value("3")
    step(page)
    expect(page.locator(".sequence")).to_have_count(3)  # they share the prompt
    play(page, "moon")
    assert page.evaluate(HEADER)["max_num_seqs"] == 16
    expect(page.locator("#n")).to_have_value("1")


def test_settings_apply_at_once_to_an_empty_log_and_on_request_to_others(open_page: OpenPage) -> None:
    page = open_page()
    expect(page.locator("#scheduler summary")).to_contain_text("16 seqs · 512 tokens")
    open_settings(page, "scheduler")
    commit(page, "#max-num-seqs", "3")
    wait_until(page, f"{HEADER}.then((engine) => engine.max_num_seqs === 3)")
    expect(page.locator("#scheduler .usual")).to_have_text("default 16")
    expect(page.locator("#btn-apply")).not_to_be_visible()
    prefill(page)
    page.uncheck("#enable-prefix-caching")
    page.select_option("#kv-cache-dtype", "float16")
    expect(page.locator("#btn-apply")).to_be_visible()
    assert page.evaluate(HEADER)["enable_prefix_caching"] is True  # not before one says so
    page.click("#btn-apply")
    wait_for_record(page, -1)
    engine = page.evaluate(HEADER)
    assert (engine["enable_prefix_caching"], engine["kv_cache_dtype"], engine["max_num_seqs"]) == (False, "float16", 3)
    expect(page.locator("#btn-apply")).not_to_be_visible()
    expect(page.locator("#prompt")).to_have_value(POEM)
    prefill(page)
    page.locator("body").press("e")
    expect(page.locator("#sentence")).to_contain_text("The prefix cache is off")


def test_typed_text_survives_a_redraw_of_its_field(open_page: OpenPage) -> None:
    page = open_page()
    open_settings(page, "scheduler")
    page.locator("#max-num-seqs").select_text()
    page.keyboard.type("3")
    news = """import('/static/js/state/store.js').then(({ modelFacts }) => {
      modelFacts.value = { ...modelFacts.value, config: { ...modelFacts.value.config, max_num_seqs: 17 } };
    })"""
    page.evaluate(news)
    expect(page.locator("#scheduler .usual").first).to_contain_text("17")
    expect(page.locator("#max-num-seqs")).to_have_value("3")
    page.keyboard.press("Tab")
    wait_until(page, f"{HEADER}.then((engine) => engine.max_num_seqs === 3)")
    commit(page, "#max-num-seqs", "")  # no number: what it was comes back
    expect(page.locator("#max-num-seqs")).to_have_value("3")


def test_a_link_has_only_the_settings_that_differ_from_the_servers(open_page: OpenPage) -> None:
    page = open_page("/?max_num_batched_tokens=8&enable_prefix_caching=1")
    assert page.evaluate(HEADER)["max_num_batched_tokens"] == 8
    wait_until(page, "location.search.includes('max_num_batched_tokens=8')")
    wait_until(page, "!location.search.includes('enable_prefix_caching')")
    page.fill("#prompt", POEM)
    page.click("#btn-prefill")
    wait_until(page, f"{PAINTED} >= 2")  # 16 tokens in two chunks of 8


def test_a_second_page_shows_the_settings_of_the_run(open_page: OpenPage) -> None:
    page = open_page("/?max_num_seqs=5&scheduling_policy=priority")
    theater = theater_of(page)
    other = open_page(f"/?theater={theater}")
    open_settings(other, "scheduler")
    expect(other.locator("#max-num-seqs")).to_have_value("5")
    expect(other.locator("#scheduling-policy")).to_have_value("priority")
    expect(other.locator("#priority")).to_be_visible()


def test_the_priority_policy_schedules_lower_numbers_first(open_page: OpenPage) -> None:
    page = open_page("/?scheduling_policy=priority&max_num_seqs=1")
    for priority, prompt in (("5", "床前明月光，"), ("-1", "白日依山尽，")):
        commit(page, "#priority", priority)
        page.fill("#prompt", prompt)
        page.click("#btn-add")
        wait_until(page, SENT)
    wait_for_record(page, 1)
    step(page)
    expect(page.locator(".sequence").nth(1).locator(".status")).to_have_text("running")
    expect(page.locator(".sequence").nth(0).locator(".status")).to_have_text("waiting")


def test_a_sequence_named_by_a_link_is_visible(open_page: OpenPage) -> None:
    """The list, which shows eight sequences at a time, is scrolled to the one in the link."""
    page = open_page("/?max_tokens=12&seq=30&detail=scheduler")
    page.evaluate(SUBMIT, [POEM[: 4 + i % 12] for i in range(40)])
    wait_for_record(page, 0)
    step(page)
    expect(page.locator(".sequence.shown .sequence-main")).to_have_attribute("title", "request request-30")
    inside = """(() => {
      const box = (of) => document.querySelector(of).getBoundingClientRect();
      const [item, list] = [box('.sequence.shown'), box('.sequence-list')];
      return list.top <= item.top && item.bottom <= list.bottom + 1;
    })()"""
    wait_for_value(page, inside, True)
    page.wait_for_selector(".tracks-cursor")


def test_forty_sequences_are_listed_and_filtered_by_status(open_page: OpenPage) -> None:
    page = open_page("/?max_tokens=12")
    page.evaluate(SUBMIT, [POEM[: 4 + i % 12] for i in range(40)])
    wait_for_record(page, 0)
    step(page, 2)
    expect(page.locator(".sequence")).to_have_count(40)
    running = page.locator(".filter", has_text="running")
    count = int(re.sub(r"\D", "", running.inner_text()))
    assert 0 < count < 40
    running.click()
    expect(page.locator(".sequence")).to_have_count(count)
    expect(page.locator(".sequence .status.running")).to_have_count(count)
    page.locator(".sequence-main").nth(count - 1).click()
    expect(page.locator(".sequence.shown .sequence-times")).to_have_count(1)
    wait_until(page, "/seq=[0-9]/.test(location.search)")
    box = page.locator(".sequence-list").bounding_box()
    assert box and box["height"] <= 320
    assert page.evaluate("document.documentElement.scrollHeight") == 800
    page.locator(".filter", has_text="all").click()
    first = page.locator(".sequence").first
    first.locator(".tool").click()
    expect(first.locator(".status")).to_have_text("finished")
    expect(first.locator(".tool")).to_have_count(0)


def test_progress_counts_prompt_and_output(open_page: OpenPage) -> None:
    page = open_page("/?max_tokens=9")
    prefill(page)
    step(page)
    label = page.locator(".sequence-bar").get_attribute("aria-label")
    assert label == "16 of 16 prompt tokens computed, 2 of at most 9 tokens generated"


def test_the_strategy_is_chosen_by_arrow_keys(open_page: OpenPage) -> None:
    page = open_page()
    page.focus('[data-strategy="paged"]')
    page.keyboard.press("ArrowRight")
    expect(page.locator('[data-strategy="first_fit"]')).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.locator('[data-strategy="contiguous"]')).to_be_focused()
    wait_until(page, f"{HEADER}.then((engine) => engine.strategy === 'contiguous')")
    expect(page.locator("#block-size")).to_be_disabled()
    expect(page.locator("#enable-prefix-caching")).to_be_disabled()


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_nothing_in_the_setup_region_is_clipped_horizontally(open_page: OpenPage, locale: str) -> None:
    page = open_page(locale=locale)
    for group in ("scheduler", "sampling"):
        open_settings(page, group)
    for scene in ("batch", "samples"):
        page.select_option("#scene", scene)
        wide = """[...document.querySelectorAll('#region-setup :is(label, p, button, summary):not(.preset)')]
          .filter((e) => getComputedStyle(e).display !== 'inline' && e.scrollWidth > e.clientWidth + 1)
          .map((e) => e.textContent)"""
        assert page.evaluate(wide) == []


def test_controls_of_the_setup_are_thumb_sized_and_play_a_scene(open_page: OpenPage) -> None:
    page = open_page("/?region=setup", width=390, height=844, is_mobile=True, has_touch=True)
    for target in ("#scene", "#btn-add", "#scheduler summary", "#block-size"):
        box = page.locator(target).bounding_box()
        assert box and box["height"] >= 44, target
    play(page, "moon")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_prompt_can_be_added_during_a_run(open_page: OpenPage) -> None:
    page = open_page("/?lang=en&max_tokens=12")
    prefill(page, "Who has seen the wind?")
    page.fill("#after", "2")
    page.locator("#after").blur()
    page.fill("#prompt", "Tyger Tyger, burning bright,")
    page.click("#btn-add")
    expect(page.locator("#coming")).to_have_text("1 prompt comes by itself, the next in 2 steps.")
    step(page)
    expect(page.locator("#coming")).to_have_text("1 prompt comes by itself, the next in 1 step.")
    expect(page.locator(".sequence")).to_have_count(1)
    page.click("#btn-step")
    wait_for_record(page, 4)  # after the step the prompt that comes by itself
    expect(page.locator("#coming")).to_have_count(0)
    expect(page.locator(".sequence")).to_have_count(2)


def test_a_new_prompt_is_shown_on_the_stage(open_page: OpenPage) -> None:
    """The stage shows the newest prompt, also while another one runs."""
    page = open_page()
    prefill(page, "Who has seen the wind?")
    step(page)
    page.fill("#prompt", "My name is Kim")
    page.click("#btn-prefill")
    expect(page.locator(".token-text").first).to_have_text("My")
    expect(page.locator("#sentence")).to_contain_text("of seq 1 at once: 5 tokens")


NUMBERS = """() => [...document.querySelectorAll('#sampling input[type=number], #scheduler input[type=number], #after')]
  .map((field) => ({ id: field.id, min: field.min, max: field.max, value: field.value }))"""


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_a_number_out_of_range_is_refused_with_its_bounds(open_page: OpenPage, locale: str) -> None:
    """A typed value or one from a link is rejected, and the last valid value is restored."""
    page = open_page("/?temperature=1e20&top_p=1.5&top_k=-5&min_p=nan&max_num_seqs=-1", locale=locale)
    for group in ("sampling", "scheduler"):
        open_settings(page, group)
    wait_until(page, "!/temperature|top_|min_p|max_num_seqs/.test(location.search)")
    fields = page.evaluate(NUMBERS)
    assert {"temperature", "top-p", "max-tokens", "repetition-penalty", "max-num-seqs", "after"} <= {
        f["id"] for f in fields
    }
    for field in fields:
        name, box = field["id"], page.locator(f"#{field['id']}")
        beyond = [str(float(field["max"]) + 1)] if field["max"] else []
        for wrong in ("-1e20", *beyond):
            box.fill(wrong)
            note = page.locator(f".field:has(#{name}) .bounds")
            expect(note, name).to_have_text(
                re.compile("至少|之间|大于|不超过|整数" if locale == "zh-CN" else "[Bb]etween|least|Over|most|whole")
            )
            expect(box).to_have_attribute("aria-invalid", "true")
            box.press("Tab")
            expect(box, name).to_have_value(field["value"])
            expect(note, name).to_have_count(1)
        assert name.replace("-", "_") + "=" not in page.url
        box.focus()
        box.fill(field["value"])
        expect(page.locator(f".field:has(#{name}) .bounds"), name).to_have_count(0)
    commit(page, "#top-p", "0.5")
    wait_until(page, "location.search.includes('top_p=0.5')")
    commit(page, "#top-p", "7")
    expect(page.locator("#top-p")).to_have_value("0.5")
    assert "top_p=0.5" in page.url


def test_refused_settings_are_explained_in_the_pages_language(open_page: OpenPage) -> None:
    page = open_page("/", locale="zh-CN")
    open_settings(page, "sampling")
    commit(page, "#n", "2")
    page.click("#btn-prefill")
    expect(page.locator("#toasts")).to_contain_text("temperature 为 0 时，所有采样都会相同")
