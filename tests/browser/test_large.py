"""A recording that is too long to load whole is read in pieces, which match the log."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.sync_api import Page, expect

import app.log_index.questions
import app.session.run
from app.ground.settings import ServerSettings
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.server.application import create_app
from app.server.listener import Listener, bind
from engine.simulate.what_if import what_if
from engine.trace.log import TraceReader, TraceWriter
from engine.trace.log_index.log_index import LogIndex
from engine.trace.log_index.make import make
from engine.trace.log_index.sequence_rows import PREEMPTED
from engine.trace.log_index.sequence_table import sequence_table
from engine.trace.operations import Preempt, Submit
from engine.trace.state import State
from tests.browser.axe import AXE, violations
from tests.browser.driving import OpenPage
from tests.load.large_log import Shape, write
from tests.server.conftest import Server

OBSERVED = Path(__file__).parents[1] / "golden" / "observed.kvtrace"
COLUMNS = """() => import('/static/js/net/log_index.js').then(({ shown }) => {
  const now = shown.peek();
  return now && { at: now.at, refs: [...now.window.columns.ref_count], filled: [...now.window.columns.filled],
    kept: now.window.pieces.length };
})"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a run of three clients in which blocks are evicted and sequences preempted."""
    folder = tmp_path_factory.mktemp("large")
    write(folder / "nobodys.kvtrace", Shape(blocks=700, requests=60, steps=600))
    path = folder / "pressed.kvtrace"
    with TraceReader(folder / "nobodys.kvtrace") as found, TraceWriter(found.header, path) as log:
        for i in range(len(found)):
            record = found.record(i)
            ops = [replace(op, client=f"key-{op.seq_id % 3}") if type(op) is Submit else op for op in record.ops]
            log.append(replace(record, ops=ops))
    return path


