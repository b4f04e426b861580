"""The fault museum on the page: each exhibit shows its fault, the healthy lane none, and both can go on the stage."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args
from unittest.mock import Mock

import pytest
from playwright.sync_api import Page, expect

from app.scenes.museum import EXHIBITS
from app.scenes.told import told
from engine.config import FaultName
from tests.browser.dropping import drop_recording
from tests.browser.recording import recorded
from tests.browser.settling import comes_to, theater_of

OpenPage = Callable[..., Page]
AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
CAUSES = {  # what the panel says of the cause, at the step at which it first shows
    "slot_off_by_one": (1, "moved"),
    "no_copy_at_shared_write": (2, "shared_write"),
    "stale_hash_after_reallocation": (33, "foreign"),
    "output_lost_at_preemption": (11, "forgotten"),
    "missing_causal_mask": (1, "above"),
    "rope_restarted_at_chunk": (2, "turned"),
}
OBJECTED = {"no_copy_at_shared_write", "stale_hash_after_reallocation"}


def run_to_the_end(page: Page) -> None:
    page.select_option("#museum-speed", "0")
    page.click("#museum-run")
    expect(page.locator("#museum")).to_have_attribute("data-phase", "done", timeout=90_000)


def look(page: Page, step: int) -> None:
    page.locator("#museum-look").evaluate(
        "(e, step) => { e.value = step; e.dispatchEvent(new Event('input', {bubbles: true})) }", step
    )
    expect(page.locator("#museum")).to_have_attribute("data-step", str(step))


def noticed(page: Page, who: str) -> str:
    """The step at which this witness noticed, or "" when it did not."""
    return page.locator(f'[data-notice="{who}"]').get_attribute("data-found") or ""


def records_of(page: Page, lane: str) -> list[dict[str, Any]]:
    """The records of the newest theater of this lane, as the server has them."""
    theaters = page.evaluate("fetch('/api/theaters').then((r) => r.json())")["theaters"]
    theater = [one for one in theaters if one["name"] == f"museum: {lane}"][-1]
    path = f"/api/theaters/{theater['theater']}/records"
    found: list[dict[str, Any]] = page.evaluate(
        """([path, count]) => Promise.all(Array.from({length: count}, (_, i) =>
             fetch(`${path}/${i}?format=json`).then((r) => r.json())))""",
        [path, theater["status"]["num_records"]],
    )
    return found


def test_every_fault_has_a_cause_to_show() -> None:
    assert list(CAUSES) == list(get_args(FaultName))


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: exhibit.id)
def test_an_exhibit_shows_its_fault_and_the_healthy_lane_none(open_page: OpenPage, exhibit: Any) -> None:
    page = open_page(f"/?detail=museum&exhibit={exhibit.id}")  # the link opens it
    expect(page.locator(f"#exhibit-{exhibit.id}")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#museum-wrong")).to_contain_text(told("museum", exhibit)["text"]["en"])
    run_to_the_end(page)
    assert page.locator("html").get_attribute("data-num-records") == "0"  # the page's own run is left alone

    healthy, faulty = records_of(page, "healthy"), records_of(page, "faulty")
    assert not any(record["integrity"] for record in healthy)
    objections = [record["step"] for record in faulty if record["integrity"]]
    assert noticed(page, "books") == (str(objections[0]) if objections else "")
    assert bool(objections) == (exhibit.id in OBJECTED)

    assert noticed(page, "tokens")
    assert page.locator(".museum-text .race-column.first").count() >= 1
    assert "≠" in page.locator(".race-column.first").first.inner_text()
    step, cause = CAUSES[exhibit.id]
    look(page, step)
    expect(page.locator(f'[data-fact="{cause}"][data-lane="faulty"]')).to_have_count(1)
    if step > 1:
        look(page, step - 1)
        expect(page.locator(f'[data-fact="{cause}"]')).to_have_count(0)
    said = page.locator("#museum-sentence").inner_text()
    assert said.startswith(f"Step {max(1, step - 1)}:")
    assert page.locator('.museum-fact.fault[data-lane="healthy"]').count() == 0


def test_a_preemption_is_told_with_its_counts(open_page: OpenPage) -> None:
    page = open_page("/?detail=museum&exhibit=output_lost_at_preemption")
    run_to_the_end(page)
    look(page, CAUSES["output_lost_at_preemption"][0] - 1)
    told = page.locator('[data-fact="preempt"]')
    expect(told).to_have_count(2)  # what it costs differs
    for lane in told.all_inner_texts():
        assert "20 computed tokens given up" in lane  # 12 of its prompt and the 8 that one of the two forgets


def test_a_witness_leads_to_its_step(open_page: OpenPage) -> None:
    page = open_page("/?detail=museum&exhibit=stale_hash_after_reallocation")
    run_to_the_end(page)
    page.locator('[data-notice="log"] button').press("Enter")
    expect(page.locator("#museum")).to_have_attribute("data-step", "33")
    expect(page.locator("#museum-sentence")).to_contain_text("block 0 no longer holds what the lookup found")
    expect(page.locator('[data-fact="lookup"][data-lane="faulty"]')).to_contain_text("has 12 of 16 tokens")
    expect(page.locator('[data-fact="lookup"][data-lane="healthy"]')).to_contain_text("miss")
    expect(page.locator('.museum-text[data-seq="2"] .museum-seq')).to_have_attribute("aria-pressed", "true")
    page.locator('.museum-text[data-seq="0"] .museum-seq').press("Enter")
    expect(page.locator('.museum-text[data-seq="0"] .museum-seq')).to_have_attribute("aria-pressed", "true")


def test_the_faulty_prefill_fills_the_square(open_page: OpenPage) -> None:
    page = open_page("/?detail=museum&exhibit=missing_causal_mask")
    page.click("#museum-step")
    expect(page.locator("#museum")).to_have_attribute("data-step", "1")
    assert page.locator('[data-rows="healthy"]').get_attribute("data-above") == "0"
    assert float(page.locator('[data-rows="faulty"]').get_attribute("data-above") or 0) > 0.5
    expect(page.locator("#museum-keys-most")).to_contain_text("Largest:")


def test_the_stage_draws_the_later_keys_that_a_query_read(open_page: OpenPage) -> None:
    page = open_page("/?detail=museum&exhibit=missing_causal_mask")
    page.click("#museum-step")
    expect(page.locator("#museum")).to_have_attribute("data-step", "1")
    page.click("#museum-open-faulty")
    expect(page.locator("#fault-badge")).to_be_visible()
    page.click("#detail-attention")
    page.locator(".not-causal").click()  # the worst weight is held: its chain begins at a query before the key
    expect(page.locator(".provenance")).to_contain_text("0.5")
    page.click("#detail-museum")
    page.click("#museum-open-healthy")
    expect(page.locator("#fault-badge")).to_have_count(0)
    page.click("#detail-attention")
    expect(page.locator(".matrix .panel-foot")).to_have_text("query ↓ · key → · row to its max")


def test_pictures_of_a_run_do_not_stay_for_another_of_the_same_second(
    open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.engine.datetime", Mock(now=Mock(return_value=datetime(2026, 1, 1, tzinfo=UTC))))
    page = open_page("/?detail=attention")
    drop_recording(page, recorded(tmp_path / "faulty.kvtrace", 12, "missing_causal_mask"))
    expect(page.locator(".not-causal")).to_be_visible()
    drop_recording(page, recorded(tmp_path / "healthy.kvtrace", 12, None))
    expect(page.locator(".matrix .panel-foot")).to_have_text("query ↓ · key → · row to its max")


def test_a_row_that_read_later_keys_is_not_told_of_the_next_run(open_page: OpenPage, tmp_path: Path) -> None:
    """The next run is shorter than the row's number."""
    page = open_page("/?detail=attention")
    drop_recording(page, recorded(tmp_path / "faulty.kvtrace", 12, "missing_causal_mask"))
    expect(page.locator(".not-causal")).to_be_visible()
    drop_recording(page, recorded(tmp_path / "short.kvtrace", 2, None))
    expect(page.locator(".matrix .panel-foot")).to_have_text("query ↓ · key → · row to its max")
    expect(page.locator(".matrix .panel-canvas")).to_have_attribute("aria-label", re.compile("2 rows"))


