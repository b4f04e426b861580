"""The requests of a run on the page: the table, its order and search, timelines that lead to their records."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.loader import from_module
from engine.trace.explain import timelines
from engine.trace.log import TraceReader
from tests.browser.axe import fail_on_violations, open_with_axe, violations
from tests.browser.driving import OpenPage, wait_for_record
from tests.browser.dropping import drop_recording
from tests.browser.settling import address_settings, wait_for_value
from tests.tiny_models import tiny_model, tiny_tokenizer

ROOT = Path(__file__).resolve().parents[2]
REQUESTS = 40


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compute forty requests of three clients, two at a time, without captures."""
    path = tmp_path_factory.mktemp("many") / "many.kvtrace"
    model = from_module(tiny_model("llama"), tiny_tokenizer(), "tiny-llama")
    with Engine(model, EngineConfig(block_size=4, num_blocks=32, max_num_seqs=2), log_path=path) as engine:
        for i in range(REQUESTS):
            params = SamplingParams(max_tokens=3 + i % 5, ignore_eos=True)
            engine.add_request(list(range(3, 5 + i % 7)), params, f"r{i}", client=f"key-{i % 3}", waited=i / 1000)
        while engine.has_unfinished():
            engine.step()
    return path


def names(page: Page) -> list[str]:
    return page.locator(".requests-table tbody .request-name").all_inner_texts()


def finished_victim() -> tuple[int, int]:
    """Return a sequence of the shipped recording that was preempted and has ended before the last record, and that
    record.
    """
    path = ROOT / "static" / "recordings" / "preemption.kvtrace"
    with TraceReader(path) as log:
        for story in timelines(log):
            kinds = [event.op.__class__.__name__ for event in story.events]
            if "Preempt" in kinds and kinds[-1] == "Finish" and story.events[-1].record < len(log) - 1:
                return story.seq_id, len(log) - 1
    pytest.fail("the recording of a preemption has no such sequence")


def test_a_row_opens_its_history_and_an_event_its_record(open_page: OpenPage) -> None:
    seq, last = finished_victim()
    page = open_page(f"/?recording=rec-preemption&detail=requests&step={last}", connection="replay")
    expect(page.locator(".requests-table tbody tr[data-seq]")).to_have_count(3)
    page.locator(f"tr[data-seq='{seq}'] button").click()
    story = page.locator(".request-timeline")
    expect(story).to_contain_text("preempted 1 time")
    expect(page.locator("#stage-past")).to_contain_text(f"seq {seq} has finished")
    lost = story.locator(".decision.lost").first
    record = int(re.sub(r"\D", "", lost.locator(".request-when").inner_text())) - 1
    lost.click()
    wait_for_record(page, record)
    found = address_settings(page)
    assert (found["seq"], found["detail"], found["step"]) == (str(seq), "requests", str(record))
    assert re.fullmatch(rf"r{record}i\d+", found["select"])


def test_a_link_to_a_sequence_opens_its_history(open_page: OpenPage) -> None:
    page = open_page("/?recording=rec-preemption&detail=requests&seq=1", connection="replay")
    expect(page.locator(".request-timeline")).to_contain_text("request-1")
    page.click("#request-close")
    expect(page.locator(".requests-table")).to_be_visible()


def test_the_table_is_sorted_and_searched_and_the_link_says_how(open_page: OpenPage, many: Path) -> None:
    page = open_page("/?detail=requests")
    drop_recording(page, many)
    expect(page.locator("#requests")).to_be_visible()
    assert names(page)[:3] == ["r0", "r1", "r2"]
    page.locator("th[data-column='output'] button").click()
    expect(page.locator("th[data-column='output']")).to_have_attribute("aria-sort", "descending")
    assert names(page)[:2] == ["r4", "r9"]  # 3 + 4 tokens, the first that came
    page.fill("#requests-find", "r1")
    expect(page.locator(".requests-head [role=status]")).to_contain_text("11 of 40")  # r1, r10 … r19
    assert address_settings(page)["find"] == "r1" and address_settings(page)["sort"] == "-output"
    page.fill("#requests-find", "nobody")
    expect(page.locator(".requests-scroll")).to_contain_text("No request has “nobody” in its name")


