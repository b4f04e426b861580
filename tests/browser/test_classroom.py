"""A class in real browsers: a presenter's wall and desk, followers on phones that are led, wander off and come back."""

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import AXE, fail_on_violations, open_with_axe, violations
from tests.browser.driving import OpenPage, prefill, step, wait_for_record, wait_until
from tests.browser.mortal_server import RestartableServer
from tests.browser.overlaps import overlapping
from tests.browser.settling import resize, wait_until_still

JOIN = """import('/static/js/state/classroom.js').then(({ presenting }) =>
  new Promise((resolve) => presenting.subscribe((opened) => opened && resolve(opened.join))))"""
SETTING = "(name) => import('/static/js/state/settings.js').then(({ settings }) => settings[name].value)"
SETTINGS = "import('/static/js/state/settings.js')"
GO_TO_LOOK = f"{SETTINGS}.then(({{ settings }}) => {{ settings.viewMode.value = 'intro' }})"
ROAM = "import('/static/js/control/classroom.js').then(({ wander }) => wander())"
PHONE: dict[str, Any] = {"width": 390, "height": 844, "has_touch": True}
Follow = OpenPage


def teach(open_page: OpenPage, path: str = "/", **options: Any) -> Page:
    """Open a presenter's page with a class whose dialog is closed."""
    page = open_page(path, **options)
    page.click("#btn-teach")
    page.fill("#class-title", "Pages")
    page.click("#class-open")
    page.click("#class-begin")
    expect(page.locator("#class-strip")).to_be_visible()
    page.click("#present-leave")
    return page


@pytest.fixture
def wall(open_page: OpenPage) -> Page:
    page = teach(open_page)
    prefill(page)
    return page


@pytest.fixture
def follow(open_page: OpenPage, wall: Page) -> Follow:
    """Open the page of another follower, on a phone by default."""

    def opened(**options: Any) -> Page:
        return open_page(wall.evaluate(JOIN), until="#class-bar", **{**PHONE, **options})

    return opened


def open_lesson(wall: Page, lesson: str = "pages") -> None:
    """Open a lesson on the wall, before its first question."""
    wall.evaluate(
        f"{SETTINGS}.then(({{ settings }}) => {{"
        f" settings.lesson.value = '{lesson}'; settings.viewMode.value = 'lesson' }})"
    )
    expect(wall.locator(".question")).not_to_have_count(0)


def ask_lesson(wall: Page) -> None:
    """Put the lesson's question to the class."""
    wall.click("#class-ask-open")
    wall.click("#class-ask-lesson")
    expect(wall.locator("#class-projector")).to_be_visible()


def ask(wall: Page, kind: str = "choice", text: str = "Which block is next?") -> None:
    wall.click("#class-ask-open")
    wall.click(f"#class-quick .segment:nth-child({['choice', 'number', 'slot', 'token'].index(kind) + 1})")
    wall.fill("#class-text", text)
    if kind == "choice":
        for i, option in enumerate(("Block 4", "Block 5")):
            wall.locator("#class-quick input[type=text]").nth(i).fill(option)
    wall.click("#class-ask")
    expect(wall.locator("#class-projector")).to_contain_text(text)


def show(wall: Page, right: str = "") -> None:
    wall.click("#class-show")
    if right and wall.locator("select#class-right").count():
        wall.select_option("#class-right", right)
    elif right:
        wall.locator("#class-right").fill(right)
    wall.click("#class-show-sure")


def test_a_follower_sees_the_wall_follows_it_and_has_no_secret(wall: Page, follow: Follow) -> None:
    phone = follow()
    wait_for_record(phone, 1)
    step(wall)
    wait_for_record(phone, 2)
    wall.locator("#btn-back").click()
    wait_for_record(phone, 1)  # the record that the presenter looks back at
    assert phone.locator("#btn-step").is_hidden()  # nothing that drives
    assert phone.evaluate("document.documentElement.scrollWidth") == 390
    expect(wall.locator(".class-strip-here")).to_have_text("1 here")
    secret = wall.evaluate("Object.values(JSON.parse(localStorage['kvtheater.class']))[0]")
    assert secret not in wall.url and secret not in wall.content()
    state = phone.evaluate(
        "import('/static/js/state/classroom.js').then((s) => JSON.stringify(Object.values(s).map((v) => v?.value)))"
    )
    assert secret not in state and secret not in phone.content()


def test_a_follower_of_a_lesson_requests_no_list_of_lessons(wall: Page, follow: Follow) -> None:
    """Followers have no right to the list, also while a reloaded page enters the class again."""
    phone = follow()
    open_lesson(wall)
    expect(phone.locator("#lesson")).to_be_visible()
    requests: list[str] = []
    phone.on("request", lambda request: requests.append(request.url))
    phone.reload()
    expect(phone.locator("#lesson .lesson-title")).to_be_visible()
    expect(phone.locator(".lesson-home")).to_have_count(0)
    assert not [url for url in requests if url.endswith("/api/lessons")]


