"""Lessons on the page: reading, predicting, answering, watching; resuming after a reload; both languages."""

import re

import pytest
from playwright.sync_api import Page, expect

from app.lessons.catalogue import lesson_files, shipped_folder
from tests.browser.axe import open_with_axe, violations
from tests.browser.driving import OpenPage, wait_until
from tests.browser.lesson_walk import answer_question, continue_to, wait_for_one_of
from tests.browser.settling import resize, settled_value, wait_for_value, wait_until_still

TWO = "/?distance=learn&lesson=not-yet"


def open_lesson(open_page: OpenPage, path: str = TWO, **options: object) -> Page:
    page = open_page(path, until=".article", **options)
    expect(page.locator(".lesson-stage .region").first).to_be_visible()
    return page


def open_two(open_page: OpenPage, **options: object) -> Page:
    """Open the second lesson before its second question."""
    page = open_lesson(open_page, TWO, **options)
    to_the_second(page)
    return page


def to_the_second(page: Page) -> None:
    page.click("#lesson-go")
    answer_question(page, "15")
    expect(page.locator(".question")).to_have_count(2)


def test_a_lesson_is_opened_from_the_list_and_its_position_restored(open_page: OpenPage) -> None:
    """The position is restored after a reload, after the run has gone, and in another language, which is
    another run.
    """
    page = open_page()
    page.click("#btn-learn")
    expect(page.locator(".path-card")).to_have_count(len(lesson_files(shipped_folder())) + 1)  # and the tour
    page.click("#path-not-yet")
    expect(page.locator("#lesson-title")).to_have_text("The token that is not there yet")
    wait_until(page, "location.search.includes('lesson=not-yet')")
    to_the_second(page)
    question = page.locator(".question")
    expect(page.locator("#lesson-go")).to_have_count(0)
    answer_question(page, "15")
    expect(page.locator(".verdict").last).to_contain_text("what follows is known already")
    expect(question.last.locator(".answer-mark:not(.wrong)")).to_have_count(0)
    expect(page.locator("html")).to_have_attribute("data-num-records", "1")
    answer_question(page, "1")
    expect(page.locator(".verdict").last).to_contain_text("Right.")
    expect(page.locator("html")).to_have_attribute("data-num-records", "1")
    page.click("#lesson-go")
    expect(page.locator("html")).to_have_attribute("data-num-records", "2")
    page.locator(".lesson-figure", has_text="15").click()
    expect(page.locator("html")).to_have_attribute("data-view-index", "0")
    expect(question).to_have_count(3)

    page.reload()
    expect(page.locator(".question")).to_have_count(3)
    expect(page.locator(".question").first).to_have_attribute("data-over", "true")
    expect(page.locator("html")).to_have_attribute("data-num-records", "2")

    wait_until(page, "location.search.includes('theater=')")
    page.evaluate(
        """() => {
          const kept = JSON.parse(localStorage.getItem('kvtheater.lessons'));
          kept['not-yet'].theater = 'gone';
          localStorage.setItem('kvtheater.lessons', JSON.stringify(kept));
        }"""
    )
    page.goto(re.sub(r"theater=[^&]+", "theater=gone", page.url))
    expect(page.locator(".question")).to_have_count(3)
    expect(page.locator("html")).to_have_attribute("data-num-records", "2")
    answer_question(page, "nowhere yet")
    expect(page.locator(".verdict").last).to_contain_text("Right.")

    page.locator(".lesson-tools button").first.click()
    expect(page.locator("#lesson-title")).to_have_text("还不在那里的字")
    expect(page.locator(".question")).to_have_count(3)
    expect(page.locator(".question legend").last).to_contain_text("滟")
    page.click(".lesson-home")
    expect(page.locator("#path-not-yet")).to_have_attribute("data-state", "begun")


