"""A recording shows what the live page showed: every element of the stage and its panels at the same position."""

from playwright.sync_api import expect

from tests.browser.driving import OpenPage

# not the switch of the lens, which asks a live model
PLACES = """() => [...document.querySelectorAll(
    '#region-stage *, .matrix .panel-canvas, .overview *, .candidate, .candidate > *, #region-memory *')]
  .filter((e) => e.checkVisibility() && !e.closest('.candidate-take, .candidate-token, .gutter-lens-switch'))
  .map((e) => { const r = e.getBoundingClientRect();
    return [e.className.baseVal ?? e.className, r.left, r.top, r.width, r.height].join(' '); })"""


def test_a_replay_opens_at_the_live_runs_record(open_page: OpenPage) -> None:
    live = open_page("/?max_tokens=12&ignore_eos=1&n=2&temperature=1&seed=5")
    live.click("#btn-prefill")
    expect(live.locator("html")).to_have_attribute("data-painted", "1")
    for step in range(2, 6):
        live.click("#btn-step")
        expect(live.locator("html")).to_have_attribute("data-painted", str(step))
    trace = live.request.get(live.evaluate("document.querySelector('#btn-download').href")).body()
    address = live.url.split("?")[0] + "api/recordings?name=walk"
    kept = live.request.post(address, data=trace, headers={"Content-Type": "application/octet-stream"}).json()
    replay = open_page(f"/?recording={kept['id']}&step=5", connection="replay")
    expect(replay.locator("html")).to_have_attribute("data-painted", "5")
    for page in (live, replay):
        expect(page.locator(".candidate")).to_have_count(5)  # as many as can be read in this window
        page.mouse.move(2, 2)
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("Home")  # the token row follows what one walks through: both walk the same way
        for record in range(6):
            page.keyboard.press("ArrowRight")
            expect(page.locator("html")).to_have_attribute("data-view-index", str(record))
        page.wait_for_timeout(300)
    before, after = live.evaluate(PLACES), replay.evaluate(PLACES)
    assert len(before) > 150
    assert [place for place in before if place not in after] == []