def test_followers_look_around_run_labs_and_drive(wall: Page, follow: Follow) -> None:
    """The presenter may hold everyone, and take back the control given to a page or to a phone as remote."""
    page = follow(width=1280, height=800, has_touch=False)
    step(wall, 2)
    wait_for_record(page, 3)
    page.locator("#btn-first").click()
    expect(page.locator("#class-bar")).to_have_attribute("data-roaming", "true")
    step(wall)
    wait_for_record(page, -1)  # alone, the class continues without the follower
    page.click("#class-back")
    wait_for_record(page, 4)
    expect(page.locator("#class-bar")).to_have_attribute("data-roaming", "false")
    desk = open_desk(wall)
    page.locator("#btn-first").click()
    expect(page.locator("#class-bar")).to_have_attribute("data-roaming", "true")
    desk.click("#class-hold")  # a follower who has left the view is brought back
    wait_for_record(page, 4)
    expect(page.locator("#class-wander")).to_have_count(0)
    page.locator("#btn-first").click()
    wait_for_record(page, 4)
    expect(page.locator("#class-bar")).to_have_attribute("data-roaming", "false")
    desk.click("#class-hold")
    expect(page.locator("#class-wander")).to_have_count(1)

    desk.click("#class-labs")
    expect(desk.locator(".class-labs")).to_contain_text("0 of")
    page.click("#class-self")
    page.click("#class-lab")
    expect(page.locator("#class-lab")).to_have_text("End my run")
    page.click(".side-close")
    expect(page.locator("#class-bar")).to_have_attribute("data-roaming", "true")
    wait_for_record(page, -1)
    prefill(page, "Once upon a time")
    step(wall)
    wait_for_record(page, 1)
    page.click("#class-back")
    wait_for_record(page, 5)
    expect(desk.locator(".class-labs")).to_contain_text("1 of")

    phone = follow()
    press(desk, phone, "remote")
    phone.click("#class-press-next")
    wait_for_record(wall, 6)
    desk.click("#class-teacher-next")
    wait_for_record(wall, 7)
    press(desk, page, "hand")
    expect(page.locator("#class-bar")).to_contain_text("You drive")
    step(page)
    wait_for_record(wall, 8)
    assert wall.locator("#btn-step").is_hidden()
    wall.click("#class-take-back")
    expect(page.locator("#class-bar")).to_contain_text("With the class")
    step(wall)
    wait_for_record(page, 9)


@pytest.fixture
def come_in(open_page: OpenPage, wall: Page) -> Follow:
    """Open a newcomer's page, by the address of the QR code or with the typed code."""

    def opened(typed: bool = False, **options: Any) -> Page:
        way = wall.evaluate(JOIN)
        if typed:
            code = way.removeprefix("/j/").partition(".")[0]
            page = open_page("/j/", opening=True, until="#code", **{**PHONE, **options})
            page.fill("#code", code.upper())
            page.keyboard.press("Enter")
            page.wait_for_selector("#class-bar, #opening")
            return page
        return open_page(way, opening=True, until="#class-bar, #opening", **{**PHONE, **options})

    return opened


def follows(page: Page) -> None:
    """Check that the page is in the class at its current view, without the film or the tour over it."""
    expect(page.locator("#class-bar")).to_have_attribute("data-roaming", "false")
    expect(page.locator("#opening, #tour")).to_have_count(0)


def is_on_top(page: Page, selector: str) -> bool:
    """Whether an element is the topmost one at its middle and near its corners."""
    found: bool = page.locator(selector).first.evaluate(
        """(element) => {
          const { left, top, width, height } = element.getBoundingClientRect();
          return [[0.5, 0.5], [0.03, 0.1], [0.97, 0.1], [0.03, 0.9], [0.97, 0.9]].every(([x, y]) =>
            element.contains(document.elementFromPoint(left + x * width, top + y * height)));
        }"""
    )
    return found


def test_a_newcomer_sees_the_classs_question_on_top(wall: Page, come_in: Follow) -> None:
    """Followers join by link or code, on a phone or a laptop, before or during the question, or from another view."""
    early = [come_in(), come_in(typed=True), come_in(width=1366, height=768, has_touch=False)]
    for page in early:
        follows(page)
        wait_for_record(page, 1)
    early[1].click("#class-self")  # what may lie over the page
    early[2].click("#class-wander")
    early[2].evaluate(GO_TO_LOOK)
    expect(early[2].locator("#intro")).to_be_visible()
    expect(early[2].locator("#intro-opening")).to_have_count(0)
    ask(wall)
    late = come_in(typed=True)
    follows(late)
    for page in (*early, late):
        expect(page.locator("#class-sheet")).to_be_visible()
        assert is_on_top(page, "#class-sheet")
        page.click(".class-option >> nth=0")
    expect(wall.locator(".class-counted")).to_have_text("4 of 4 have answered")


def test_a_follower_in_another_view_has_the_lessons_question_too(wall: Page, come_in: Follow) -> None:
    """The question has its options although the page left before the lesson was loaded."""
    phone = come_in()
    phone.click("#class-self")
    phone.click("#class-seat-wander")
    expect(phone.locator("#class-bar")).to_have_attribute("data-roaming", "true")
    open_lesson(wall)
    ask_lesson(wall)
    late = come_in(locale="zh-CN")
    for page in (phone, late):
        expect(page.locator("#class-sheet .class-option")).to_have_count(
            wall.locator(".class-projector-options li").count()
        )
        assert is_on_top(page, "#class-sheet")
    expect(phone.locator("#class-asked")).to_have_text(wall.locator("#class-projector-asked").inner_text())
    expect(late.locator("#class-asked")).to_contain_text(re.compile("[\u4e00-\u9fff]"))


@pytest.mark.parametrize("view_mode", ["intro", "present", "workspace", "lesson"])
def test_refusals_are_shown_uncovered(wall: Page, come_in: Follow, view_mode: str) -> None:
    for page in (come_in(), come_in(width=1280, height=720, has_touch=False)):
        page.evaluate(ROAM)
        page.evaluate(f"{SETTINGS}.then(({{ settings }}) => {{ settings.viewMode.value = '{view_mode}' }})")
        page.evaluate("import('/static/js/state/store.js').then((store) => store.toast('Refused.', 'error'))")
        expect(page.locator(".toast.error")).to_be_visible()
        assert is_on_top(page, ".toast.error"), page.viewport_size
    ask(wall)
    expect(page.locator("#class-sheet")).to_be_visible()
    assert is_on_top(page, ".toast.error")