def test_a_prediction_is_made_on_the_stage_and_the_transport_is_free_at_the_end(open_page: OpenPage) -> None:
    """The transport is read-only until the end, and a remote's key advances; the prediction stays beside the
    outcome.
    """
    page = open_two(open_page)
    expect(page.locator("#btn-step")).to_be_hidden()
    answer_question(page, "1")
    expect(page.locator("#lesson-go")).to_be_visible()
    page.click("#lesson-title")
    page.keyboard.press("PageDown")
    expect(page.locator("html")).to_have_attribute("data-num-records", "2")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("html")).to_have_attribute("data-view-index", "0")
    page.keyboard.press("ArrowRight")
    expect(page.locator("html")).to_have_attribute("data-view-index", "1")

    answer_question(page, "nowhere yet")
    page.click("#lesson-go")
    expect(page.locator(".question")).to_have_count(4)
    offers = page.locator('.mark[data-kind="tokens"][data-role="offered"]')
    expect(offers).to_have_count(4)  # that of the first key alone is scrolled out of sight
    offers.filter(has_text="16").click()
    expect(page.locator('.mark[data-role="chosen"]')).to_have_text("16")
    expect(page.locator(".question").last.locator("input:checked + span")).to_have_text("16")
    page.click("#lesson-answer")
    answer_question(page, "17")
    page.click("#lesson-go")
    expect(page.locator("html")).to_have_attribute("data-num-records", "4")
    expect(page.locator(".mark")).to_have_count(2)
    mine, outcome = page.locator('.mark[data-role="mine"]'), page.locator('.mark[data-role="outcome"]')
    expect(mine).to_have_text("16 your prediction")
    expect(outcome).to_have_text("17 what the log says")
    token = page.locator('.token[data-position="16"]').bounding_box()
    box = outcome.bounding_box()
    assert token and box and abs(box["x"] + box["width"] - token["x"] - token["width"]) < 4

    continue_to(page, ".lesson-over")
    expect(page.locator(".lesson-over")).to_contain_text("3 of 6")
    page.click("#lesson-leave")
    page.fill("#prompt", "Once upon a time")
    page.click("#btn-add")
    wait_until(page, "Number(document.documentElement.dataset.numRecords) > 9")


@pytest.mark.parametrize(("width", "height", "theme"), [(390, 844, "dark"), (1280, 800, "light")])
def test_nothing_blocks_a_learner(open_page: OpenPage, width: int, height: int, theme: str) -> None:
    page = open_with_axe(open_page, f"{TWO}&theme={theme}", width=width, height=height, until=".article")
    to_the_second(page)
    answer_question(page, "15")
    answer_question(page, "1")
    page.click("#lesson-go")
    expect(page.locator(".question")).to_have_count(3)
    wait_until_still(page)
    assert violations(page) == []
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    button = page.locator("#lesson-answer").bounding_box()
    assert button and button["height"] >= (44 if width < 1100 else 36)
    answer = page.locator(".answer").last.bounding_box()
    assert answer and answer["height"] >= (44 if width < 1100 else 40)


@pytest.mark.parametrize(("width", "height"), [(390, 844), (360, 640), (1280, 800)])
def test_a_new_item_is_scrolled_to_its_beginning(open_page: OpenPage, width: int, height: int) -> None:
    """The beginning is visible even if the item is higher than the window, and has the keyboard focus."""
    page = open_lesson(open_page, width=width, height=height)
    for _ in range(12):
        to_do = wait_for_one_of(page, "#lesson-answer", "#lesson-go:enabled")
        at = page.locator(".lesson-part").count()
        if to_do == "#lesson-answer":
            page.locator(".question[data-over=false] .unsure").last.click()
            page.click("#lesson-answer")
        else:
            page.click("#lesson-go")
        expect(page.locator(".lesson-part")).not_to_have_count(at)
        expect(page.locator("#lesson")).to_have_attribute("aria-busy", "false")
        wait_until_still(page)
        first = page.locator(".lesson-part").nth(at - 1)
        verdict = first.locator(".verdict") if first.locator(".verdict").count() else first
        sight, box = page.locator(".lesson").bounding_box(), verdict.bounding_box()
        assert sight and box and sight["y"] <= box["y"] < sight["y"] + sight["height"] - 40
        assert page.evaluate("document.activeElement !== document.body")