def test_requests_are_filtered_by_client_and_downloaded(open_page: OpenPage, many: Path) -> None:
    page = open_page("/?detail=requests&lang=en")
    drop_recording(page, many)
    page.select_option("#requests-client", "key-1")
    expect(page.locator(".requests-head [role=status]")).to_contain_text("13 of 40")
    assert names(page)[:3] == ["r1", "r4", "r7"]
    assert address_settings(page)["client"] == "key-1"
    with page.expect_download() as kept:
        page.click("#requests-csv")
    lines = kept.value.path().read_text(encoding="utf-8").splitlines()
    head, first = lines[0].split(","), lines[1].split(",")
    assert len(lines) == 1 + 13
    row = dict(zip(head, first, strict=True))
    assert (row["request_id"], row["client"], row["prompt_tokens"]) == ("r1", "key-1", "3")
    assert (row["output_tokens"], row["lane_seconds"], row["end"]) == ("4", "0.001", "length")
    page.select_option("#requests-only", "preempted")
    expect(page.locator(".requests-scroll")).to_contain_text("No request was preempted more than once")
    expect(page.locator(".requests-rule")).to_contain_text("Preempted twice or more")


def test_a_long_name_is_cut_at_its_end_also_when_it_has_the_focus(open_page: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "long.kvtrace"
    model = from_module(tiny_model("llama"), tiny_tokenizer(), "tiny-llama")
    with Engine(model, EngineConfig(block_size=4, num_blocks=32), log_path=path) as engine:
        engine.add_request([3, 4, 5], SamplingParams(max_tokens=2, ignore_eos=True), "cmpl-" + "0123456789" * 8)
        while engine.has_unfinished():
            engine.step()
    page = open_page("/?detail=requests")
    drop_recording(page, path)
    page.locator(".requests-table tbody button").focus()
    assert page.evaluate("document.activeElement.parentElement.scrollLeft") == 0
    name, cell = (page.locator(f".requests-table tbody {what}").bounding_box() for what in ("th button", "th"))
    assert name is not None and cell is not None
    assert name["x"] >= cell["x"] and name["x"] + name["width"] <= cell["x"] + cell["width"] + 1


def test_a_point_of_a_bar_leads_to_its_record(open_page: OpenPage, many: Path) -> None:
    page = open_page("/?detail=requests&lang=en")
    drop_recording(page, many)
    page.click("#requests-timeline")
    expect(page.locator(".bar-legend")).to_contain_text("preempted")
    page.locator("th[data-column='bar'] button").click()  # each on its own clock: what it waited begins at the left
    bar = page.locator("tr[data-seq='9'] .request-bar")
    bar.hover(position={"x": 2, "y": 12})
    expect(page.locator("#tooltip")).to_contain_text("waiting")
    bar.click(position={"x": 2, "y": 12})
    wait_for_record(page, 9)  # the record of its submission
    assert address_settings(page)["seq"] == "9"


def test_only_visible_rows_exist_and_the_keyboard_reaches_all(open_page: OpenPage, many: Path) -> None:
    page = open_page("/?detail=requests")
    drop_recording(page, many)
    rows = page.locator(".requests-table tbody tr[data-seq]")
    expect(rows.first).to_be_visible()
    assert rows.count() < REQUESTS
    page.locator(".requests-table tbody button[tabindex='0']").focus()
    page.keyboard.press("End")
    wait_for_value(page, "document.activeElement.dataset.row", str(REQUESTS - 1))
    page.keyboard.press("ArrowUp")
    wait_for_value(page, "document.activeElement.dataset.row", str(REQUESTS - 2))
    page.keyboard.press("Enter")
    expect(page.locator(".request-timeline")).to_contain_text(f"r{REQUESTS - 2}")


def test_slow_steps_and_preempted_requests_are_links(open_page: OpenPage) -> None:
    page = open_page("/?recording=rec-preemption&detail=requests", connection="replay", width=1920, height=1080)
    lists = page.locator(".requests-lists")
    expect(lists).to_contain_text("Slowest steps")
    page.locator("section[aria-labelledby=requests-preempted] button").first.click()
    expect(page.locator(".request-timeline")).to_contain_text("preempted 1 time")
    page.click("#request-close")
    page.locator("section[aria-labelledby=requests-slowest] button").first.click()
    expect(page.locator("html")).to_have_attribute("data-painted", re.compile(r"^\d+$"))
    assert "step" in address_settings(page)


def test_without_outliers_the_table_has_every_figure(open_page: OpenPage, many: Path) -> None:
    page = open_page("/?detail=requests&lang=en", width=1920, height=1080)
    drop_recording(page, many)
    expect(page.locator(".requests-lists")).to_be_visible()
    expect(page.locator("th[data-column='prefill']")).to_have_count(0)
    page.click("#requests-lists")
    expect(page.locator(".requests-lists")).to_have_count(0)
    for name in ("client", "lane", "queue", "prefill", "decode", "away", "ttft", "tpot", "end", "bar"):
        expect(page.locator(f"th[data-column='{name}']")).to_be_visible()
    page.locator(".requests-table tbody button").first.click()
    expect(page.locator(".request-timeline")).to_be_visible()


def test_goodput_under_a_chosen_objective_and_the_requests_that_missed_it(open_page: OpenPage) -> None:
    """The recorded times vary, so a very wide and a very narrow objective are used."""
    page = open_page("/?recording=rec-preemption&detail=requests&lang=en", connection="replay", width=1920, height=1080)
    goodput = page.locator(".goodput-said")
    page.select_option("#slo", "summarising")
    expect(goodput).to_have_text(re.compile(r"^3 of 3 finished requests met it: [\d.]+ a second\.$"))
    expect(page.locator("#slo-ttft")).to_have_value("15000")
    page.fill("#slo-tpot", "0.001")
    page.locator("#slo-tpot").blur()
    expect(goodput).to_have_text("0 of 3 finished requests met it: 0 a second.")
    expect(page.locator("#slo")).to_have_value("own")
    assert address_settings(page)["slo"] == "ttft:15000,tpot:0.001"
    page.locator("#goodput li button").first.click()
    expect(page.locator(".request-timeline")).to_be_visible()


@pytest.mark.parametrize(("scheme", "seq"), [("light", ""), ("dark", "&seq=2")])
def test_it_is_accessible(open_page: OpenPage, scheme: str, seq: str) -> None:
    page = open_with_axe(
        open_page, f"/?recording=rec-preemption&detail=requests{seq}", connection="replay", color_scheme=scheme
    )
    expect(page.locator("#requests")).to_be_visible()
    fail_on_violations({"requests": violations(page)})


def test_on_a_phone_rows_are_thumb_sized_and_the_table_is_no_wider_than_it(open_page: OpenPage) -> None:
    page = open_page(
        "/?recording=rec-preemption&detail=requests&region=detail", connection="replay", width=390, height=844
    )
    row = page.locator(".requests-table tbody tr[data-seq]").first
    expect(row).to_be_visible()
    box = row.bounding_box()
    assert box is not None and box["height"] >= 44
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390


def test_a_run_without_arrays_gives_its_room_to_requests(open_page: OpenPage, many: Path) -> None:
    page = open_page()
    before = page.locator("#region-stage").bounding_box()
    drop_recording(page, many)
    expect(page.locator("#stage-bare")).to_contain_text("Recorded without arrays")
    expect(page.locator("#detail-attention")).to_have_count(0)
    expect(page.locator("#detail-requests")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".gutter-row")).to_have_count(0)
    stage, detail = (page.locator(f"#region-{name}").bounding_box() for name in ("stage", "detail"))
    assert before and stage and detail
    assert stage["height"] < before["height"] / 1.5 and detail["height"] > stage["height"]
    assert detail["y"] >= stage["y"] + stage["height"] - 1  # nothing stands over anything