# a button that the class's bar lies over, wherever the page is scrolled
COVERED = """() => [...document.querySelectorAll('#app button, #app a, #app input, #app select')].filter((one) => {
  if (!one.checkVisibility() || one.closest('.class-bar, .class-strip')) return false;
  one.scrollIntoView({ block: 'center', behavior: 'instant' });
  const { left, top, width, height } = one.getBoundingClientRect();
  return width > 0 && [0.1, 0.5, 0.9].some((y) => document.elementFromPoint(left + width / 2, top + y * height)
    ?.closest('.class-bar, .class-strip'));
}).map((one) => one.id || one.outerHTML.slice(0, 80))"""


@pytest.mark.parametrize("view_mode", ["intro", "present", "workspace", "lesson"])
@pytest.mark.parametrize("size", [{"width": 1280, "height": 720}, PHONE], ids=["wall", "phone"])
def test_the_class_column_covers_nothing_of_the_page(open_page: OpenPage, view_mode: str, size: dict[str, Any]) -> None:
    """The bar of presenter and followers, and the side content, each have space of their own."""
    wall = teach(open_page)
    resize(wall, size["width"], size["height"])
    wall.evaluate("import('/static/js/control/actions.js').then(({ step }) => step())")
    follower = open_page(wall.evaluate(JOIN), until="#class-bar", **size)
    follower.evaluate(ROAM)
    lesson = "'pages'" if view_mode == "lesson" else "null"
    for page in (wall, follower):
        page.evaluate(
            f"{SETTINGS}.then(({{ settings }}) => {{"
            f" settings.lesson.value = {lesson}; settings.viewMode.value = '{view_mode}' }})"
        )
        wait_until_still(page)
    for page in (wall, follower):
        expect(page.locator("#app > :first-child:not(.class-bar, .class-strip)")).to_be_visible()
    if view_mode == "lesson":
        expect(wall.locator(".question")).not_to_have_count(0)
    for page in (wall, follower):
        if size is not PHONE or view_mode == "intro":  # else the page scrolls below what stays
            assert overlapping(page, "#app") == []
        if size is not PHONE or view_mode != "workspace":  # all of it is in the window at once
            assert page.evaluate("document.documentElement.scrollHeight <= innerHeight + 1")
        assert page.evaluate(COVERED) == []
    wall.click("#class-ask-open")
    side = wall.locator("#class-ask-side").bounding_box()
    assert side
    buttons = wall.locator(".opening-head button:visible, .header button:visible").all()
    for box in (one.bounding_box() for one in buttons):
        assert box
        is_below = side["y"] >= box["y"] + box["height"]
        is_covered = side["y"] <= box["y"] and side["x"] <= box["x"]
        assert is_below or is_covered or side["x"] >= box["x"] + box["width"], (box, side)
    bar = wall.locator("#class-strip").bounding_box()
    assert bar and side["y"] + side["height"] <= bar["y"] + 1


def test_the_address_of_the_teacher_view_shows_the_run_to_all_but_the_presenter(
    wall: Page, follow: Follow, open_page: OpenPage
) -> None:
    expect(open_page("/?distance=desk").locator("#region-stage")).to_be_visible()
    desk, follower = open_desk(wall), follow()
    follower.goto(desk.url)
    expect(follower.locator("#class-bar")).to_be_visible()
    expect(follower.locator("#region-stage")).to_be_visible()
    expect(desk.locator("#class-teacher")).to_be_visible()


def test_the_teachers_first_page_is_the_start_of_a_class(open_page: OpenPage) -> None:
    """The first page offers the class that `serve --class --help` describes, in a browser without any stored state."""
    page = open_page("/?teach=1", opening=True, until="#class-start, #opening")
    expect(page.locator("#class-open")).to_be_visible()
    expect(page.locator("#opening, #tour")).to_have_count(0)
    page.click("#class-open")
    expect(page.locator("#class-join")).to_be_visible()
    page.keyboard.press("Escape")
    prefill(page)
    expect(page.locator("#opening, #tour")).to_have_count(0)


def test_closed_doors_refuse_newcomers_and_admit_members_again(wall: Page, follow: Follow, open_page: OpenPage) -> None:
    phone = follow()
    desk = open_desk(wall)
    desk.click(".class-origins summary")
    expect(desk.locator(".class-origins li")).to_have_text("127.0.0.x: 1, 1 here now")
    desk.click("#class-admission")
    expect(desk.locator(".class-admission")).to_contain_text("No new followers are admitted.")
    outside = open_page(wall.evaluate(JOIN), until="form", **PHONE)
    expect(outside.locator("body")).to_contain_text("The presenter has closed the doors of this class.")
    phone.reload()
    expect(phone.locator("#class-bar")).to_be_visible()
    desk.click("#class-admission")
    expect(desk.locator("#class-admission")).to_have_text("Close the doors")
    outside.goto(wall.evaluate(f"{JOIN}.then((join) => location.origin + join)"))
    expect(outside.locator("#class-bar")).to_be_visible()


def open_desk(wall: Page) -> Page:
    """Open the presenter's own screen in a second window of the same browser."""
    with wall.context.expect_page() as opened:
        wall.click("#class-teacher-open")
    desk = opened.value
    desk.wait_for_selector("#class-teacher")
    return desk


