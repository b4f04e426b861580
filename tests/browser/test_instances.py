"""A log of several instances on the page: every panel shows it, with the instance of each item, and bytes are
counted.
"""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from engine.trace.log import TraceReader
from engine.trace.operations import Arrive, Hold, Receive
from engine.trace.records import StepRecord
from tests.browser.driving import OpenPage
from tests.browser.dropping import drop_recording

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "instances.kvtrace"
PANELS = ("attention", "scheduler", "prefix", "requests", "time", "compare", "library")


def records() -> list[StepRecord]:
    with TraceReader(GOLDEN) as log:
        return [log.record(index) for index in range(len(log))]


def first(kind: type) -> int:
    return next(one.index for one in records() if any(isinstance(op, kind) for op in one.ops))


def go_to(page: Page, index: int) -> None:
    page.evaluate("(n) => import('/static/js/state/store.js').then((store) => store.goTo(n))", index)
    expect(page.locator("#position")).to_contain_text(f"{index + 1} of")


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_every_panel_shows_every_record(open_page: OpenPage, size: tuple[int, int]) -> None:
    """An error of any panel fails the test, since `open_page` collects the page's errors."""
    page = open_page(width=size[0], height=size[1])
    drop_recording(page, GOLDEN)
    interesting = {0, first(Hold), first(Receive), *(one.index for one in records() if one.kind == "lost"), 54}
    for panel in PANELS:
        page.evaluate(
            "(name) => import('/static/js/state/settings.js').then((it) => {"
            "it.settings.detail.value = name; it.settings.region.value = 'detail'; })",
            panel,
        )
        expect(page.locator("#detail-panel")).not_to_be_empty()
        for index in sorted(interesting):
            go_to(page, index)
    page.evaluate("import('/static/js/state/settings.js').then((it) => { it.settings.region.value = 'memory'; })")
    for one in records():
        go_to(page, one.index)
        name = ["prefill-0", "decode-0", "mixed-0"][one.instance]
        expect(page.locator("#sentence")).to_contain_text(f"{name}: ")


def test_moved_bytes_and_sequences_that_wait_for_or_hold_blocks_are_shown(open_page: OpenPage) -> None:
    page = open_page()
    drop_recording(page, GOLDEN)
    moved = 0
    for one in records():
        moved += sum(op.num_bytes for op in one.ops if isinstance(op, Arrive))
        if one.index % 6 and one.index not in (first(Receive), first(Receive) - 1):
            continue
        go_to(page, one.index)
        expect(page.locator("#wire b[data-bytes]")).to_have_attribute("data-bytes", str(moved))
    assert moved > 0
    with TraceReader(GOLDEN) as log:
        for index in (first(Hold), first(Receive) - 1, len(log) - 1):
            go_to(page, index)
            state = log.state_at(index)
            for name, queue in (("receiving", state.receiving), ("holding", state.holding)):
                chips = page.locator(f'#wire [data-queue="{name}"] .chip')
                expect(chips).to_have_count(len(queue))
        assert log.state_at(first(Hold)).holding and log.state_at(first(Receive) - 1).receiving


def test_keys_requests_and_pools_name_their_instance(open_page: OpenPage) -> None:
    """A received key leads to the instance that computed it; a request of two instances is one row; each pool has its
    name, and a lost one is marked.
    """
    page = open_page("/?detail=requests", width=1920, height=1080)
    drop_recording(page, GOLDEN)
    rows = page.locator(".requests-table tbody tr[data-seq]")
    expect(rows).to_have_count(6)
    expect(page.locator(".requests-table")).not_to_contain_text("/prefill")
    rows.first.click()
    expect(page.locator(".request-life")).to_contain_text("prefill-0")
    expect(page.locator(".request-life")).to_contain_text("decode-0")

    lost = next(one for one in records() if one.kind == "lost")
    go_to(page, lost.index)
    titles = page.locator(".pool-group")
    expect(titles).to_have_count(6)  # three pools of two kinds of layers
    expect(titles.filter(has_text="decode-0")).to_have_count(2)
    expect(titles.filter(has=page.locator(".group-lost"))).to_have_count(2)
    expect(titles.filter(has=page.locator(".group-lost")).first).to_contain_text("decode-0")

    index = first(Receive)
    [received, *_] = [op for op in records()[index].ops if isinstance(op, Receive)]
    go_to(page, index)
    page.evaluate(
        "([seq, position]) => import('/static/js/state/store.js').then((it) => it.select({ seq, position }))",
        [received.seq_id, received.logical * 4],
    )
    page.locator('#chain [data-kind="moved"] .link-go').click()
    expect(page.locator("#position")).to_contain_text(f"{index + 1} of")
    page.locator('#chain [data-kind="written"] .link-go').click()
    expect(page.locator("#sentence")).to_contain_text("prefill-0: ")


def test_blocks_are_animated_from_pool_to_pool(open_page: OpenPage) -> None:
    """The motion is a function of record and time: half the time, half the way."""
    page = open_page(motion=True)
    drop_recording(page, GOLDEN)
    index = first(Receive)
    pieces = page.evaluate(
        """async (index) => {
          const { log } = await import('/static/js/state/store.js');
          const { motionsOf, receivedBytes, travelling } = await import('/static/js/panels/memory/pool_motion.js');
          const { phaseProgress } = await import('/static/js/state/playhead.js');
          const motions = motionsOf(log.value.stateAt(index - 1), log.value.records[index]);
          const come = [0, 1.2, 6].map((at) => receivedBytes(motions, phaseProgress(at)));
          return [...[0, 1.2, 6].map((at) => travelling(motions, phaseProgress(at))
            .filter((one) => one.kind === 'receive')
            .map(({ src, block, bytes, p }) => [src, block, bytes, p > 0 && p < 1])), come];
        }""",
        index,
    )
    received = {(op.from_block_id, op.block_id, op.num_bytes) for op in records()[index].ops if isinstance(op, Receive)}
    before, between, after, (none, some, every) = pieces
    assert none == 0 < some < every == sum(num_bytes for _, _, num_bytes in received)
    assert before == [] and after == [] and between
    assert all(tuple(piece[:3]) in received and piece[3] for piece in between)