def test_another_exhibit_begins_in_the_same_theaters(open_page: OpenPage) -> None:
    page = open_page("/?detail=museum&exhibit=stale_hash_after_reallocation")
    page.click("#museum-step")
    expect(page.locator("#museum")).to_have_attribute("data-step", "1")
    newest = """fetch('/api/theaters').then((r) => r.json())
      .then((a) => a.theaters.filter((t) => t.name.startsWith('museum: ')).slice(-2))"""
    before = [theater["theater"] for theater in page.evaluate(newest)]
    page.click("#exhibit-rope_restarted_at_chunk")
    expect(page.locator("#museum-sentence")).to_contain_text("two fresh engines")
    page.click("#museum-step")
    expect(page.locator("#museum")).to_have_attribute("data-step", "1")
    now = page.evaluate(newest)
    assert [theater["theater"] for theater in now] == before
    headers = [theater["config"] for theater in now]
    assert [h["fault"] for h in headers] == [None, "rope_restarted_at_chunk"]
    assert {h["max_num_seqs"] for h in headers} == {16}  # the exhibit before had 1
    page.go_back()
    expect(page.locator("#exhibit-stale_hash_after_reallocation")).to_have_attribute("aria-pressed", "true")


def test_open_on_the_stage_follows_the_faulty_run_under_a_badge(open_page: OpenPage) -> None:
    page = open_page("/?detail=museum&exhibit=slot_off_by_one")
    own = theater_of(page)
    for step in (1, 2):
        page.click("#museum-step")
        expect(page.locator("#museum")).to_have_attribute("data-step", str(step))
    page.click("#museum-open-faulty")
    expect(page.locator("#fault-badge")).to_have_attribute("data-fault", "slot_off_by_one")
    expect(page.locator("#fault-badge")).to_contain_text("fault put in on purpose")
    expect(page.locator("html")).to_have_attribute("data-num-records", "3")  # the request and the two steps
    expect(page).to_have_url(re.compile(rf"theater=(?!{own})"))
    theater = theater_of(page)
    viewers = f"""fetch('/api/theaters').then((r) => r.json()).then(({{theaters}}) =>
      ['{own}', '{theater}'].map((id) => theaters.find((t) => t.theater === id).status.viewers))"""
    comes_to(page, viewers, [0, 1])  # what nobody follows any more can make room

    replay = open_page(f"/?recording=/api/theaters/{theater}/trace&detail=museum", connection="replay")
    expect(replay.locator("#fault-badge")).to_have_attribute("data-fault", "slot_off_by_one")
    expect(replay.locator("#museum-nothing")).to_contain_text("needs live runs")

    page.click("#fault-badge")
    expect(page.locator("#museum")).to_have_attribute("data-exhibit", "slot_off_by_one")
    page.click("#museum-open-healthy")
    expect(page.locator("#fault-badge")).to_have_count(0)