def press(desk: Page, follower: Page, what: str) -> None:
    """Press a presenter's button for the follower of the page `follower`."""
    person = desk.locator(".class-person", has_text=follower.locator(".class-self-name").inner_text())
    person.locator(f"[data-do={what}]").click()


def test_numbers_slots_and_not_sure_are_answers(wall: Page, follow: Follow) -> None:
    phones = [follow(), follow(width=360, height=640)]
    for kind, text, given, shown in (("number", "How many?", "2.5", "2.5"), ("slot", "Where?", "17", "slot 17")):
        ask(wall, kind, text)
        phones[0].fill("#class-answer-input", given)
        phones[0].click(".class-field .primary")
        phones[1].click(".class-unsure")
        expect(wall.locator(".class-counted")).to_have_text("2 of 2 have answered")
        show(wall, given)
        for page in (wall, phones[0]):
            expect(page.locator(".class-tally tr[data-right=true]")).to_contain_text(shown)
        expect(phones[1].locator(".class-tally tr[data-mine=true]")).to_contain_text("Not sure yours")


@pytest.mark.parametrize("kind", ["choice", "lesson"])
def test_a_second_vote_starts_without_answers_for_all(wall: Page, come_in: Follow, kind: str) -> None:
    """Every follower must answer again, on a phone, a laptop, or away from the view; the same answer counts again, and
    an unanswered question is not shown as answered.
    """
    phone, laptop, away, idle = come_in(), come_in(width=1366, height=768, has_touch=False), come_in(), come_in()
    away.evaluate(ROAM)
    if kind == "lesson":
        open_lesson(wall)
        expect(laptop.locator(".question")).not_to_have_count(0)
        ask_lesson(wall)
    else:
        ask(wall)
    everybody = [phone, laptop, away, idle]
    for page in everybody:
        page.click(".class-option >> nth=1")
        expect(page.locator(".class-in")).to_contain_text("Your answer is in")
    desk = open_desk(wall)
    expect(desk.locator(".class-counted")).to_have_text("4 of 4 have answered")
    wall.click("#class-to-talk")
    for page in everybody:
        expect(page.locator("#class-sheet")).to_contain_text("neighbour", ignore_case=True)
        says_nothing_of_a_change_that_cannot_be_made(page)
    wall.click("#class-to-again")
    for page in everybody:
        expect(page.locator("#class-sheet")).to_contain_text("Second vote")
        expect(page.locator(".class-option[aria-pressed=true], .class-unsure[data-given=true]")).to_have_count(0)
        assert is_on_top(page, "#class-sheet")
    expect(desk.locator(".class-counted")).to_have_text("0 of 4 have answered")
    for n, page in enumerate((phone, laptop, away), 1):
        page.click(".class-option >> nth=1")
        expect(page.locator(".class-option[aria-pressed=true]")).to_have_count(1)
        expect(desk.locator(".class-counted")).to_have_text(f"{n} of 4 have answered")
    expect(idle.locator(".class-in")).to_have_text("")
    wall.click("#class-to-closed")
    for page in everybody:
        says_nothing_of_a_change_that_cannot_be_made(page)
    show(wall, "" if kind == "lesson" else "1")
    for page in everybody[:3]:
        expect(page.locator(".class-tally tr[data-mine=true]")).to_have_count(1)
    expect(idle.locator("#class-sheet")).to_contain_text("did not vote the second time")
    expect(idle.locator(".class-tally tr[data-mine=true]")).to_have_count(0)
    expect(idle.locator(".verdict[data-right=true]")).to_have_count(0)
    desk.click(".class-after summary")
    with desk.expect_download() as download:
        desk.click("[data-file='answers.csv']")
    table = csv.DictReader(io.StringIO(download.value.path().read_text(encoding="utf-8-sig")))
    votes = [(row["Round"], row["Answer"]) for row in table if row["Answer"]]
    first, second = ([answer for number, answer in votes if number == one] for one in ("1", "2"))
    assert len(first) == 4 and len(second) == 3 and len({*first, *second}) == 1