def test_setup_actions_include_the_following_steps(open_page: OpenPage) -> None:
    page = open_lesson(open_page, "/?distance=learn&lesson=who-runs")
    continue_to(page, ".lesson-section:nth-of-type(2) #lesson-go")
    expect(page.locator("#lesson-go")).to_contain_text("Restart")
    page.click("#lesson-go")  # a new run, three prompts, one step
    expect(page.locator(".question[data-over=false]")).to_have_count(1)
    expect(page.locator(".lesson-section:nth-of-type(2) .lesson-done")).to_have_count(3)
    expect(page.locator("html")).to_have_attribute("data-num-records", "2")
    expect(page.locator("html")).to_have_attribute("data-view-index", "1")


def test_a_printed_lesson_has_its_figure_and_no_buttons(open_page: OpenPage) -> None:
    page = open_lesson(open_page, f"{TWO}&theme=dark")
    to_the_second(page)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    expect(page.locator("#lesson-title")).to_be_visible()
    expect(page.locator(".lesson-rest")).to_be_visible()  # more comes when this is answered
    expect(page.locator(".lesson-stage .token-row")).to_be_visible()
    expect(page.locator(".lesson-stage .sentence")).to_be_visible()
    pressed = page.evaluate(
        """[...document.querySelectorAll('.lesson button, .transport button, select')]
          .filter((e) => e.checkVisibility() && !e.matches('.lesson-link, .lesson-figure, .term')).map((e) => e.id)"""
    )
    assert pressed == []
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('.question')).breakInside") == "avoid"


def test_the_last_card_compares_results_before_and_after(open_page: OpenPage) -> None:
    page = open_lesson(open_page, "/?distance=learn&lesson=before")
    answer_all(page, None)
    expect(page.locator(".gain tbody tr")).to_have_count(5)
    expect(page.locator("[data-result=unsure]")).to_have_count(5)
    page.click("#lesson-next")
    page.click("#path-after")
    answer_all(page, 1)
    expect(page.locator(".gain tbody tr")).to_have_count(5)
    expect(page.locator("[data-result=unsure]")).to_have_count(5)
    expect(page.locator(".lesson-over")).to_contain_text("Before: 0 of 5 right.")
    right = page.locator("[data-result=right]").count()
    assert right + page.locator("[data-result=wrong]").count() == 5
    with page.expect_download() as found:
        page.click("#lesson-csv")
    lines = found.value.path().read_text(encoding="utf-8").split()
    assert lines[0] == "question,before,after" and len(lines) == 6
    assert sum(line.endswith(",unsure,right") for line in lines) == right


def test_lanes_race_in_the_figure_when_the_questions_are_answered(open_page: OpenPage) -> None:
    """No lane is computed before, since its result may be the answer to a question."""
    page = open_lesson(open_page, "/?distance=learn&lesson=computed-twice")
    others = lanes(page)  # of races of other tests on this server
    continue_to(page, "#lesson-go:has-text('race')")
    assert lanes(page) <= others and page.locator(".question[data-over=false]").count() == 0
    records = page.locator("html").get_attribute("data-num-records")
    page.click("#lesson-go")
    expect(page.locator(".article")).to_be_visible()
    race = page.locator("#race")
    expect(race).to_have_attribute("data-phase", "running")
    page.click("#btn-pause")
    expect(race).to_have_attribute("data-phase", "ready")
    expect(page.locator(".race-prompt")).to_contain_text("Who has seen the wind?")
    assert len(lanes(page) - others) == 3
    page.click("#btn-run")
    expect(race).to_have_attribute("data-phase", "done", timeout=20_000)
    expect(page.locator('[data-strategy-lane=none] [data-figure="totalComputed"]')).to_have_text("636")
    expect(page.locator('[data-strategy-lane=paged] [data-figure="totalComputed"]')).to_have_text("38")
    page.reload()
    expect(race).to_have_attribute("data-phase", "ready")  # it waits for a word of the learner's
    page.click("#lesson-go")
    expect(page.locator(".lesson-over")).to_be_visible()
    expect(race).to_have_attribute("data-phase", "ready")  # what was over does not begin again
    expect(page.locator("#lesson-next")).to_have_text("Next: The token that is not there yet")
    page.click("#lesson-next")
    expect(page.locator("#lesson-title")).to_have_text("The token that is not there yet")
    expect(race).to_have_count(0)
    page.click("#lesson-go")  # the lesson drives the page again
    expect(page.locator("html")).not_to_have_attribute("data-num-records", records)
    page.locator(".question[data-over=false] .unsure").last.click()
    page.click("#lesson-answer")
    expect(page.locator("#btn-step")).to_be_hidden()


