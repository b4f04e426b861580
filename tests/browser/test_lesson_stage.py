"""The stage shows the lesson's current run, and no other, at every point of every lesson."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.driving import OpenPage, wait_until
from tests.browser.lesson_walk import wait_for_one_of
from tests.browser.settling import wait_until_still

FOLDER = Path(__file__).resolve().parent.parent.parent / "static" / "lessons"
LESSONS = [re.findall(r'^id = "(.+)"$', path.read_text(), re.MULTILINE)[0] for path in sorted(FOLDER.glob("*.md"))]
MOST = 60  # barriers of a lesson, and what stands between them

# What is shown is the lesson's own run as far as its last action came, with the settings that it was begun with; or,
# while its last action was a race and nothing else is looked at, a lane of that race. The driver also presents.
AGREES = """Promise.all(['state/store', 'state/run', 'state/lessons', 'control/player', 'state/settings'].map((name) =>
  import(`/static/js/${name}.js`))).then((
  [store, { own }, { currentLesson, lessonRace }, { player }, { settings }]) => {
  const done = currentLesson.value.items.filter(({ kind, moment }) => kind === 'do' && moment);
  const races = done.at(-1)?.race && lessonRace.value;
  if (races) return store.log.value !== own.log.value && player.value.shown?.log.value === store.log.value;
  const anew = done.findLast(({ action }) => action.verb === 'restart')?.action.changes ?? {};
  const engine = store.log.value?.header.engine ?? {};
  return !lessonRace.value && !player.value.shown
    && settings.theater.value === currentLesson.value.theater && store.log.value === own.log.value
    && store.numRecords.value === (currentLesson.value.items.findLast(({ moment }) => moment)?.moment.records ?? 0)
    && Object.entries(anew).every(([name, value]) => !(name in engine) || String(engine[name]) === String(value));
})"""


ASKS = "import('/static/js/state/lessons.js').then(({ currentLesson }) => currentLesson.value.progress.asks)"
# What of the figures answers a question, by its rule: the count of those that fit, the formula of a token's bytes.
ANSWERING = {"run_at_once": "#contiguous-fit", "bytes_per_token": ".formula"}


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS)
def test_the_stage_shows_the_run_of_the_lessons_current_item(open_page: OpenPage, lesson: str) -> None:
    """This holds also after the sandbox, where the run was the learner's, and after a race, which is another run. No
    figure reveals the answer to a later question.
    """
    page = open_page(f"/?distance=learn&lesson={lesson}", until=".article, .path-card")
    expect(page.locator(".article")).to_be_visible()
    for _ in range(MOST):
        at = wait_for_one_of(page, ".lesson-over", "#lesson-answer", "#work-unsure", "#lesson-go:enabled")
        wait_until(page, AGREES)
        for rule in page.evaluate(ASKS):
            expect(page.locator(f".lesson-stage {ANSWERING.get(rule, '.answers-nothing')}")).to_have_count(0)
        if at == ".lesson-over":
            return
        if at == "#lesson-answer":
            page.locator(".question[data-over=false] .unsure").last.click()
        page.click(at)
    pytest.fail("the lesson does not end")


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (1280, 800)])
def test_a_new_prompt_is_shown_from_its_first_token(open_page: OpenPage, width: int, height: int) -> None:
    """No token is hidden while the token row has empty space, so the subject of the question is visible."""
    page = open_page("/?distance=learn&lesson=not-yet", until="#lesson-go", width=width, height=height)
    page.click("#lesson-go")
    expect(page.locator(".question")).to_have_count(1)
    hidden = """(() => { const box = document.querySelector('.token-row-scroll').getBoundingClientRect();
      const tokens = [...document.querySelectorAll('.token-text')].map((one) => one.getBoundingClientRect());
      const free = box.right - Math.max(...tokens.map((one) => one.right));
      const before = document.querySelector('.token-row-scroll').scrollLeft;
      return tokens.length ? Math.min(free, before) : 999 })()"""
    wait_until(page, f"{hidden} < 60")


def test_texts_of_a_prediction_do_not_cover_row_names(open_page: OpenPage) -> None:
    page = open_page("/?distance=learn&lesson=may-be-forgotten", width=1280, height=800, until=".article")
    for _ in range(MOST):
        at = wait_for_one_of(page, "#lesson-answer", "#lesson-go:enabled")
        question = page.locator(".question[data-over=false]").last
        if at == "#lesson-answer" and question.locator(".answer", has_text="position 42").count():
            break
        if at == "#lesson-answer":
            question.locator(".unsure").click()
        page.click(at)
    question = page.locator(".question").last
    for given, answer in enumerate(("position 39", "position 40"), 1):  # both lie at the left edge at the end
        question.locator(".answer", has_text=answer).click()
        page.click("#lesson-answer")
        expect(question.locator("[data-given=true]")).to_have_count(given)
    page.click("#lesson-go:enabled")
    labels = page.locator('.mark[data-kind="tokens"] .mark-label')
    expect(labels).to_have_count(3)
    wait_until_still(page)
    left = page.locator(".lesson-stage .token-row-window").evaluate("window => window.getBoundingClientRect().left")
    assert min(labels.evaluate_all("all => all.map(one => one.getBoundingClientRect().left)")) >= left


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (412, 915)])
def test_brackets_of_a_question_cover_no_notice(open_page: OpenPage, width: int, height: int) -> None:
    page = open_page("/?distance=learn&lesson=not-yet", until="#lesson-go", width=width, height=height)
    page.click("#lesson-go")
    expect(page.locator('.mark[data-kind="tokens"]')).not_to_have_count(0)
    notice = page.locator(".lesson-stage .token-row-notice")
    expect(notice).to_have_css("opacity", "0")
    row, text = page.locator(".lesson-stage .gutter-row.of-attention").bounding_box(), notice.bounding_box()
    assert row and text and row["y"] <= text["y"] and text["y"] + text["height"] <= row["y"] + row["height"] + 1


# The newest text states how many wait; what is drawn beside it, by the part of the page that the lesson shows.
STATES_WAITING = """import('/static/js/state/lessons.js').then(({ currentLesson, shownPart }) => {
  const items = currentLesson.value.items;
  const done = items.findLastIndex(({ kind, moment }) => kind === 'do' && moment);
  const states = (node) => typeof node !== 'string'
    && (node.figure === 'waiting' || (node.children ?? []).some(states));
  const stated = items.slice(done + 1).some(({ kind, blocks }) => kind === 'text' && blocks.some(states));
  return stated ? shownPart.value?.part ?? 'stage' : null;
})"""
WAITING = "import('/static/js/state/store.js').then(({ state }) => state.value.waiting.length)"
SEQUENCES = "import('/static/js/state/store.js').then(({ state }) => state.value.sequences.size)"
# the pool says how many wait; the scheduler has a lane for each sequence, a waiting one among them
DRAWN_WAITING = {
    "pool": ("#pool-queued", "data-waiting", WAITING),
    "scheduler": (".tracks-scroll", "data-tracks", SEQUENCES),
}
WITH_WAITING = [
    name for name, path in zip(LESSONS, sorted(FOLDER.glob("*.md")), strict=True) if "](=waiting)" in path.read_text()
]


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (390, 844)])
@pytest.mark.parametrize("lesson", WITH_WAITING)
def test_waiting_sequences_are_shown_beside_the_text(open_page: OpenPage, lesson: str, width: int, height: int) -> None:
    page = open_page(f"/?distance=learn&lesson={lesson}", until=".article", width=width, height=height)
    checked = 0
    for _ in range(MOST):
        at = wait_for_one_of(page, ".lesson-over", "#lesson-answer", "#work-unsure", "#lesson-go:enabled")
        if part := page.evaluate(STATES_WAITING):
            selector, attribute, count = DRAWN_WAITING[part]
            assert page.evaluate(WAITING) > 0
            expect(page.locator(selector)).to_have_attribute(attribute, str(page.evaluate(count)))
            expect(page.locator(selector)).to_be_in_viewport(ratio=0.9)
            checked += 1
            break
        if at == "#lesson-answer":
            page.locator(".question[data-over=false] .unsure").last.click()
        page.click(at)
    assert checked


@pytest.mark.parametrize("height", [844, 664])
def test_on_a_phone_the_stage_shows_keys_values_and_queries(open_page: OpenPage, height: int) -> None:
    page = open_page("/?distance=learn&lesson=asked-once", width=390, height=height, until="#lesson-go")
    page.click("#lesson-go")
    expect(page.locator(".question")).to_be_visible()
    page.locator(".question input").first.check()
    page.click("#lesson-answer")
    for kind in ("attention", "k", "v", "q"):
        expect(page.locator(f".gutter-row.of-{kind}")).to_be_visible()
    assert page.locator(".token-row").evaluate(
        "(row) => row.getBoundingClientRect().bottom <= row.closest('.lesson-stage').getBoundingClientRect().bottom"
    )


def test_in_landscape_the_stage_covers_no_text_on_a_phone(open_page: OpenPage) -> None:
    page = open_page("/?distance=learn&lesson=asked-once", width=700, height=390, until="#lesson-go")
    page.click("#lesson-go")
    expect(page.locator(".question")).to_be_visible()
    stage = page.locator(".lesson-stage")
    assert stage.evaluate("(stage) => getComputedStyle(stage).overflow") == "hidden"
    assert page.locator(".lesson").evaluate(
        "(lesson) => lesson.contains(document.elementFromPoint(350, lesson.getBoundingClientRect().top + 4))"
    )