def test_a_class_of_eight_goes_through_a_lesson_and_every_count_is_right(wall: Page, come_in: Follow) -> None:
    """The presenter chooses a lesson and asks its question on the desk, and sees the counts there before the class
    does. A third of the phones reload between the votes, half repeat their answer, one has left the view, one does not
    answer.
    """
    phones = [come_in(typed=n % 2 == 1) for n in range(8)]
    phones[7].evaluate(ROAM)
    desk = open_desk(wall)
    desk.select_option("#class-lesson", "not-yet")
    expect(wall.locator(".article")).to_be_visible()
    desk.click("#class-teacher-next")  # the prompt is submitted
    expect(wall.locator(".question")).to_have_count(1)
    desk.click("#class-ask-lesson")
    expect(wall.locator("#class-projector")).to_be_visible()
    assert is_on_top(wall, "#class-projector") and not is_on_top(wall, ".question")  # the question is shown there once
    figure = wall.locator(".lesson-stage").bounding_box()
    question = wall.locator("#class-projector").bounding_box()
    assert figure and question and question["x"] + question["width"] <= figure["x"] + 1
    first, second = [1, 3, 1, 3, 2, 2, 1, 0], [1, 3, 1, 3, 2, 2, 2]
    for phone, option in zip(phones, first, strict=True):
        phone.click(f".class-option >> nth={option}")
    expect(desk.locator(".class-counted")).to_have_text("8 of 8 have answered")
    assert counts(desk, 0) == [1, 3, 2, 2]
    expect(wall.locator(".class-tally")).to_have_count(0)
    desk.click("#class-to-talk")
    for phone in phones:
        expect(phone.locator("#class-sheet")).to_contain_text("neighbour", ignore_case=True)
    for phone in phones[::3]:
        phone.reload()
    desk.click("#class-to-again")
    for phone in phones:
        expect(phone.locator("#class-sheet")).to_contain_text("Second vote")
        expect(phone.locator(".class-option")).to_have_count(4)
        expect(phone.locator(".class-option[aria-pressed=true], #opening, #tour")).to_have_count(0)
        assert is_on_top(phone, "#class-sheet")
    for n, (phone, option) in enumerate(zip(phones, second, strict=False), 1):
        phone.click(f".class-option >> nth={option}")
        expect(desk.locator(".class-counted")).to_have_text(f"{n} of 8 have answered")
    assert [counts(desk, 0), counts(desk, 1)] == [[1, 3, 2, 2], [0, 2, 3, 2]]
    assert all(phone.locator(".class-tally").count() == 0 for phone in phones)
    show(desk)
    for phone in phones:
        expect(phone.locator(".class-tally tr")).to_have_count(5)
        assert [counts(phone, 0), counts(phone, 1)] == [[1, 3, 2, 2], [0, 2, 3, 2]]
    desk.click(".class-after summary")
    assert is_in_the_window(desk, "[data-file='answers.csv']")
    rows = csv.DictReader(io.StringIO(taken(desk, "answers.csv")))
    answers = [(row["Round"], row["Answer"], row["Right"]) for row in rows if row["Answer"]]
    labels = ["0", "1", "15", "16"]
    for number, votes in (("1", first), ("2", second)):
        expected = sorted((labels[option], str(int(option == 2))) for option in votes)
        assert sorted((answer, right) for one, answer, right in answers if one == number) == expected
    desk.click("#class-end")
    desk.click("#class-end-sure")
    expect(wall.locator("#class-strip")).to_contain_text("The class is over")
    expect(wall.locator("#class-projector, #class-take-back, .class-corner")).to_have_count(0)
    expect(desk.locator("#class-teacher")).to_contain_text("The class is over")
    assert "Round" in taken(desk, "answers.csv")
    desk.click("#class-leave")
    expect(desk.locator("#intro")).to_be_visible()


def counts(page: Page, round_: int) -> list[int]:
    """Return the number of answers for each option in the table."""
    return [int(text.split()[0]) for text in page.locator(f"[data-round='{round_}'] .num").all_inner_texts()]


def is_in_the_window(page: Page, selector: str) -> bool:
    box = page.locator(selector).bounding_box()
    return bool(box and box["y"] >= 0 and box["y"] + box["height"] <= page.evaluate("innerHeight"))


def taken(desk: Page, name: str) -> str:
    """Return a file that the presenter downloads."""
    with desk.expect_download() as download:
        desk.click(f"[data-file='{name}']")
    return download.value.path().read_text(encoding="utf-8-sig")


def says_nothing_of_a_change_that_cannot_be_made(page: Page) -> None:
    expect(page.locator(".class-option, .class-field")).to_have_count(0)
    assert "change" not in page.locator("#class-sheet").inner_text().lower()
    assert not page.locator(".question").get_by_text("change").count()


def test_reloads_and_a_locked_phone_keep_seat_answer_and_place(wall: Page, follow: Follow) -> None:
    """Either side may reload in the middle of a question; the server is queried again, as after a changed network."""
    phone = follow()
    ask(wall)
    phone.click(".class-option >> nth=1")
    name = phone.locator(".class-self-short").inner_text()
    phone.reload()
    expect(phone.locator(".class-option[aria-pressed=true]")).to_contain_text("Block 5")
    assert phone.locator(".class-self-short").inner_text() == name
    wall.reload()
    expect(wall.locator("#class-projector")).to_contain_text("Which block is next?")
    wait_for_record(wall, 1)
    step(wall)
    wait_for_record(phone, 2)
    wall.click("#class-to-talk")
    wall.click("#class-to-again")
    expect(phone.locator(".class-option")).not_to_have_count(0)
    phone.reload()  # a seat that has not answered in this round is not shown as having answered
    expect(phone.locator(".class-option")).not_to_have_count(0)
    expect(phone.locator("[aria-pressed=true].class-option, .class-unsure[data-given=true]")).to_have_count(0)
    phone.click(".class-option >> nth=1")
    phone.evaluate("import('/static/js/net/session.js').then((it) => { window.session = it.session; })")
    phone.context.set_offline(True)
    phone.evaluate("session.client.socket.io.engine.close()")
    wall.click("#class-to-closed")
    phone.context.set_offline(False)
    expect(phone.locator("#class-sheet")).to_contain_text("The answers are in", timeout=10_000)
    show(wall)
    expect(phone.locator(".class-tally tr[data-mine=true]")).to_contain_text("Block 5")
    expect(wall.locator(".class-strip-here")).to_have_text("1 here")


TOKENS = ("the-first-of-two-tokens", "the-second-of-two-tokens")
NOTE_TOASTS = """() => {
  window.toasts = [];
  new MutationObserver(() => toasts.push(...document.querySelectorAll("#toasts .toast.error")))
    .observe(document.body, { subtree: true, childList: true });
}"""
NOTED = "[...new Set(toasts.map((one) => one.innerText))]"