def test_wrong_answers_are_reviewed_on_their_own_run(open_page: OpenPage) -> None:
    page = open_page("/?distance=learn", until=".path-card")
    expect(page.locator("#path-again")).to_have_count(0)
    page.evaluate(
        """async () => {
          const { lessons } = await (await fetch('api/lessons')).json();
          const over = { at: 9, answers: {}, over: true, theater: null, results: {}, missed: [], recalled: [] };
          const kept = Object.fromEntries(lessons.map(({ id }) => [id, over]));
          kept['not-yet'] = { ...over, missed: [4] };
          kept['pages'] = { ...over, missed: [2] };
          localStorage.setItem('kvtheater.lessons', JSON.stringify(kept));
        }"""
    )
    page.reload()
    expect(page.locator("#path-again")).to_contain_text("2 questions")
    for title, left in (("The token that is not there yet", "1 question"), ("From one piece to pages", None)):
        page.click("#path-again")
        expect(page.locator("#lesson-title")).to_have_text(title)
        expect(page.locator(".question")).to_have_count(1)
        expect(page.locator(".came-back")).to_contain_text("on its own lesson’s run")
        records = settled_value(page, "document.documentElement.dataset.numRecords")  # its run comes a moment later
        page.locator(".answer").first.click()
        page.click("#lesson-answer")
        expect(page.locator(".verdict")).to_be_visible()
        expect(page.locator("html")).to_have_attribute("data-num-records", records)
        continue_to(page, ".lesson-over")
        page.click("#lesson-all")
        expect(page.locator(".path")).to_be_visible()
        assert page.evaluate("document.querySelector('.lesson').scrollTop") == 0
        if left:
            expect(page.locator("#path-again")).to_contain_text(left)
    expect(page.locator("#path-again")).to_have_count(0)
    expect(page.locator("#path-not-yet")).to_have_attribute("data-state", "over")


def lanes(page: Page) -> set[str]:
    """Return the sessions on the server that are lanes of a race."""
    theaters = page.evaluate("fetch('api/theaters').then((answer) => answer.json())")["theaters"]
    return {theater["theater"] for theater in theaters if theater["name"].startswith("race: ")}


def answer_all(page: Page, option: int | None) -> None:
    """Answer each question once up to the end of a test; no answer gets feedback before the end."""
    for _ in range(30):
        at = wait_for_one_of(page, ".lesson-over", "#lesson-answer", "#lesson-go:enabled")
        if at == ".lesson-over":
            return
        assert page.locator(".verdict, .answer-mark").count() == 0
        if at == "#lesson-answer":
            question = page.locator(".question[data-over=false]").last
            (question.locator(".unsure") if option is None else question.locator(".answer").nth(option)).click()
            page.click("#lesson-answer")
        else:
            page.click("#lesson-go")
    pytest.fail("the test does not end")


def test_on_a_phone_the_slot_of_a_question_is_shown_and_the_position_is_restored(open_page: OpenPage) -> None:
    page = open_two(open_page, width=390, height=844)
    answer_question(page, "1")
    page.click("#lesson-go")
    slots = page.locator('.mark[data-kind="slot"]')
    expect(slots).to_have_count(2, timeout=10_000)  # what came of the last question stands for a while
    slots.first.click()
    expect(page.locator('.mark[data-role="chosen"]')).to_have_count(1)
    expect(page.locator("#lesson-answer")).to_be_enabled()
    continue_to(page, ".lesson-over")
    page.reload()
    expect(page.locator(".lesson-over")).to_be_in_viewport()