def test_a_scene_takes_the_fault_out_again(open_page: OpenPage) -> None:
    page = open_page("/?fault=missing_causal_mask")
    expect(page.locator("#fault-badge")).to_be_visible()
    page.select_option("#scene", index=1)
    page.click("#btn-scene")
    expect(page.locator("#fault-badge")).to_have_count(0)


def test_no_room_is_one_sentence_and_can_be_tried_again(open_page: OpenPage) -> None:
    page = open_page("/?detail=museum&exhibit=slot_off_by_one")
    refuse = """() => {
      const io = globalThis.io;
      globalThis.full = true;
      globalThis.io = (...options) => {
        const socket = io(...options);
        const timeout = socket.timeout.bind(socket);
        const error = {code: 'too_many_theaters', message: 'all 2 theaters of this server are in use'};
        socket.timeout = (ms) => ({
          emit: (event, body, told) => {
            if (globalThis.full && body.name === 'museum: faulty') told(null, {ok: false, error});
            else timeout(ms).emit(event, body, told);
          },
        });
        return socket;
      };
    }"""
    page.evaluate(refuse)
    page.click("#museum-step")
    expect(page.locator("#museum-sentence")).to_contain_text("theaters of this server are in use")
    expect(page.locator("#museum")).to_have_attribute("data-phase", "idle")
    page.evaluate("globalThis.full = false")
    page.click("#museum-step")
    expect(page.locator("#museum")).to_have_attribute("data-step", "1")


def test_the_empty_state_offers_every_exhibit(open_page: OpenPage) -> None:
    page = open_page("/?detail=museum")
    expect(page.locator(".museum-exhibit")).to_have_count(len(EXHIBITS))
    expect(page.locator(".museum-choose")).to_contain_text("Choose one")
    page.focus(f"#exhibit-{EXHIBITS[0].id}")
    page.keyboard.press("Enter")
    expect(page.locator("#museum-wrong")).to_be_visible()
    expect(page).to_have_url(re.compile("exhibit=slot_off_by_one"))


@pytest.mark.parametrize(
    ("width", "scheme", "locale"), [(1280, "light", "en-US"), (1280, "dark", "zh-CN"), (390, "light", "zh-CN")]
)
def test_no_serious_violation(open_page: OpenPage, width: int, scheme: str, locale: str) -> None:
    page = open_page(
        "/?detail=museum&region=detail&exhibit=no_copy_at_shared_write",
        width=width,
        color_scheme=scheme,
        locale=locale,
        bypass_csp=True,
    )
    page.add_script_tag(path=str(AXE))
    run_to_the_end(page)
    look(page, 3)
    found = page.evaluate(
        """async () => (await globalThis.axe.run('#region-detail', {resultTypes: ['violations']})).violations
          .filter((v) => ['serious', 'critical'].includes(v.impact))
          .flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.html.slice(0, 160)} | ${n.failureSummary}`))"""
    )
    assert found == []
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_on_a_phone_the_lanes_have_the_page_and_their_own_controls_alone(open_page: OpenPage) -> None:
    page = open_page(
        "/?detail=museum&region=detail&exhibit=no_copy_at_shared_write", width=390, height=844, has_touch=True
    )
    expect(page.locator("#museum-run")).to_be_visible()
    expect(page.locator(".transport")).to_be_hidden()  # the stage's Run would stand over this one
    run_to_the_end(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    lines = page.evaluate(
        """[...document.querySelectorAll('.museum-notice.found')].map((e) =>
          [e.querySelector('dt'), e.querySelector('.museum-go'), e.querySelector('.museum-notice-text')]
            .map((part) => part.getBoundingClientRect().toJSON()))"""
    )
    assert lines
    for who, when, what in lines:  # who and when in one line, what below, over its whole width
        assert when["top"] <= who["top"] and who["bottom"] <= when["bottom"]
        assert what["top"] >= when["bottom"] and what["left"] == who["left"] and what["right"] == when["right"]
    page.click("#tab-stage")
    expect(page.locator(".transport")).to_be_visible()