@pytest.fixture
def served(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve this log with a limit that makes every log a long one."""
    monkeypatch.setattr(app.session.run, "MAX_RECORDS", 10)
    monkeypatch.setattr(app.log_index.questions, "MIN_CACHED_BYTES", 0)
    made = create_app(Models(ModelEntry(None)), ServerSettings(data_dir=tmp_path), [log, OBSERVED])
    listener = Listener(made, bind("127.0.0.1", 0))
    yield f"http://127.0.0.1:{listener.port}"
    listener.close()
    made.extensions["kvtheater"].close()


def opened(open_page: OpenPage, served: str, **options: Any) -> Page:
    page = open_page(f"{served}/?recording=rec-pressed", connection="replay", until="#large-pool", **options)
    expect(page.locator("#region-large progress")).to_have_count(0)
    return page


def shows(page: Page, index: int, state: State) -> None:
    """Whether the page shows the pool as it is after record `index` of the log."""
    expect(page.locator("#large-record")).to_have_value(str(index))
    found = page.evaluate(COLUMNS)
    assert found["at"] == index and found["refs"] == [block.ref_count for block in state.blocks]
    assert found["filled"] == [len(block.token_ids) for block in state.blocks]


def test_records_of_a_long_log_are_exact_and_all_panels_answer(open_page, served, log):
    """A click on the strip finds the preemption. The tree shows the cached content at the current record, by its
    prefixes.
    """
    page = opened(open_page, served)
    with TraceReader(log) as reader:
        last = len(reader) - 1
        shows(page, last, reader.state_at(last))
        for index in (300, 301, 302, 301, 40, last, 0):
            page.locator("#large-record").fill(str(index))
            page.locator("#large-record").press("Enter")
            shows(page, index, reader.state_at(index))
        page.locator("h2").first.click()
        page.keyboard.press("ArrowRight")
        shows(page, 1, reader.state_at(1))
        expect(page).to_have_url(re.compile(r"step=1\b"))

    with TraceReader(log) as reader:
        preempted = [i for i in range(len(reader)) if any(isinstance(op, Preempt) for op in reader.record(i).ops)]
        strip = page.locator("#metric-rows")
        box = strip.bounding_box()
        assert box and preempted
        share = (preempted[0] + 0.5) / len(reader)
        strip.click(position={"x": 116 + share * (box["width"] - 116), "y": 18 * 7.5})
        expect(page.locator("#large-record")).to_have_value(str(preempted[0]))
        expect(page.locator("#large-says")).to_contain_text("preempt")
        strip.press("ArrowLeft")
        expect(strip).to_have_attribute("aria-valuenow", str(preempted[0] - 1))

    pool, lens = page.locator("#large-pool"), page.locator(".large-pool .large-pointed")
    pool.focus()
    page.keyboard.press("Home")
    expect(lens).to_contain_text("Block 0")
    assert page.locator("#large-colour [value=tier]").count() == 0  # the log has none
    for meaning in ("age", "refs", "hits", "group"):
        page.locator("#large-colour").select_option(meaning)
        page.locator("#large-order").select_option("used" if meaning == "age" else "owner")

    tree = page.locator("#large-prefixes")
    tree.locator("summary").click()
    with TraceReader(log) as reader:
        for record in (len(reader) - 1, len(reader) // 2):
            page.locator("#large-record").fill(str(record))
            page.locator("#large-record").press("Enter")
            state = reader.state_at(record)
            cached = {block.block_hash for block in state.blocks if block.block_hash is not None}
            expect(tree).to_contain_text(
                f"{len(cached)} contents of {16 * len(cached):,} tokens".replace(",", "\u202f")
            )
    used = tree.locator(".branches-go").first
    wanted = re.sub(r"\D", "", used.inner_text())
    used.click()
    expect(page.locator("#large-record")).to_have_value(wanted)


def test_requests_are_sorted_selected_and_opened(open_page, served, log):
    """Rows are those of the log index; the link has order and filter; arrow keys move between requests."""
    with TraceReader(log) as reader:
        make(reader, log.with_suffix(".survey"))
        table = sequence_table(LogIndex(log.with_suffix(".survey"), reader), reader.header)
    page = opened(open_page, served)
    box = page.locator("#large-sequences")
    rows = box.locator("tbody tr[data-seq]")

    def shown() -> list[int]:
        return [int(row) for row in rows.evaluate_all("all => all.map((row) => row.dataset.seq)")]

    expect(box.locator(".large-scroll")).to_contain_text("None of these 60 requests is there")
    page.locator("#large-here").uncheck()
    assert shown()[:9] == table["seq_id"][:9]
    assert 9 < rows.count() < 60  # the others are not in the document
    box.get_by_role("button", name="TTFT").click()
    expect(box.locator('th[aria-sort="descending"]')).to_have_attribute("data-column", "ttft")
    slowest = sorted(range(60), key=lambda row: -table["ttft"][row])
    assert shown()[:9] == [table["seq_id"][row] for row in slowest[:9]]
    expect(rows.first.locator("[data-column=ttft]")).to_have_text(f"{table['ttft'][slowest[0]]:.2f}\u202fs")

    expect(page).to_have_url(re.compile("sort=-ttft"))
    page.reload()
    page.locator("#requests-only").select_option("missed")  # of the whole run, wherever one looks
    expect(box.locator('th[aria-sort="descending"]')).to_have_attribute("data-column", "ttft")
    missed = [row for row in range(60) if table["missed"][row] is not None and table["missed"][row] <= 60]
    status = box.locator("[role=status]")
    expect(status).to_contain_text(f"{len(missed)} of 60")
    assert len(missed) > 9 and rows.first.locator("[data-column=missed]").inner_text() != "·"
    page.locator("#requests-client").select_option("key-1")
    expect(status).to_contain_text(f"{sum(table['client'][row] == 'key-1' for row in missed)} of 60")
    expect(page).to_have_url(re.compile("client=key-1.*only=missed|only=missed.*client=key-1"))
    page.locator("#requests-client").select_option("")
    page.locator("#requests-only").select_option("preempted")
    twice = [row for row in range(60) if table["num_preemptions"][row] > 1]
    assert shown() == [table["seq_id"][row] for row in twice]

    rows.first.locator("button").press("Enter")
    record = page.locator("#large-record")
    expect(record).to_have_value(str(table["submitted_in"][twice[0]]))
    turns = [first for row, first in zip(table["span_row"], table["span_first"], strict=True) if row == twice[0]]
    for turn in turns[1:3]:
        page.keyboard.press("ArrowRight")
        expect(record).to_have_value(str(turn))
    expect(rows.first.locator("button")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(record).to_have_value(str(turns[1]))
    story = box.locator(".large-chosen")
    expect(story).to_contain_text(f"from key-{table['seq_id'][twice[0]] % 3}")
    story.get_by_role("button", name="ended").click()
    expect(record).to_have_value(str(table["finished_in"][twice[0]]))
    rows.first.locator("i.preempted").first.click(force=True)
    expect(record).to_have_value(
        str(
            next(
                first
                for row, first, kind in zip(table["span_row"], table["span_first"], table["span_kind"], strict=True)
                if row == twice[0] and kind == PREEMPTED
            )
        )
    )


def test_queries_work_on_logs_of_any_length(open_page, served, log):
    """The tables are built while the page waits; a record in an answer is a link to that record."""
    page = opened(open_page, served)
    ask = page.locator("#ask-log")
    ask.locator("[data-question=prefixes_worth_pinning]").click()
    expect(ask.locator(".ask-found tbody tr").first).to_be_visible(timeout=30_000)
    ask.locator("textarea").fill("SELECT max(record) AS record, count(*) AS n FROM steps")
    ask.locator("form button").click()
    with TraceReader(log) as reader:
        expect(ask.locator(".ask-found tbody")).to_have_text(re.compile(rf"{len(reader) - 1}\s*{len(reader)}"))
        ask.locator(".ask-record").click()
        expect(page.locator("#large-record")).to_have_value(str(len(reader) - 1))
    expect(ask.locator(".ask-found th").first).to_have_css("text-align", "right")  # as the numbers below it
    ask.locator("textarea").fill("DELETE FROM steps")
    ask.locator("form button").click()
    expect(ask.locator("[role=alert]")).to_contain_text("queries are read-only")

    page.locator("#large-library").click()
    page.locator("#library").get_by_role("button", name=re.compile("observed")).first.click()
    expect(page.locator(".monitor-unknowns")).to_be_visible()
    page.locator("#large-library").click()
    expect(page.locator("#large-pool")).to_have_count(0)
    page.locator("#large-library").click()
    expect(page.locator("#large-pool")).to_be_visible()


def test_unknown_values_of_a_monitored_server_are_not_invented(open_page, served):
    page = open_page(f"{served}/?recording=rec-observed", connection="replay", until="#large-pool")
    expect(page.locator(".monitor-unknowns")).to_contain_text("Who holds a block")
    ranks = page.locator(".monitor-rank")
    expect(ranks).to_have_count(2)
    expect(ranks.nth(1).locator(".monitor-since")).to_contain_text("It restarted: known since message 0")
    expect(ranks.nth(1).locator(".monitor-families")).to_contain_text("STORAGE")
    options = page.locator("#large-colour option").evaluate_all("all => all.map((one) => one.value)")
    assert options == ["age", "group", "tier"]
    page.locator("#large-colour").select_option("tier")
    expect(page.locator(".large-legend")).to_contain_text("CPU + FS")
    assert page.locator(".large-scroll").count() == 0
    expect(page.locator(".large-head")).not_to_contain_text("sequences")
    expect(page.locator("#large-says")).not_to_contain_text("step")
    expect(page.locator(".metric-rows")).to_contain_text("no metrics that say it: Waiting")
    expect(page.locator("#metric-rows")).to_have_attribute("aria-valuetext", re.compile("Running 3 · KV usage 25"))
    page.locator("#large-prefixes summary").click()
    expect(page.locator(".branches thead")).not_to_contain_text("Held")
    page.locator("#large-prefixes select").select_option("1")
    expect(page.locator("#large-prefixes")).to_contain_text("beginning unknown")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_large_logs_are_accessible(open_page, served, log, width, scheme):
    page = opened(open_page, served, width=width, height=844, color_scheme=scheme, bypass_csp=True)
    page.locator(".large-table summary").click()
    page.add_script_tag(path=str(AXE))
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    with TraceReader(log) as reader:
        expected = what_if(reader)
    page.locator("#what-if-ask").click()
    row = page.locator('#what-if tr[data-row="preemptions"] td')
    expect(row).to_have_count(3, timeout=60_000)
    assert row.all_inner_texts()[:2] == [str(expected.log.preemptions), str(expected.other.preemptions)]
    page.locator("#classes-by").select_option("prompt")
    rows = page.locator("#classes tbody")
    expect(rows.first).to_be_visible(timeout=60_000)
    assert sum(int(text) for text in page.locator("#classes tbody td:nth-child(2)").all_inner_texts()) == 60
    page.locator("#classes-beside").select_option("rec-observed")
    expect(page.locator('#classes table[data-two="true"]')).to_be_visible(timeout=60_000)
    assert set(page.locator("#classes tbody tr:nth-child(2) td").all_inner_texts()) == {"?"}
    page.locator("#classes").get_by_role("button", name="Requests").click()
    expect(page.locator('#classes th[aria-sort="descending"]')).to_have_count(1)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    """Start a server for which a run of more than five records is long."""
    monkeypatch.setattr(app.session.run, "MAX_RECORDS", 5)
    server = Server(data_dir=tmp_path)
    yield server
    server.close()


def test_a_late_viewer_sees_a_long_live_run_in_windows(open_page, short):
    """The view grows with the run; after a reset the whole run is loaded again."""
    client = short.client()
    theater = client.do("create", name="long")["theater"]
    client.do("submit", theater=theater, prompts=[{"text": "a b c"}], sampling={"max_tokens": 60})
    client.do("step", theater=theater, count=9)
    page = open_page(f"{short.url}/?theater={theater}", until="#large-pool")
    expect(page.locator("#large-record")).to_have_value("9", timeout=30_000)
    expect(page.locator(".large-live")).to_contain_text("10 records")
    client.do("step", theater=theater, count=4)
    expect(page.locator(".large-live")).to_contain_text("14 records")
    expect(page.locator("#large-record")).to_have_value("13", timeout=30_000)
    expect(page.locator("#region-large progress")).to_have_count(0)  # all is read, though more may come
    page.locator("#large-engine").click()
    page.locator("#btn-drive").click()  # the run belongs to another client
    page.locator("#large-engine").click()
    expect(page.locator("#large-engine")).to_contain_text("Pause")
    client.do("pause", theater=theater)
    page.locator("#large-reset").click()
    expect(page.locator("#region-stage")).to_be_visible()
    expect(page.locator("#large-pool")).to_have_count(0)


def test_a_run_that_becomes_long_keeps_the_viewed_record(open_page, short):
    """The record on view stays, and no record of the run is left in memory."""
    client = short.client()
    theater = client.do("create", name="growing")["theater"]
    client.do("submit", theater=theater, prompts=[{"text": "a b c"}], sampling={"max_tokens": 60})
    client.do("step", theater=theater, count=4)
    page = open_page(f"{short.url}/?theater={theater}&distance=bench&step=3")
    page.evaluate("""async () => {
      const { own, select } = await import('/static/js/state/store.js');
      select({ block: 1 });
      window.kept = new WeakRef(own.log.peek());
    }""")
    client.do("step", theater=theater, count=9)
    expect(page.locator("#toasts")).to_contain_text("longer than a page keeps")
    expect(page.locator("#large-pool")).to_be_visible()
    expect(page.locator("#large-record")).to_have_value("3", timeout=30_000)
    expect(page.locator(".large-pool .large-pointed")).to_contain_text(re.compile(r"Block 1\b"))
    expect(page).to_have_url(re.compile(r"step=3\b"))
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    assert page.evaluate("window.kept.deref() === undefined")
    page.locator("#large-newest").click()
    expect(page.locator("#large-record")).to_have_value("13", timeout=30_000)