def test_a_lesson_about_the_pool_shows_it_whole_on_each_model(open_page: OpenPage) -> None:
    """The pool is shown without its figures in low and narrow windows. Each restart with MHA, GQA or MQA is another
    model's run, and its held blocks answer the question.
    """
    page = open_page("/?distance=learn&lesson=what-it-costs", width=390, height=844, until=".article")
    name = "import('/static/js/state/run.js').then(({ own }) => own.log.value?.header.model.name)"
    wait_until(page, f"{name}.then((found) => found === 'bundled-mha')")
    page.click("#lesson-go")  # prefill
    expect(page.locator(".lesson-regions .figures")).to_be_visible()
    for width, height in ((390, 844), (768, 1024)):
        resize(page, width, height)
        boxes = [
            page.locator(f".lesson-regions {name}").bounding_box() for name in (".memory", ".memory-map", ".figures")
        ]
        memory, pool, figures = [box for box in boxes if box]
        assert memory["x"] == 0 and memory["width"] == width
        assert pool["y"] + pool["height"] <= figures["y"]
        style = "getComputedStyle(document.querySelector('.lesson-regions .memory'))"
        assert page.evaluate(f"{style}.overflowY") == "auto"
    resize(page, 1280, 800)
    answer_question(page, "1")
    expect(page.locator(".question")).to_have_count(2)
    answer_question(page, "3\u2009KiB")
    page.click("#lesson-go")  # a step
    for model, held in (("bundled-gqa", "12\u2009KiB"), ("bundled-mqa", "6\u2009KiB")):
        expect(page.locator("#lesson-go")).to_have_text(f"Restart: model {model}")
        page.click("#lesson-go")
        wait_until(page, f"{name}.then((found) => found === '{model}')")
        answer_question(page, held)
        expect(page.locator(".verdict").last).to_have_attribute("data-right", "true")
        page.click("#lesson-go")
        expect(page.locator(".lesson-regions .figures")).to_contain_text(held)


def test_a_knob_a_sandbox_and_the_optional_allocator_exercise(open_page: OpenPage) -> None:
    """The sandbox is followed by another run, in whose steps each sequence needs a block: one is dragged, one tapped,
    the others are chosen by keys.
    """
    page = open_lesson(open_page, "/?distance=learn&lesson=pages")
    knob = page.locator(".lesson-knob")
    continue_to(page, ".lesson-knob")
    expect(knob).to_have_attribute("aria-valuenow", "4")
    knob.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#lesson-changed")).to_contain_text("Block size 16")
    expect(knob).to_have_text("16")
    page.click("#lesson-own")
    expect(page.locator("#lesson-changed")).to_have_count(0)
    expect(knob).to_have_text("4")

    continue_to(page, ".lesson-sandbox")
    expect(page.locator(".lesson-sandbox")).to_contain_text("0 of 6 right")
    page.click(".lesson-home")
    expect(page.locator("#path-pages")).to_have_attribute("data-state", "over")
    page.click("#path-pages")
    records = page.locator("html").get_attribute("data-num-records")
    page.click("#lesson-bench")  # the run is the learner's
    page.fill("#prompt", "Once upon a time")
    page.click("#btn-add")
    wait_until(page, f"Number(document.documentElement.dataset.numRecords) > {records}")
    page.click("#btn-learn")
    page.click(".lesson-sandbox #lesson-go")
    page.click(".lesson-do#lesson-go")
    expect(page.locator(".lesson-more")).to_have_text("If there is time")
    expect(page.locator("html")).to_have_attribute("data-num-records", "3")  # its own run: four arrive, two steps
    page.keyboard.press("ArrowLeft")
    expect(page.locator("html")).to_have_attribute("data-view-index", "1")

    continue_to(page, ".desk")
    records = page.locator("html").get_attribute("data-num-records")
    chip, row = page.locator('.desk-chip[data-head="true"]'), page.locator('.desk-row[data-seq="2"]')
    chip.drag_to(row)
    expect(page.locator(".work-list li")).to_have_count(1)
    expect(row.locator(".desk-chip").last).to_contain_text("11")
    chip.click()
    page.locator('.desk-row[data-seq="2"] button.desk-name').click()
    page.click("#work-give")
    grades = page.locator(".work-result li")
    expect(grades.nth(0)).to_have_attribute("data-grade", "right")
    expect(grades.nth(1)).to_have_attribute("data-grade", "other")
    expect(page.locator(".work-result")).to_contain_text("3 operations are missing")
    expect(page.locator("html")).to_have_attribute("data-num-records", records)
    page.locator(".work-back").last.click()
    for seq in (0, 1, 3):
        chip.focus()
        page.keyboard.press("Enter")
        page.locator(f'.desk-row[data-seq="{seq}"] button.desk-name').focus()
        page.keyboard.press("Enter")
    page.click("#work-give")
    expect(page.locator(".work-result").nth(1)).to_contain_text("Every operation is what the engine did.")
    page.click("#lesson-go")
    expect(page.locator(".work-result .lesson-link").first).to_be_visible()
    page.reload()
    expect(page.locator(".work-result")).to_have_count(3)


