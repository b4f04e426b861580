"""Fault museum on the page: an exhibit runs beside its healthy twin, and either can go on the stage."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from app.scenes.museum import EXHIBITS
from app.scenes.scene_texts import scene_texts
from tests.browser.axe import fail_on_violations, open_with_axe, violations
from tests.browser.driving import OpenPage
from tests.browser.settling import theater_of, wait_for_value

OWN = "import('/static/js/state/run.js').then(({ own }) => own.numRecords.value)"


def run_to_the_end(page: Page) -> None:
    expect(page.locator("#museum")).to_have_attribute("data-phase", "ready")
    if page.locator("#speed").is_hidden():
        page.click("#btn-transport-more")
    page.select_option("#speed", "0")
    page.click("#btn-run")
    expect(page.locator("#museum")).to_have_attribute("data-phase", "done", timeout=90_000)


def record_of(page: Page, step: int) -> int:
    """Return the record of a step of the run on the stage."""
    script = """([at]) => import('/static/js/state/store.js').then(({ log }) =>
      log.value.records.findIndex((record) => record.kind === 'step' && record.step === at))"""
    return int(page.evaluate(script, [step]))


def look(page: Page, step: int) -> None:
    page.locator("#scrubber").evaluate(
        "(e, record) => { e.value = record; e.dispatchEvent(new Event('input', {bubbles: true})) }",
        record_of(page, step),
    )
    expect(page.locator("#museum")).to_have_attribute("data-step", str(step))


def theaters_of(page: Page) -> list[dict[str, Any]]:
    """Return the newest sessions of the museum, the healthy one and the faulty one."""
    theaters = page.evaluate("fetch('/api/theaters').then((r) => r.json())")["theaters"]
    return [next(t for t in reversed(theaters) if t["name"] == f"museum: {lane}") for lane in ("healthy", "faulty")]


def records_of(page: Page, theater: dict[str, Any]) -> list[dict[str, Any]]:
    path = f"/api/theaters/{theater['theater']}/records"
    found: list[dict[str, Any]] = page.evaluate(
        """([path, count]) => Promise.all(Array.from({length: count}, (_, i) =>
             fetch(`${path}/${i}?format=json`).then((r) => r.json())))""",
        [path, theater["status"]["num_records"]],
    )
    return found


def test_an_exhibit_is_chosen_run_and_explained_by_keyboard(open_page: OpenPage) -> None:
    page = open_page("/?detail=museum")
    expect(page.locator(".museum-exhibit")).to_have_count(len(EXHIBITS))
    expect(page.locator(".museum-choose")).to_contain_text("Choose one")
    exhibit = next(exhibit for exhibit in EXHIBITS if exhibit.id == "stale_hash_after_reallocation")
    page.locator(f"#exhibit-{exhibit.id}").press("Enter")
    expect(page.locator("#museum-wrong")).to_contain_text(scene_texts("museum", exhibit)["text"]["en"])
    expect(page).to_have_url(re.compile(f"exhibit={exhibit.id}"))
    run_to_the_end(page)
    assert page.evaluate(OWN) == 0  # the page's own run is left alone
    healthy, faulty = (records_of(page, theater) for theater in theaters_of(page))
    assert not any(record["integrity"] for record in healthy)
    (objected, *_) = [record["step"] for record in faulty if record["integrity"]]
    expect(page.locator('[data-notice="books"]')).to_have_attribute("data-found", str(objected))

    page.locator('[data-notice="log"] button').press("Enter")  # a witness leads to its step
    expect(page.locator("#museum")).to_have_attribute("data-step", "33")  # 16 tokens for each of two requests before
    expect(page.locator("#sentence")).to_contain_text("no longer holds what the lookup found")
    expect(page.locator('[data-fact="foreign"][data-lane="faulty"]')).to_have_count(1)
    expect(page.locator('.museum-text[data-seq="2"] .museum-seq')).to_have_attribute("aria-pressed", "true")
    expect(page.locator('[data-notice="keys"]')).to_have_attribute("data-found", "33")
    page.locator('.museum-text[data-seq="0"] .museum-seq').press("Enter")
    expect(page.locator('.museum-text[data-seq="0"] .museum-seq')).to_have_attribute("aria-pressed", "true")


def test_another_exhibit_reuses_the_same_runs(open_page: OpenPage) -> None:
    page = open_page("/?detail=museum&exhibit=stale_hash_after_reallocation")
    expect(page.locator("#museum")).to_have_attribute("data-phase", "ready")
    page.click("#btn-step")
    expect(page.locator("#museum")).to_have_attribute("data-step", "1")
    before = [theater["theater"] for theater in theaters_of(page)]
    page.click("#exhibit-missing_causal_mask")
    expect(page.locator("#sentence")).to_contain_text("Both engines have the same")
    page.click("#btn-step")
    expect(page.locator("#museum")).to_have_attribute("data-step", "1")
    now = theaters_of(page)
    assert [theater["theater"] for theater in now] == before
    configs = [theater["config"] for theater in now]
    assert [config["fault"] for config in configs] == [None, "missing_causal_mask"]
    assert {config["max_num_seqs"] for config in configs} == {16}  # the exhibit before had 1
    assert page.locator('[data-rows="healthy"]').get_attribute("data-above") == "0"
    assert float(page.locator('[data-rows="faulty"]').get_attribute("data-above") or 0) > 0.5
    page.go_back()
    expect(page.locator("#exhibit-stale_hash_after_reallocation")).to_have_attribute("aria-pressed", "true")


def test_open_on_the_stage_follows_the_faulty_run_under_a_badge(open_page: OpenPage) -> None:
    page = open_page("/?detail=museum&exhibit=missing_causal_mask")
    own = theater_of(page)
    expect(page.locator("#museum")).to_have_attribute("data-phase", "ready")
    for step in (1, 2):
        page.click("#btn-step")
        expect(page.locator("#museum")).to_have_attribute("data-step", str(step))
    look(page, 1)
    expect(page.locator("#museum-lane-faulty")).to_have_attribute("aria-pressed", "true")
    page.click("#museum-open")
    expect(page.locator("#fault-badge")).to_have_attribute("data-fault", "missing_causal_mask")
    expect(page.locator("#fault-badge")).to_contain_text("fault put in on purpose")
    expect(page.locator("html")).to_have_attribute("data-num-records", "2")  # the request and the step that is shown
    page.locator(".not-causal").click()  # the worst weight is held: its chain begins at a query before the key
    expect(page.locator(".provenance")).to_contain_text(re.compile(r"with weight 0\.[5-9]"))
    expect(page).to_have_url(re.compile(rf"theater=(?!{own})"))
    theater = theater_of(page)
    viewers = f"""fetch('/api/theaters').then((r) => r.json()).then(({{theaters}}) =>
      ['{own}', '{theater}'].map((id) => theaters.find((t) => t.theater === id).status.viewers))"""
    wait_for_value(page, viewers, [0, 1])  # a session without viewers can make room

    replay = open_page(f"/?recording=/api/theaters/{theater}/trace&detail=museum", connection="replay")
    expect(replay.locator("#fault-badge")).to_have_attribute("data-fault", "missing_causal_mask")
    for panel in ("museum", "race"):
        replay.click(f"#detail-{panel}")
        expect(replay.locator(f"#{panel}-nothing")).to_contain_text("needs live runs")

    page.click("#fault-badge")
    expect(page.locator("#museum")).to_have_attribute("data-exhibit", "missing_causal_mask")
    expect(page.locator("#museum-open")).to_be_enabled()
    page.click("#museum-lane-healthy")
    page.click("#museum-open")
    expect(page.locator("#fault-badge")).to_have_count(0)
    page.click("#detail-attention")
    expect(page.locator(".matrix .panel-foot")).to_have_text("query ↓ · key → · row to its max")

    page.goto(page.url.split("?")[0] + "?fault=missing_causal_mask")
    expect(page.locator("#fault-badge")).to_be_visible()
    page.select_option("#scene", index=1)  # a scene is of a healthy engine
    page.click("#btn-scene")
    expect(page.locator("#fault-badge")).to_have_count(0)


@pytest.mark.parametrize(
    ("width", "scheme", "locale"), [(1280, "light", "en-US"), (1280, "dark", "zh-CN"), (390, "light", "zh-CN")]
)
def test_the_museum_passes_axe_and_its_layout_holds(open_page: OpenPage, width: int, scheme: str, locale: str) -> None:
    page = open_with_axe(
        open_page,
        "/?detail=museum&region=detail&exhibit=no_copy_at_shared_write",
        width=width,
        height=844,
        color_scheme=scheme,
        locale=locale,
        has_touch=width < 720,
    )
    run_to_the_end(page)
    look(page, 3)
    fail_on_violations({"museum": violations(page)})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    if width > 720:
        return
    expect(page.locator(".transport")).to_be_visible()
    lines = page.evaluate(
        """[...document.querySelectorAll('.museum-notice.found')].map((e) =>
          [e.querySelector('dt'), e.querySelector('.museum-go'), e.querySelector('.museum-notice-text')]
            .map((part) => part.getBoundingClientRect().toJSON()))"""
    )
    assert lines
    for actor, when, what in lines:  # who and when in one line, what below, over its whole width
        assert when["top"] <= actor["top"] and actor["bottom"] <= when["bottom"]
        assert what["top"] >= when["bottom"] and what["left"] == actor["left"] and what["right"] == when["right"]