def test_followers_see_a_stopped_server_and_the_end_of_the_class(open_page: OpenPage, tmp_path: Path) -> None:
    server = RestartableServer(TOKENS[0], tmp_path)
    try:
        wall = teach(open_page, f"{server.url}/?token={TOKENS[0]}")
        prefill(wall)
        phone = open_page(server.url + wall.evaluate(JOIN), until="#class-bar", **PHONE)
        wait_for_record(phone, 1)
        wall.evaluate(NOTE_TOASTS)
        server.stop()
        expect(wall.locator("#notice")).to_contain_text("The server was stopped.")
        expect(phone.locator("#class-bar")).to_contain_text("Not connected")
        assert wall.evaluate(NOTED) == []
        expect(phone.locator("#notice")).to_have_text("The 2 records of this run are still here to read.")
        expect(phone.locator("#btn-again")).to_have_count(0)
        server.start()
        expect(phone.locator("#class-bar")).to_contain_text("the server was restarted", timeout=30_000)
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("before", "after", "is_stored"), [("", "", True), (TOKENS[0], TOKENS[0], False), (TOKENS[0], TOKENS[1], False)]
)
def test_a_class_ends_with_a_killed_server_and_both_sides_say_so(
    open_page: OpenPage, tmp_path: Path, before: str, after: str, is_stored: bool
) -> None:
    """Phones have a pass and no token. What the presenter had stored can be downloaded, and a new class opened."""
    server = RestartableServer(before, tmp_path)
    try:
        wall = teach(open_page, f"{server.url}/?token={before}")
        prefill(wall)
        phone = open_page(server.url + wall.evaluate(JOIN), until="#class-bar", **PHONE)
        ask(wall)
        phone.click(".class-option >> nth=1")
        expect(phone.locator(".class-in")).to_contain_text("in")
        desk = open_desk(wall)
        expect(desk.locator(".class-person")).to_have_count(1)
        if is_stored:
            desk.click(".class-after summary")
            desk.click("#class-keep")
            expect(desk.locator(".class-after")).to_contain_text("Kept on this server until")
        pages = (wall, desk, phone)
        for page in pages:
            page.evaluate(NOTE_TOASTS)
        server.kill()
        phone.click("#class-aside")
        expect(phone.locator("#class-bar")).to_contain_text("as long as it runs")
        server.token = after
        server.start()
        expect(phone.locator("#class-bar")).to_contain_text("the server was restarted", timeout=30_000)
        expect(phone.locator("#class-bar")).to_contain_text("what the presenter had stored")
        assert phone.evaluate("document.documentElement.scrollWidth") == 390
        expect(phone.locator("#class-sheet")).to_have_count(0)
        if after != before:
            for page in pages[:2]:
                expect(page.locator("#notice")).to_contain_text("asks for a token", timeout=30_000)
            wall.context.new_page().goto(f"{server.url}/?token={after}")
        expect(wall.locator("#class-strip")).to_contain_text("the server was restarted", timeout=30_000)
        expect(desk.locator("#class-teacher")).to_contain_text("the server was restarted", timeout=30_000)
        wall.wait_for_timeout(500)  # a view is sent to the class 100 ms after the connect
        assert [page.evaluate(NOTED) for page in pages] == [[], [], []]
        if is_stored:
            expect(desk.locator("#class-teacher")).to_contain_text("is on the server until")
            with desk.expect_download() as download:
                desk.click("[data-file='answers.csv']")
            assert "Block 5" in download.value.path().read_text(encoding="utf-8-sig")
        else:
            expect(desk.locator("#class-teacher")).to_contain_text("none were stored")
        desk.click("#class-another")
        desk.click("#class-open")
        expect(desk.locator("#class-join")).to_be_visible()
        if after:
            phone.reload()  # its pass is not valid any more, and it has no token
            expect(phone.get_by_role("alert")).to_contain_text("The class has ended or the server was restarted")
            phone.fill("#code", code_of(desk))
            phone.click("button")
            expect(phone.locator("#class-bar")).to_be_visible()
            return
        phone.click("#class-leave")
        expect(phone.locator("#class-bar")).to_have_count(0)
    finally:
        server.kill()


def code_of(page: Page) -> str:
    """Code of the class that `page` presents."""
    return str(page.evaluate(JOIN)).rpartition("/")[2].partition(".")[0]


def test_a_class_begins_at_the_address_of_serve_class_until_the_server_does_not_know_it(open_page: OpenPage) -> None:
    """The explanation after a server's restart is shown to the presenter, not to a follower looking for a seat."""
    page = open_page("/?teach=1")
    expect(page.locator("#class-open")).to_be_visible()
    page.click("#class-open")
    expect(page.locator("#class-join")).to_contain_text("kvtheater serve --class")  # this server is its machine's alone
    page.keyboard.press("Escape")
    expect(page.locator("#class-strip")).to_be_visible()
    wait_until(page, "!location.search.includes('teach')")
    page.evaluate(
        """async () => {
        const { classState } = await import('/static/js/state/classroom.js');
        const { storeSecret } = await import('/static/js/net/classroom.js');
        const { session } = await import('/static/js/net/session.js');
        storeSecret(classState.value.id, 'of-before'.repeat(4));
        session.client.socket.io.engine.close();
    }"""
    )
    expect(page.locator("#toasts")).to_contain_text("This class is gone")
    expect(page.locator("#class-strip")).to_have_count(0)
    expect(page).not_to_have_url(re.compile("class="))