def test_the_allocator_exercise_covers_nothing(open_page: OpenPage) -> None:
    page = open_with_axe(open_page, "/?distance=learn&lesson=pages", width=390, height=844, until=".article")
    continue_to(page, ".desk")
    page.locator('.desk-chip[data-head="true"]').click()
    wait_until_still(page)
    assert violations(page) == []
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    chip = page.locator('.desk-chip[data-head="true"]').bounding_box()
    assert chip and min(chip["width"], chip["height"]) >= 40


def test_a_late_lesson_does_not_replace_the_one_chosen_since(open_page: OpenPage) -> None:
    page = open_lesson(open_page)
    two = """async () => {
      const { settings } = await import('/static/js/state/settings.js');
      settings.lesson.value = 'sharing';
      await new Promise((resolve) => setTimeout(resolve, 30));
      settings.lesson.value = 'asked-once';
    }"""
    page.evaluate(two)
    expect(page.locator("#lesson-title")).to_have_text("Queries are asked once")
    page.evaluate(two.replace("'asked-once'", "null"))
    expect(page.locator("#path-sharing")).to_be_visible()
    page.wait_for_timeout(1500)  # a late message would be visible by now
    expect(page.locator("#path-sharing")).to_be_visible()
    assert (
        page.evaluate("import('/static/js/state/lessons.js').then(({ currentLesson }) => currentLesson.value)") is None
    )


def test_wrong_answers_are_asked_again_two_lessons_later(open_page: OpenPage) -> None:
    page = open_lesson(open_page, "/?distance=learn&lesson=computed-twice")
    question = ".question[data-over=false]"
    while wait_for_one_of(page, question, "#lesson-go:enabled") != question:
        page.click("#lesson-go")
    page.locator(f"{question} .unsure").click()
    page.click("#lesson-answer")
    expect(page.locator(".question[data-over=true]")).to_have_count(1)
    page.click(".lesson-home")
    page.click("#path-why-it-may-be-kept")
    page.click("#lesson-go")
    expect(page.locator(".came-back")).to_have_count(1)
    expect(page.locator(".question legend")).to_contain_text("How many tokens does the next step compute?")
    answer_question(page, "1")
    expect(page.locator(".verdict")).to_contain_text("Right.")
    page.reload()
    expect(page.locator(".came-back")).to_have_count(1)
    expect(page.locator(".question[data-over=true]")).to_have_count(1)


def test_byte_marks_do_not_cover_the_heading_and_a_wrong_reason_has_a_hint(open_page: OpenPage) -> None:
    page = open_page("/?distance=learn&lesson=memory-that-does-not-grow", width=390, height=844, until="#lesson")
    continue_to(page, '.mark[data-kind="bytes"]')
    expect(page.locator('.mark[data-kind="bytes"]')).to_have_count(5)
    wait_for_value(
        page,
        """(() => {
          const boxes = (selector) => [...document.querySelectorAll(selector)].map((e) => e.getBoundingClientRect());
          const [title] = boxes(".lesson-stage .figures .panel-title");
          return boxes('.mark[data-kind="bytes"] .mark-label').every(({ top }) => top >= title.bottom);
        })()""",
        True,
    )
    for _ in range(30):
        question = page.locator(".question[data-over=false]", has_text="Why does it not find more")
        if wait_for_one_of(page, "#lesson-answer", "#lesson-go:enabled") == "#lesson-go:enabled":
            page.click("#lesson-go")
        elif question.count():
            break
        else:
            page.locator(".question[data-over=false] .unsure").last.click()
            page.click("#lesson-answer")
    answer_question(page, "there is no more that it could find")
    expect(page.locator(".question").last).to_contain_text("Then the log would name no reason")
