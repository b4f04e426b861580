"""A simulated log on the page: its content, and its mark as simulated."""

from pathlib import Path

from playwright.sync_api import expect

from app.cli import main
from engine.bench.workload import TRACES
from engine.trace.log import TraceReader
from tests.browser.driving import OpenPage
from tests.browser.dropping import drop_recording

REQUESTS = str(TRACES / "mooncake-conversation.jsonl")
PANELS = ("scheduler", "prefix", "requests", "time")


def test_a_simulated_cluster_has_its_badge_pools_lanes_and_every_record(open_page: OpenPage, tmp_path: Path) -> None:
    """Every panel shows every tenth record of a prefill and a decode instance over a link, from the last one
    backwards.
    """
    file = tmp_path / "run.kvtrace"
    arguments = [
        "simulate",
        REQUESTS,
        "--model",
        "llama-2-7b",
        "--gpu",
        "a100-80gb",
        "--scale",
        "64",
        "--num-requests",
        "4",
    ]
    arguments += ["--prefill", "1", "--decode", "1", "--num-blocks", "64", "--link-gb-per-second", "25"]
    assert main([*arguments, "--record", str(file)]) == 0
    page = open_page(width=1440, height=900)
    drop_recording(page, file)
    badge = page.locator(".fault-badge.is-simulated")
    expect(badge).to_contain_text("simulated")
    expect(badge).to_have_attribute("title", "No model: texts stand in, times follow from layers of Llama 2 7B on 1 × "
                                    "A100 SXM 80GB (github.com/microsoft/vidur, data/profiling, commit 7d47513363ec "
                                    "(2024-11-19)), attention by the roofline")  # fmt: skip
    expect(page.locator(".pool-group")).to_have_count(2)
    expect(page.locator(".pool-group").first).to_contain_text("prefill-0")
    with TraceReader(file) as log:
        last = len(log) - 1
        finished = len(log.state_at(last).finished)
    for panel in PANELS:
        page.evaluate(
            "(name) => import('/static/js/state/settings.js').then((it) => { it.settings.detail.value = name; })", panel
        )
        expect(page.locator("#detail-panel")).not_to_be_empty()
        for index in range(last, -1, -max(1, last // 6)):
            page.evaluate("(n) => import('/static/js/state/store.js').then((store) => store.goTo(n))", index)
            expect(page.locator("#position")).to_contain_text(f"{index + 1} of")
    page.evaluate("import('/static/js/state/settings.js').then((it) => { it.settings.detail.value = 'requests'; })")
    assert finished >= 4
    expect(page.locator(".requests-table tbody tr[data-seq]")).to_have_count(4)