def test_the_desk_shows_lost_followers_exports_results_and_ends_the_class(wall: Page, follow: Follow) -> None:
    """Results of a class are stored only on request; removed members, and those present at its end, are notified."""
    phone = follow()
    phone.click("#class-lost")
    expect(phone.locator("#class-lost")).to_have_attribute("aria-pressed", "true")
    ask(wall)
    phone.click(".class-option >> nth=1")
    expect(phone.locator(".class-in")).to_contain_text("in")
    desk = open_desk(wall)
    expect(desk.locator(".class-lost-line")).to_contain_text("1 time")
    expect(wall.locator("#class-strip")).not_to_contain_text("lost", ignore_case=True)
    desk.click(".class-after summary")
    for name, words in (
        ("answers.csv", "Block 5"),
        ("questions.csv", "Which block is next?"),
        ("page.html", "<!doctype"),
    ):
        with desk.expect_download() as download:
            desk.click(f"[data-file='{name}']")
        text = download.value.path().read_text(encoding="utf-8-sig")
        assert words.lower() in text.lower()
    expect(desk.locator(".class-after")).to_contain_text("Nothing of this class is stored")
    desk.click("#class-keep")
    expect(desk.locator(".class-after")).to_contain_text("Kept on this server until")
    desk.click("#class-unkeep")
    expect(desk.locator(".class-after")).to_contain_text("Nothing of this class is stored")
    press(desk, phone, "away")
    expect(phone.locator("#toasts")).to_contain_text("taken your seat away")
    expect(phone.locator("#class-bar")).to_have_count(0)
    phone = follow()
    desk.click("#class-end")
    desk.click("#class-end-sure")
    expect(phone.locator("#class-bar")).to_contain_text("The class is over")
    phone.click("#class-leave")
    expect(phone.locator("#class-bar")).to_have_count(0)


def test_next_alone_leads_a_class_through_a_lesson_and_on_to_the_next_one(wall: Page, follow: Follow) -> None:
    """Next asks each question, ends the lesson at its free part, and opens the next. Phones read in their languages."""
    phone, late = follow(), follow(locale="zh-CN", color_scheme="dark")
    desk = open_desk(wall)
    desk.select_option("#class-lesson", "asked-once")
    expect(wall.locator(".lesson-title")).to_have_text("Queries are asked once")
    expect(late.locator(".lesson-title")).to_have_text("查询只问一次")
    num_questions = 0
    while wall.locator(".lesson-sandbox").count() == 0:
        before = desk.locator(".class-teacher-now").inner_text()
        desk.click("#class-teacher-next")
        if "a question" in before:
            expect(wall.locator("#class-projector")).to_be_visible()
            expect(desk.locator("#class-teacher-next")).to_be_disabled()  # the answers lead on
            expect(desk.locator(".class-notes-next")).to_have_text("The class is answering. Show the answers to go on.")
            phone.click(f".class-option >> nth={num_questions % 2}")
            show(desk)
            num_questions += 1
            expect(phone.locator("#class-sheet .class-tally")).to_be_visible()
        expect(desk.locator(".class-teacher-now")).not_to_have_text(before, use_inner_text=True)
    assert num_questions == 3
    for page in (wall, phone, late):
        expect(page.locator(".question[data-over=true]")).to_have_count(num_questions)
    expect(phone.locator("#lesson-answer, .question input")).to_have_count(0)
    own = phone.locator(".question .answer[data-given=true]")
    expect(own).to_have_count(num_questions)
    expect(phone.locator("#class-sheet")).to_be_visible()
    desk.click("#class-teacher-next")
    expect(wall.locator(".lesson-over")).to_be_visible()
    expect(wall.locator("#class-projector")).to_have_count(0)  # the answers do not cover what comes next
    for page in (phone, late):
        expect(page.locator("#class-sheet, #class-question")).to_have_count(0)  # the class has gone on
        expect(page.locator(".lesson-over")).to_be_visible()
        expect(page.locator(".lesson-over button")).to_have_count(0)
    assert wall.locator(".toast.error").count() == 0
    expect(desk.locator(".class-notes-next")).to_have_text("The lesson is over. Next: Compute or bandwidth")
    phone.reload()
    expect(own).to_have_count(num_questions)
    desk.click("#class-teacher-next")
    expect(wall.locator(".lesson-title")).to_have_text("Compute or bandwidth")
    expect(late.locator(".lesson-title")).to_have_text("等计算，还是等内存")


def test_next_shows_the_engines_operations_where_everybody_is_the_allocator(wall: Page, follow: Follow) -> None:
    phone, desk = follow(), open_desk(wall)
    desk.select_option("#class-lesson", "pages.yours")
    expect(wall.locator("#lesson-title")).to_be_visible()
    expect(phone.locator("#lesson-title")).to_be_visible()
    notes = desk.locator(".class-notes-next")
    expect(notes).to_have_text("Next: a new run")
    desk.click("#class-teacher-next")
    expect(notes).to_contain_text("a question to the class")
    desk.click("#class-teacher-next")
    show(desk)
    expect(notes).to_contain_text("Everybody is the allocator")
    expect(wall.locator(".work .desk")).to_be_visible()
    assert [page.locator(".toast").count() for page in (wall, desk, phone)] == [0, 0, 0]  # the run was restarted
    desk.click("#class-teacher-next")
    expect(wall.locator(".work-result")).to_contain_text("What the engine did")
    expect(phone.locator(".work-result")).to_be_visible()
    expect(notes).not_to_contain_text("Everybody is the allocator")


def test_a_minimized_question_covers_no_button(wall: Page, follow: Follow) -> None:
    phone = follow()
    phone.evaluate(ROAM)
    ask(wall)
    phone.click("#class-aside")
    for view_mode in ("workspace", "intro", "present"):
        phone.evaluate(f"{SETTINGS}.then(({{ settings }}) => {{ settings.viewMode.value = '{view_mode}' }})")
        wait_until_still(phone)
        for button in phone.locator(":is(.commands, .intro-controls, .class-bar) button:visible").all():
            name = button.get_attribute("id")
            assert name == "class-self" or is_on_top(phone, f"#{name}"), (view_mode, name)  # which is round
        assert overlapping(phone, "#class-bar") == []
    phone.click("#class-question")
    expect(phone.locator("#class-sheet")).to_be_visible()


