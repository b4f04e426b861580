"""A monitored server on the page: its reports, unknown values with the reason, and no controls that would change it."""

from pathlib import Path
from typing import Any, NoReturn

import pytest
import requests
from playwright.sync_api import expect

import app.log_index.derived_files
import app.session.run
from app.ground.errors import AppError
from engine.observe.monitor import attachment
from tests.browser.axe import fail_on_violations, open_with_axe, violations
from tests.browser.driving import OpenPage
from tests.monitor_server import attached_server
from tests.unit.monitor.metrics_server import MetricsServer
from tests.unit.monitor.metrics_server import page as metrics_page
from tests.unit.monitor.publisher import message, stored

CONTROLS = "#btn-prefill, #btn-step, #btn-reset, #btn-fork, #prompt, #btn-add"


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desktop", "phone"])
def test_the_page_follows_it_and_offers_nothing_that_would_change_it(
    open_page: OpenPage, tmp_path: Path, size: tuple[int, int]
) -> None:
    with attached_server(tmp_path) as (publisher, url):
        page = open_page(url, width=size[0], height=size[1], connection="replay")  # no link is needed
        panel = page.locator("#region-monitor")
        expect(panel).to_contain_text("Known since message 0")
        expect(panel).to_contain_text(
            "1 contents are known to be cached; of the other 63 of 64 places nothing is known"
        )
        publisher.publish(message(stored([b"c" * 8], [9, 8, 7, 6], 4)))
        expect(panel).to_contain_text("2 contents are known to be cached")
        expect(page.locator("#monitor-badge")).to_be_visible()
        assert page.locator(CONTROLS).count() == 0
        expect(panel).to_contain_text("nothing here can change it")
        unknown = panel.locator(".monitor-unknowns dl > div")
        assert unknown.count() == 11
        for one in unknown.all():
            assert len(one.locator("dd").inner_text()) > 10  # the reason
        expect(panel.locator("dd.is-unknown")).to_have_count(7)  # no metrics: unknown, not 0
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0


@pytest.mark.parametrize(
    ("locale", "why", "hit", "gone"),
    [
        (
            "en-US",
            "Why nothing hits: block size. The longest beginning that two prompts share has 3 tokens",
            "4 of 9 tokens would hit. The next block was cached and is gone.",
            "Whether it also cleared what it kept elsewhere it did not say: of 1 content outside the GPUs",
        ),
        (
            "zh-CN",
            "为什么没有命中： 块大小。两个提示相同的开头最长 3 个词元",
            "9 个词元里会命中 4 个。 下一块缓存过，已经不在了。",
            "GPU 之外的 1 份内容，现在一概未知",
        ),
    ],
)
def test_the_monitor_explains_misses(
    open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locale: str, why: str, hit: str, gone: str
) -> None:
    monkeypatch.setattr(attachment, "METRICS_SECONDS", 0.05)
    with (
        MetricsServer(metrics_page(0, queries=10)) as metrics,
        attached_server(tmp_path, metrics=metrics.url) as (publisher, url),
    ):
        page = open_page(url, connection="replay", locale=locale)
        panel = page.locator("#region-monitor")
        publisher.publish(message(stored([b"c" * 8], [0, 1, 2, 9], 4), stored([b"a" * 8], [], 0, medium="CPU")))
        expect(panel.locator(".monitor-readings dd").first).to_have_text("0")  # the look that began the count
        metrics.text = metrics_page(1, queries=30)
        expect(panel.locator(".monitor-why")).to_contain_text(why)
        panel.locator("#monitor-prompt").fill("0 1 2 3 4 5 6 7 8")
        expect(panel.locator(".monitor-answer")).to_contain_text(hit)
        panel.locator("#monitor-prompt").fill("once upon a time")
        expect(panel.locator(".monitor-asked")).to_contain_text("curl")
        publisher.publish(message({"type": "AllBlocksCleared"}))
        expect(panel.locator(".monitor-since")).to_contain_text(gone)


