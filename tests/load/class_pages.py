"""A class as it is held: a presenter and forty phones in real browsers go through a whole lesson.

    python -m tests.load.class_pages --phones 40 --lesson not-yet [--pictures FOLDER]

Every question of the lesson is put to the class. While it is open a third of the phones are loaded again, lose their
network for a while, or are locked (their socket is closed under them). Fails when a phone ends at another record, item
or answer than it should. Prints JSON: seconds to come in, to see a step, and to be back in the question.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.conftest import ARGUMENTS, CHROMIUM

ROOT = Path(__file__).resolve().parent.parent.parent
CLASS = "import('/static/js/state/classroom.js').then((s) => "
WHERE = (
    "Promise.all(['state/classroom', 'state/lessons', 'state/store'].map((m) => import(`/static/js/${m}.js`))).then("
    "([c, l, s]) => ({poll: c.told.value?.poll?.id ?? null, phase: c.told.value?.poll?.phase ?? null,"
    " at: l.opened.value?.progress.at ?? null, records: s.own.numRecords.value,"
    " given: c.mine.value?.answers ?? null, roaming: c.roaming.value}))"
)
SESSION = "import('/static/js/net/session.js').then(({ session }) => session)"
CUT = f"{SESSION}.then((session) => session.client.socket.io.engine.close())"
PATIENCE = 60.0  # seconds


class Failed(AssertionError):
    """A phone is not where the class is."""


def until(page: Page, condition: Any, what: str) -> float:
    """Seconds until `condition` of where the page is holds."""
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
    """The whole lesson."""
    chance = random.Random(options.seed)
    wall = browser.new_page(viewport={"width": 1280, "height": 720})
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
    seen, back, wrong = [], [], 0
    questions = 0
    for _ in range(60):
        wall.wait_for_timeout(300)
        if wall.locator(".lesson-over").count():
            break
        asked = wall.evaluate(CLASS + "s.told.value.poll)")
        if wall.locator("#lesson-answer").count() and not (asked and asked["phase"] != "shown"):
            back += question(options, wall, phones, chance, questions)
            questions += 1
        elif wall.locator("#lesson-go").count():
            seen += go_on(wall, phones)
    end = wall.evaluate(WHERE)
    for i, page in enumerate(phones):
        until(page, lambda now: (now["at"], now["records"]) == (end["at"], end["records"]), f"phone {i} at the end")
        given = page.evaluate(WHERE)["given"]
        wrong += [one["given"][0] for one in given] != [(i + n) % 2 for n in range(questions)]
    shoot(options, wall, phones, "end")
    if wrong:
        raise Failed(f"{wrong} phones have other answers than they gave")
    return {
        "phones": len(phones),
        "questions": questions,
        "records": end["records"],
        "to come in, s": spread(came),
        "to see a step after the wall, s": spread(seen),
        "to be back in the question, s": spread(back),
    }


def go_on(wall: Page, phones: list[Page]) -> list[float]:
    """The lesson's next action. Returns the seconds after the wall in which each phone is there too."""
    before = wall.evaluate(WHERE)["at"]
    wall.click("#lesson-go")
    until(wall, lambda now: now["at"] != before or wall.locator(".lesson-over").count(), "the wall goes on")
    at = wall.evaluate(WHERE)["at"]
    return [until(page, lambda now: now["at"] == at, f"phone {i} goes on") for i, page in enumerate(phones)]


def question(
    options: argparse.Namespace, wall: Page, phones: list[Page], chance: random.Random, number: int
) -> list[float]:
    """Ask what the lesson asks; a third are disturbed before or after they answer. Returns seconds to be back."""
    wall.click("#class-ask-open")
    wall.click("#class-ask-lesson")
    poll = until(wall, lambda now: now["phase"] == "open", "the question is open") and wall.evaluate(WHERE)["poll"]
    unlucky = [i for i in range(len(phones)) if chance.random() < 1 / 3]
    disturbed = {i: chance.choice(["reload", "lock", "off"]) for i in unlucky}
    early = {i for i in disturbed if chance.random() < 0.5}
    back: list[float] = []
    for i, page in enumerate(phones):
        if i in early:
            disturb(page, disturbed[i])
            page.context.set_offline(False)
            back.append(until(page, lambda now: (now["poll"], now["phase"]) == (poll, "open"), f"phone {i} is back"))
        box = page.locator(".question[data-over=false] .answer").nth((i + number) % 2)
        box.scroll_into_view_if_needed(timeout=30_000)
        box.click(timeout=30_000)
        page.click("#lesson-answer")
        until(page, lambda now: any(one["poll"] == poll for one in now["given"] or []), f"phone {i} has answered")
    for i in disturbed.keys() - early:
        disturb(phones[i], disturbed[i])
        phones[i].context.set_offline(False)
    shoot(options, wall, phones, f"asked-{number}")
    for i in disturbed.keys() - early:
        back.append(
            until(
                phones[i],
                lambda now: now["poll"] == poll and any(one["poll"] == poll for one in now["given"] or []),
                f"phone {i} is back with its answer",
            )
        )
    counted = wall.evaluate(CLASS + "s.desk.value.answered)")
    began = time.monotonic()
    while counted != len(phones) and time.monotonic() - began < 10:
        wall.wait_for_timeout(200)
        counted = wall.evaluate(CLASS + "s.desk.value.answered)")
    if counted != len(phones):
        raise Failed(f"{counted} of {len(phones)} answers were counted")
    wall.click("#class-show")
    wall.click("#class-show-sure")
    for i, page in enumerate(phones):
        until(page, lambda now: (now["poll"], now["phase"]) == (poll, "shown"), f"phone {i} is shown")
    tally = wall.evaluate(CLASS + "s.told.value.poll.tallies[0])")
    if sum(one["count"] for one in tally["answers"]) != len(phones):
        raise Failed(f"the tally has other answers than were given: {tally}")
    shoot(options, wall, phones, f"shown-{number}")
    wall.click("#class-projector-close")
    return back


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
    for who, page in (("wall", wall), *((f"phone{i}", page) for i, page in enumerate(phones[:3]))):
        page.screenshot(path=options.pictures / f"{name}-{who}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phones", type=int, default=40)
    parser.add_argument("--lesson", default="not-yet")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    command = [sys.executable, "-m", "app", "serve", "--enforce-eager", "--port", "0"]
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    try:
        url = ""
        for line in server.stdout or ():
            url = url or next((word.rstrip("/") for word in line.split() if word.startswith("http://")), "")
            if " is ready on " in line:
                break
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            print(json.dumps(hold_class(browser, url, options), indent=2))
            browser.close()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