def test_a_guest_who_leaves_a_class_sends_no_refused_request(open_page: OpenPage, tmp_path: Path) -> None:
    """The guest comes to the page where the code of the next class is typed."""
    server = RestartableServer(TOKENS[0], tmp_path)
    try:
        wall = teach(open_page, f"{server.url}/?token={TOKENS[0]}")
        phone = open_page(server.url + wall.evaluate(JOIN), until="#class-bar", **PHONE)
        wall.evaluate(f"{SETTINGS}.then(({{ settings }}) => {{ settings.viewMode.value = 'lesson' }})")
        expect(phone.locator("#lesson")).to_be_visible()
        refused: list[str] = []
        phone.on("response", lambda response: refused.append(response.url) if response.status >= 400 else None)
        desk = open_desk(wall)
        desk.click("#class-end")
        desk.click("#class-end-sure")
        phone.click("#class-leave")
        expect(phone.locator("#code")).to_be_visible()
        assert refused == []
    finally:
        server.kill()


def test_the_film_is_shown_to_all_at_once_and_to_latecomers(open_page: OpenPage) -> None:
    wall = open_page("/")
    wall.click("#btn-teach")
    wall.click("#class-open")
    phone = open_page(wall.evaluate(JOIN), until="#class-bar", **PHONE)
    wall.click("#class-film")
    for page in (wall, phone):
        expect(page.locator("#opening")).to_have_attribute("data-beat", "next")
    wall.keyboard.press("ArrowRight")
    late = open_page(wall.evaluate(JOIN), until="#class-bar", locale="zh-CN", **PHONE)
    for page in (phone, late):
        expect(page.locator("#opening")).to_have_attribute("data-beat", "ask")
        expect(page.locator("#opening-skip, .opening-controls")).to_have_count(0)
    phone.keyboard.press("ArrowRight")  # it is the presenter's
    ask(wall)
    phone.click("#class-sheet .class-option >> nth=0")
    wall.click("#opening-skip")
    for page in (phone, late):
        expect(page.locator("#opening")).to_have_count(0)
        expect(page.locator("#stage-text")).to_be_visible()
    assert wall.evaluate(SETTING, "viewMode") == "present"


@pytest.mark.parametrize(("scheme", "locale"), [("light", "en-US"), ("dark", "zh-CN")])
def test_both_sides_of_a_class_pass_axe(open_page: OpenPage, scheme: str, locale: str) -> None:
    found: dict[str, list[str]] = {}
    wall = open_with_axe(open_page, "/", color_scheme=scheme, locale=locale, width=1280, height=720)
    wall.click("#btn-teach")
    wall.wait_for_selector("#class-open")
    found["start"] = violations(wall)
    wall.click("#class-open")
    wall.wait_for_selector("#class-join")
    found["door"] = violations(wall)
    wall.click("#class-begin")
    wall.click("#btn-step")
    options = {**PHONE, "color_scheme": scheme, "locale": locale}
    phone = open_with_axe(open_page, wall.evaluate(JOIN), until="#class-bar", **options)
    wait_for_record(phone, 1)
    found["phone"] = violations(phone)
    ask(wall)
    phone.wait_for_selector("#class-sheet")
    found["asked, phone"] = violations(phone)
    found["asked, wall"] = violations(wall)
    phone.click(".class-option >> nth=0")
    desk = open_desk(wall)
    desk.add_script_tag(path=str(AXE))
    desk.wait_for_selector(".class-person")
    found["desk"] = violations(desk)
    show(wall)
    phone.wait_for_selector(".class-tally")
    found["shown, phone"] = violations(phone)
    found["shown, wall"] = violations(wall)
    fail_on_violations(found)


def test_a_class_works_by_keyboard(wall: Page, follow: Follow) -> None:
    """A follower answers and says that they are lost; the presenter shows what came of it."""
    page = follow(width=1280, height=800, has_touch=False)
    ask(wall)
    expect(page.locator("#class-sheet")).to_be_focused()
    page.keyboard.press("Tab")  # put aside
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".class-option >> nth=0")).to_have_attribute("aria-pressed", "true")
    page.locator("#class-lost").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#class-lost")).to_have_attribute("aria-pressed", "true")
    wall.locator("#class-show").focus()
    wall.keyboard.press("Enter")
    wall.locator("#class-show-sure").focus()
    wall.keyboard.press("Enter")
    expect(page.locator(".class-tally")).to_be_visible()


def test_a_question_on_the_wall_is_large_and_nothing_overlaps(open_page: OpenPage) -> None:
    """Important text is at least 24 px high on a wall of 1280 x 720, and its contrast at least 7:1."""
    wall = teach(open_page, width=1280, height=720)
    prefill(wall)
    ask(wall)
    inside = """() => {
      const frame = document.querySelector('.stage').getBoundingClientRect();
      return [...document.querySelectorAll('.stage > *')].every((one) =>
        one.getBoundingClientRect().bottom <= frame.bottom + 1);
    }"""
    wait_until(wall, f"({inside})()")
    expect(wall.locator(".region.detail")).to_be_hidden()
    sizes = wall.evaluate(
        "[...document.querySelectorAll('#class-projector h2, #class-projector li, .class-counted, .class-code')]"
        ".map((e) => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert len(sizes) >= 5 and min(sizes) >= 24
    contrast = wall.evaluate("""() => {
      const light = (colour) => {
        const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
          .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const wall = document.querySelector('#class-projector');
      const a = light(getComputedStyle(wall.querySelector('h2')).color);
      const b = light(getComputedStyle(wall).backgroundColor);
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    }""")
    assert contrast >= 7