def test_the_monitor_explains_long_logs_too(
    open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The texts for a record are the same in windows; new reports, gaps and restarts appear too."""
    monkeypatch.setattr(attachment, "METRICS_SECONDS", 0.05)
    with (
        MetricsServer(metrics_page(0, queries=10)) as metrics,
        attached_server(tmp_path, metrics=metrics.url) as (publisher, url),
    ):
        page = open_with_axe(open_page, url, connection="replay")
        publisher.publish(message(stored([b"c" * 8], [0, 1, 2, 9], 4), stored([b"a" * 8], [], 0, medium="CPU")))
        expect(page.locator(".monitor-readings dd").first).to_have_text("0")
        metrics.text = metrics_page(1, queries=30)
        answers = [
            page.locator(name)
            for name in (".monitor-since", ".monitor-why", ".monitor-figures", ".monitor-families", "h2")
        ]
        expect(answers[1]).to_contain_text("block size")
        page.locator("#monitor-prompt").fill("0 1 2 3 4 5 6 7 8")
        answers.append(page.locator(".monitor-answer"))
        expect(answers[-1]).to_contain_text("4 of 9 tokens would hit. The next block was cached and is gone.")
        before = [one.first.inner_text() for one in answers]
        monkeypatch.setattr(app.session.run, "MAX_RECORDS", 3)
        publisher.publish(message())
        expect(page.locator("#large-pool")).to_be_visible(timeout=30_000)
        expect(page.locator(".monitor-figures").first).to_contain_text("Messages4")
        before[2] = before[2].replace("Messages\n3", "Messages\n4").replace("Last number\n2", "Last number\n3")
        assert [one.first.inner_text() for one in answers] == before
        assert before[4].startswith("Attached to vLLM")
        page.locator("#large-prefixes summary").click()
        page.locator(".monitor-unknowns summary").click()
        expect(page.locator("#large-prefixes .branches")).to_be_visible()
        fail_on_violations({"in windows": violations(page)})
        with monkeypatch.context() as meanwhile:  # as of a survey that turned out to be damaged
            meanwhile.setattr(app.log_index.derived_files.LogIndexes, "find", not_yet)
            page.locator("#monitor-prompt").fill("0 1 2 3")
            expect(page.locator("#region-large [role=status]").first).to_contain_text("being read for the first time")
            expect(page.locator(".monitor-problem")).to_have_count(0)
        expect(page.locator(".monitor-answer")).to_contain_text("of 4 tokens")
        expect(page.locator("#region-large")).not_to_contain_text("being read for the first time")
        page.locator("#monitor-prompt").fill("0 1 2 3 4 5 6 7 8")
        expect(page.locator(".monitor-answer")).to_contain_text("of 9 tokens")
        publisher.silent = True  # lost messages cannot be replayed
        publisher.withheld.add(4)
        publisher.publish(message())
        publisher.publish(message(stored([b"d" * 8], [1, 2, 3, 4], 4)))
        expect(answers[0]).to_contain_text("1 message did not come: what was known is given up.", timeout=30_000)
        expect(answers[-1]).to_contain_text("0 of 9 tokens would hit.")
        expect(page.locator(".large-problem, .monitor-problem")).to_have_count(0)
        expect(page.locator("#monitor-badge")).to_be_visible()
        address = f"{url}/api/theaters/attached/survey/heard"
        wrong = [{"record": 0, "token_ids": [-1]}, {"record": 0}, {"record": 10_000, "token_ids": [1]}]
        assert [requests.post(f"{address}/chains", json=one).status_code for one in wrong] == [400, 400, 404]
        assert requests.get(f"{address}/roots", params={"rank": 1}).status_code == 404


def not_yet(*_: Any) -> NoReturn:
    raise AppError("loading", "ask again in a moment")


@pytest.mark.parametrize("distance", ["look", "room"])
def test_no_view_shows_unknown_values(open_page: OpenPage, tmp_path: Path, distance: str) -> None:
    with attached_server(tmp_path) as (_, url):
        page = open_page(f"{url}/?recording=attached&distance={distance}", connection="replay")
        expect(page.locator("#region-monitor")).to_contain_text("Known since message 0")
        assert page.locator("#region-memory, #region-stage, .intro").count() == 0


@pytest.mark.parametrize(("locale", "theme"), [("en-US", "light"), ("zh-CN", "dark")])
def test_it_is_accessible(open_page: OpenPage, tmp_path: Path, locale: str, theme: str) -> None:
    with attached_server(tmp_path) as (_, url):
        page = open_with_axe(open_page, url, locale=locale, connection="replay", color_scheme=theme)
        page.locator("#region-monitor .branches").wait_for()
        fail_on_violations({f"{locale}, {theme}": violations(page)})
