"""Load test of a class: a presenter and forty phones in real browsers go through a whole lesson.

    python -m tests.load.class_pages --phones 40 --lesson not-yet [--pictures FOLDER]

Every question of the lesson is put to the class in two rounds; half of the phones repeat their answer. In each round a
third of the phones are loaded again, lose their network for a while, or are locked (their socket is closed under them).
Fails when a phone ends at another record or item, or a count on any page differs from what the phones gave. Prints
JSON: the counts of each question, seconds to come in, to see a step, and to be back in the question.
"""

import argparse
import json
import random
import statistics
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.own_server import own_server

ROOT = Path(__file__).resolve().parent.parent.parent
CLASS = "import('/static/js/state/classroom.js').then((s) => "
WHERE = (
    "Promise.all(['state/classroom', 'state/lessons', 'state/store'].map((m) => import(`/static/js/${m}.js`))).then("
    "([c, l, s]) => ({poll: c.classState.value?.poll?.id ?? null, phase: c.classState.value?.poll?.phase ?? null,"
    " at: l.currentLesson.value?.progress.at ?? null, records: s.own.numRecords.value,"
    " given: c.ownSeat.value?.answers ?? null, roaming: c.roaming.value}))"
)
SESSION = "import('/static/js/net/session.js').then(({ session }) => session)"
CUT = f"{SESSION}.then((session) => session.client.socket.io.engine.close())"
PATIENCE = 60.0  # seconds


class Failed(AssertionError):
    """A phone is not where the class is."""


def until(page: Page, condition: Any, what: str) -> float:
    """Return the seconds until `condition` holds for the page."""
    began = time.monotonic()
    while not condition(page.evaluate(WHERE)):
        if time.monotonic() - began > PATIENCE:
            raise Failed(f"{what}: {page.evaluate(WHERE)}")
        page.wait_for_timeout(50)
    return time.monotonic() - began


def phone(browser: Browser, address: str, number: int) -> Page:
    size = [(390, 844), (360, 640), (412, 915)][number % 3]
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        has_touch=True,
        locale="zh-CN" if number % 2 else "en-US",
        color_scheme="dark" if number % 5 == 0 else "light",
        reduced_motion="reduce" if number % 4 == 0 else "no-preference",
    )
    context.add_init_script("localStorage.setItem('kvtheater.opening','seen')")
    page = context.new_page()
    page.goto(address, wait_until="commit")
    return page


def disturb(page: Page, how: str) -> None:
    """Disturb a phone in the middle of a question."""
    if how == "reload":
        page.reload(wait_until="commit")
    elif how == "lock":
        page.evaluate(CUT)
    else:
        page.evaluate(f"{SESSION}.then(() => null)")  # while it can be fetched
        page.context.set_offline(True)
        page.evaluate(CUT)


def hold_class(browser: Browser, url: str, options: argparse.Namespace) -> dict[str, Any]:
    """Go through the whole lesson."""
    chance = random.Random(options.seed)
    wall = browser.new_page(viewport={"width": 1280, "height": 720}, locale=options.locale)
    wall.add_init_script("for (const k of ['opening','tour']) localStorage.setItem('kvtheater.' + k, 'done')")
    wall.goto(f"{url}/?teach=1")
    wall.click("#class-open", timeout=60_000)
    wall.wait_for_selector("#class-join")
    join = url + wall.evaluate(CLASS + "s.presenting.value.join)")
    phones, came = [], []
    for number in range(options.phones):
        began = time.monotonic()
        page = phone(browser, join, number)
        page.wait_for_selector("#class-bar", timeout=60_000)
        came.append(time.monotonic() - began)
        phones.append(page)
    shoot(options, wall, phones, "door")
    wall.click("#class-begin")
    wall.evaluate(
        "(lesson) => import('/static/js/state/settings.js').then(({ settings }) => {"
        " settings.lesson.value = lesson; settings.viewMode.value = 'lesson' })",
        options.lesson,
    )
    wall.wait_for_selector(".article")
    seen, back = [], []
    asked_of: list[dict[str, Any]] = []
    for _ in range(60):
        wall.wait_for_timeout(300)
        if wall.locator(".lesson-over").count():
            break
        poll = wall.evaluate(CLASS + "s.classState.value.poll)")
        if wall.locator("#lesson-answer").count() and not (poll and poll["phase"] != "shown"):
            more, found = question(options, wall, phones, chance, len(asked_of))
            back += more
            asked_of.append(found)
        elif wall.locator("#work-unsure").count():
            wall.click("#work-unsure")
        elif wall.locator("#lesson-go").count():
            seen += go_on(wall, phones)
    end = wall.evaluate(WHERE)
    for i, page in enumerate(phones):
        until(page, lambda now: (now["at"], now["records"]) == (end["at"], end["records"]), f"phone {i} at the end")
    shoot(options, wall, phones, "end")
    return {
        "phones": len(phones),
        "lesson": options.lesson,
        "locale": options.locale,
        "questions": asked_of,
        "records": end["records"],
        "to come in, s": spread(came),
        "to see a step after the wall, s": spread(seen),
        "to be back in the question, s": spread(back),
    }


def go_on(wall: Page, phones: list[Page]) -> list[float]:
    """Perform the lesson's next action. Returns the seconds from the wall's update to each phone's."""
    before = wall.evaluate(WHERE)["at"]
    wall.click("#lesson-go")
    until(wall, lambda now: now["at"] != before or wall.locator(".lesson-over").count(), "the wall goes on")
    wall.wait_for_selector("#lesson[aria-busy=false]")  # an action that prepares the run goes on to the next by itself

    def is_along(now: dict[str, Any]) -> bool:
        return bool(now["at"] == wall.evaluate(WHERE)["at"])

    return [until(page, is_along, f"phone {i} goes on") for i, page in enumerate(phones)]