def test_only_live_lanes_and_the_selected_one_are_shown(open_page: OpenPage, many: Path) -> None:
    page = open_page("/?detail=scheduler")
    drop_recording(page, many)
    lanes = page.locator(".tracks-scroll")
    expect(page.locator(".tracks-hidden")).to_contain_text("not alive here")
    shown = int(lanes.get_attribute("data-tracks") or 0)
    assert 2 <= shown < REQUESTS
    page.evaluate("import('/static/js/state/settings.js').then(({ settings }) => (settings.seq.value = 3))")
    expect(lanes).to_have_attribute("data-tracks", str(shown + 1))
    expect(page.locator(".tracks-cursor")).to_have_attribute("aria-label", re.compile("^seq 3, "))
    expect(page.locator("#stage-past")).to_contain_text("seq 3 has finished")
    page.click("#stage-past button")
    expect(page.locator("#stage-past")).to_have_count(0)


def test_a_query_over_the_whole_log_leads_to_its_record(open_page: OpenPage) -> None:
    page = open_page("/?recording=rec-preemption&detail=requests&lang=en", connection="replay", width=1920, height=1080)
    page.click("[data-question='slowest_steps']")
    rows = page.locator(".ask-found tbody tr")
    expect(rows.first).to_be_visible()
    record = int(rows.first.locator(".ask-record").inner_text())
    rows.first.locator(".ask-record").click()
    wait_for_record(page, record)
    page.fill("#ask-log textarea", "SELECT count(*) AS n FROM requests")
    page.click("#ask-log form button")
    expect(rows).to_have_text(["3"])
    page.fill("#ask-log textarea", "DELETE FROM requests")
    page.click("#ask-log form button")
    expect(page.locator("#ask-log [role=alert]")).to_have_text(
        "queries are read-only: use SELECT or WITH on steps, events, requests and contents"
    )
    page.evaluate("import('/static/js/state/settings.js').then(({ settings }) => { settings.lang.value = 'zh' })")
    page.click("#ask-log form button")
    expect(page.locator("#ask-log [role=alert]")).to_have_text(
        "查询只读：请对 steps、events、requests、contents 用 SELECT 或 WITH"
    )