def question(
    options: argparse.Namespace, wall: Page, phones: list[Page], chance: random.Random, number: int
) -> tuple[list[float], dict[str, Any]]:
    """Ask the lesson's question in two rounds: half of the phones repeat their answer, a third are disturbed in each.

    Returns the seconds to be back in the question, and the counts of the question.
    """
    wall.click("#class-ask-open")
    wall.click("#class-ask-lesson")
    until(wall, lambda now: now["phase"] == "open", "the question is open")
    poll: int = wall.evaluate(WHERE)["poll"]
    back = vote(options, wall, phones, chance, (poll, 0))
    wall.click("#class-to-talk")
    for i, page in enumerate(phones):
        until(page, lambda now: (now["poll"], now["phase"]) == (poll, "talk"), f"phone {i} talks")
    wall.click("#class-to-again")
    back += vote(options, wall, phones, chance, (poll, 1))
    shoot(options, wall, phones, f"asked-{number}")
    wall.click("#class-show")
    wall.click("#class-show-sure")
    for i, page in enumerate(phones):
        until(page, lambda now: (now["poll"], now["phase"]) == (poll, "shown"), f"phone {i} is shown")
    found = [counts(page) for page in (wall, *phones)]
    expected = [counted(wall, phones, number_of) for number_of in (0, 1)]
    if any(one != expected for one in found):
        raise Failed(f"counts differ: expected {expected}, the wall and the phones have {found}")
    shoot(options, wall, phones, f"shown-{number}")
    wall.click("#class-projector-close")
    return back, {"poll": poll, "rounds": expected, "equal on": len(found)}


def vote(
    options: argparse.Namespace, wall: Page, phones: list[Page], chance: random.Random, question: tuple[int, int]
) -> list[float]:
    """Hold one round of a question. A third of the phones are disturbed before or after they answer."""
    poll, in_round = question
    unlucky = [i for i in range(len(phones)) if chance.random() < 1 / 3]
    disturbed = {i: chance.choice(["reload", "lock", "off"]) for i in unlucky}
    early = {i for i in disturbed if chance.random() < 0.5}
    phase = "again" if in_round else "open"
    back: list[float] = []
    for i, page in enumerate(phones):
        if i in early:
            disturb(page, disturbed[i])
            page.context.set_offline(False)
        back_after = until(page, lambda now: (now["poll"], now["phase"]) == (poll, phase), f"phone {i} is asked")
        if i in early:
            back.append(back_after)
        page.locator(".class-option").nth(choice(page, i, question)).click(timeout=30_000)
        until(page, lambda now: has_answered(now, question), f"phone {i} has answered round {in_round}")
    for i in disturbed.keys() - early:
        disturb(phones[i], disturbed[i])
        phones[i].context.set_offline(False)
    for i in disturbed.keys() - early:
        back.append(until(phones[i], lambda now: has_answered(now, question), f"phone {i} is back with its answer"))
    answered, began = 0, time.monotonic()
    while answered != len(phones) and time.monotonic() - began < 10:
        answered = wall.evaluate(CLASS + "s.attendance.value.answered)")
        wall.wait_for_timeout(200)
    if answered != len(phones):
        raise Failed(f"{answered} of {len(phones)} answers were counted in round {in_round}")
    return back


def choice(page: Page, number: int, question: tuple[int, int]) -> int:
    """Return the option that a phone gives: half keep theirs in the second round, the others take the next one."""
    poll, in_round = question
    page.locator(".class-option").first.wait_for(timeout=30_000)
    return (number + poll + (in_round if number % 2 else 0)) % page.locator(".class-option").count()


def has_answered(now: dict[str, Any], question: tuple[int, int]) -> bool:
    poll, in_round = question
    return now["poll"] == poll and any(
        one["poll"] == poll and one["has"][in_round] for one in now["given"] or [] if len(one["has"]) > in_round
    )


def counts(page: Page) -> list[list[int]]:
    """Return the number of answers for each option in each round, from the page's state."""
    tallies = page.evaluate(CLASS + "s.classState.value.poll.tallies)")
    return [[one["count"] for one in tally["answers"]] for tally in tallies]


def counted(wall: Page, phones: list[Page], in_round: int) -> list[int]:
    """Return the counts from the seats: the answers that each phone reports."""
    tallies = wall.evaluate(CLASS + "s.classState.value.poll.tallies)")[in_round]["answers"]
    given = [page.evaluate(WHERE)["given"] for page in phones]
    poll = wall.evaluate(WHERE)["poll"]
    own = [one["given"][in_round] for each in given for one in each if one["poll"] == poll]
    return [own.count(one["value"]) for one in tallies]


def spread(found: list[float]) -> dict[str, float]:
    ordered = sorted(found) or [0.0]
    return {
        "median": round(statistics.median(ordered), 2),
        "p95": round(ordered[int(0.95 * (len(ordered) - 1))], 2),
        "most": round(ordered[-1], 2),
    }


def shoot(options: argparse.Namespace, wall: Page, phones: list[Page], name: str) -> None:
    """Take screenshots of both sides, if requested."""
    if options.pictures is None:
        return
    options.pictures.mkdir(parents=True, exist_ok=True)
    for role, page in (("wall", wall), *((f"phone{i}", page) for i, page in enumerate(phones[:3]))):
        page.screenshot(path=options.pictures / f"{name}-{role}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phones", type=int, default=40)
    parser.add_argument("--lesson", default="not-yet")
    parser.add_argument("--locale", default="en-US", help="of the projector; half of the phones have each language")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    with own_server("--enforce-eager") as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        print(json.dumps(hold_class(browser, url, options), indent=2))
        browser.close()


if __name__ == "__main__":
    main()
