"""The benchmark page in a real browser. `open_bench` fails a test when anything breaks the security policy."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from playwright.sync_api import Page, Route, ViewportSize, expect

from engine.bench.record import RESULTS
from tests.browser.axe import AXE, fail_on_violations, violations
from tests.browser.contexts import ReservedContexts
from tests.browser.driving import OpenPage
from tests.browser.settling import settled_value

OpenBench = OpenPage


@pytest.fixture
def open_bench(reserved_contexts: ReservedContexts, live_server: str) -> Iterator[OpenBench]:
    problems: list[str] = []

    def opened(path: str = "", *, width: int = 1280, height: int = 800, locale: str = "en-US", **options: Any) -> Page:
        address = f"{live_server}/bench{path}"
        page = reserved_contexts.page(address, ViewportSize(width=width, height=height), {"locale": locale, **options})
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda m: problems.append(m.text) if "Content Security Policy" in m.text else None)
        page.goto(address)
        page.wait_for_selector(".bench-report h2")
        return page

    yield opened
    assert problems == []


def drawn(page: Page, count: int) -> None:
    expect(page.locator(".bench-chart[data-drawn]")).to_have_count(count, timeout=60_000)


def guard() -> dict[str, Any]:
    record: dict[str, Any] = json.loads((RESULTS / "guard.json").read_text())
    return record


def other_machine(factor: float) -> str:
    """Return the shipped record as of a machine that is slower by `factor` and lacks one variant."""
    record = guard()
    record["environment"]["machine"]["processor"] = "Another Processor"
    for point in record["points"]:
        for name in ("median", "low", "high"):
            point["figures"]["seconds"][name] *= factor
        if point["variant"] == "contiguous":
            point |= {"failed": "there is no room for it", "figures": {}}
    return json.dumps(record)


DROP = """([name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name, {type: 'application/json'}));
  for (const kind of ['dragover', 'drop'])
    document.body.dispatchEvent(new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer: data}));
}"""


def drop(page: Page, name: str, text: str) -> None:
    page.evaluate(DROP, [name, text])


def highest_tick(page: Page) -> list[float]:
    """Return the largest label of each chart's y axis."""
    found: list[float] = page.evaluate(
        """() => [...document.querySelectorAll('.bench-chart')].map((chart) =>
          Math.max(...[...chart.querySelectorAll('.ytick text')]
            .map((e) => Number(e.textContent.replaceAll('\\u2009', '')))))"""
    )
    return found


def test_the_page_begins_with_the_headlines_and_leads_to_a_scenario_and_back(open_bench: OpenBench) -> None:
    """Headlines are in plain words, and only existing bars are mentioned."""
    page = open_bench()
    expect(page.locator(".bench-headlines tbody tr").first).to_be_visible()
    assert page.evaluate("typeof Plotly") == "undefined"  # it comes with the first chart
    page.click(".bench-list a[href$='scenario=guard']")
    expect(page.locator(".bench-report h2")).to_contain_text("Guard")
    drawn(page, 2)
    expect(page).to_have_url(re.compile(r"/bench\?scenario=guard$"))
    page.go_back()
    expect(page.locator(".bench-headlines")).to_be_visible()

    rows = page.locator(".bench-headlines tbody tr")
    length = rows.filter(has_text="496 output tokens").inner_text()
    assert "▲ 5.0 times faster" in length and "0.198" in length and "≥" not in length
    assert "▼ 74 % longer" in rows.filter(has_text="TTFT of the long prompt").inner_text()
    bars = [text for text in page.locator(".bench-headlines td:last-child").all_inner_texts() if text.strip()]
    assert 10 < len(bars) < rows.count() / 2 and all("met" in text for text in bars)
    chinese = open_bench(locale="zh-CN").locator(".bench-headlines tbody tr", has_text="496")
    expect(chinese).to_contain_text("速度是 5.0 倍")


def test_a_scenario_says_what_to_look_for_where_it_was_measured_and_every_figure(open_bench: OpenBench) -> None:
    """Charts, tables and records are saved; a link shows the same metric again."""
    page = open_bench("?scenario=guard")
    drawn(page, 2)
    record = guard()
    expect(page.locator(".bench-text")).to_contain_text("must not change at all")
    where = page.locator(".bench-where")
    for fact in (
        record["environment"]["machine"]["processor"],
        "torch 2.",
        "seed 0",
        record["environment"]["commit"][:10],
    ):
        expect(where).to_contain_text(fact)
    assert page.locator(".bench-table tbody tr").count() == len(record["points"])
    assert page.locator(".bench-table thead th").count() == len(record["metrics"]) + 3
    zeros = page.locator(".bench-chart .ytick:first-of-type text").all_text_contents()
    assert zeros == ["0", "0"]  # every y axis begins there
    expect(page.locator(".bench-chart").first).to_have_attribute("aria-label", re.compile("paged: 256: "))

    for selector, begins, name in (
        (".bench-figure .link", b"\x89PNG", "guard-output_tokens_per_second.png"),
        ("#bench-csv", b"record,created,scenario,axis,at,variant,metric", "guard.csv"),
        (".bench-command .link", b'{\n "format": "kvtheater-bench"', "guard-shipped-guard.json"),
    ):
        with page.expect_download() as saved:
            page.locator(selector).first.click()
        content = Path(saved.value.path()).read_bytes()
        assert content.startswith(begins) and saved.value.suggested_filename == name
    assert json.loads(content) == guard()

    page.select_option("#bench-metric", "waste")
    expect(page).to_have_url(re.compile("metric=waste"))
    again = open_bench("?" + page.url.split("?")[1])
    expect(again.locator("#bench-metric")).to_have_value("waste")


@pytest.mark.parametrize(("locale", "says"), [("en-US", "needs a GPU"), ("zh-CN", "可用的 GPU")])
def test_a_scenario_that_cannot_run_here_says_why_and_offers_no_button(
    open_bench: OpenBench, locale: str, says: str
) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    page = open_bench("?scenario=gpu-decode", locale=locale)
    status = page.locator(".bench-run")
    expect(status).to_contain_text(says)
    assert page.locator("#bench-run").count() == 0
    expect(page.locator(".bench-none")).not_to_contain_text("Run it here" if locale == "en-US" else "可在此运行")


def test_a_point_has_its_interval_beside_another_machines_record(open_bench: OpenBench) -> None:
    """Five times the seconds are a fifth of the speed in the table below; a missing variant has no entry."""
    page = open_bench("?scenario=guard&metric=seconds")
    drawn(page, 2)
    point = page.locator(".bench-chart .scatterlayer .trace .point").first.bounding_box()
    assert point is not None
    page.mouse.move(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
    expect(page.locator("#tooltip")).to_contain_text("whole run: ")
    expect(page.locator("#tooltip")).to_contain_text("95 % interval")

    alone = highest_tick(page)[0]
    curves = page.locator(".bench-chart").first.locator(".scatterlayer .trace").count()
    drop(page, "mine.json", other_machine(5))
    expect(page.locator(".toast")).to_contain_text("Another Processor")
    expect(page.locator(".bench-chart").first).to_have_attribute("data-drawn", re.compile("shipped-guard .+/seconds/"))
    drawn(page, 2)
    assert highest_tick(page)[0] > 2 * alone
    assert page.locator(".bench-chart").first.locator(".scatterlayer .trace").count() == 2 * curves - 1
    expect(page.locator(".bench-legend.records li")).to_have_count(2)
    differences = page.locator(".bench-differences td.difference").all_inner_texts()
    assert {" ".join(text.split()) for text in differences} == {"▼ 5.0 times slower (worse)", "–"}
    expect(page.locator(".bench-lost")).to_contain_text("there is no room for it")
    expect(page.locator(".bench-table .failed").first).to_contain_text("there is no room for it")
    assert "mine" not in page.url  # it stays in the page
    page.click(".bench-dropped .link")
    expect(page.locator(".bench-lost, .bench-differences")).to_have_count(0)


def test_invalid_records_are_refused_and_names_are_escaped(open_bench: OpenBench) -> None:
    page = open_bench("?scenario=guard")
    for name, text, says in (
        ("x.json", "{", "is not JSON"),
        ("x.json", '{"format": "other"}', "not a benchmark record"),
        ("x.json", json.dumps({**guard(), "version": 9}), "version 9"),
        ("x.json", json.dumps({**guard(), "points": [{"at": 1}]}), "points is not as it should be"),
        ("run.kvtrace", "KVTRACE", "drop it on the stage"),
    ):
        drop(page, name, text)
        expect(page.locator(".toast.error", has_text=says)).to_be_visible()
        expect(page.locator(".bench-dropped")).to_have_count(0)

    record = guard()
    evil = '<img src=x onerror="document.title=1"><b>bold</b>'
    record["scenario"]["title"] = {"en": evil, "zh": evil}
    record["scenario"]["variants"][0]["title"] = {"en": evil, "zh": evil}
    record["scenario"]["axis"]["title"] = {"en": evil, "zh": evil}
    record["scenario"]["id"] = "mine"
    drop(page, "evil.json", json.dumps(record))
    expect(page.locator(".bench-report h2")).to_have_text(evil)
    drawn(page, 2)
    assert page.locator(".bench-report img, .bench-report b:not(.bench-findings b)").count() == 0


def test_on_paper_a_report_is_light_and_its_charts_are_as_wide_as_the_sheet(open_bench: OpenBench) -> None:
    """A4 between margins of 14 mm has 688 px; what is wider is cut."""
    page = open_bench("?scenario=block-size", color_scheme="dark")
    drawn(page, 1)
    state = """() => [
      document.querySelector('.bench-chart .main-svg').getBoundingClientRect().width,
      getComputedStyle(document.documentElement).colorScheme,
      getComputedStyle(document.querySelector('.bench-chart .xtick text')).fill,
    ]"""
    screen = page.evaluate(state)
    assert screen[0] > 688
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    paper = page.evaluate(state)  # at once: the browser does not wait
    assert paper[0] <= 688 and paper[1] != screen[1] and paper[2] != screen[2]
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.wait_for_function(f"({state})()[0] > 688")
    assert page.evaluate(state) == screen


@pytest.mark.parametrize(
    ("width", "scheme", "locale"), [(1280, "light", "en-US"), (1280, "dark", "zh-CN"), (390, "light", "zh-CN")]
)
def test_no_serious_violation(open_bench: OpenBench, width: int, scheme: str, locale: str) -> None:
    page = open_bench(width=width, color_scheme=scheme, locale=locale, bypass_csp=True)
    page.add_script_tag(path=str(AXE))
    found = {"headlines": violations(page)}
    page.locator(".bench-list a[href$='scenario=kv-dtype-error']").click()
    drawn(page, 2)
    found["bars"] = violations(page)
    page.locator(".bench-list a[href$='scenario=guard']").click()
    drawn(page, 2)
    drop(page, "mine.json", other_machine(2))
    expect(page.locator(".bench-differences")).to_be_visible()
    found["two records"] = violations(page)
    fail_on_violations(found)
    assert page.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0


PAGES = {
    "bench": ".header-tools", "scale": "#scale-paper-show", "prompts": "main", "?region=setup": "#prompt",
    "?distance=look": "#intro", "?distance=room": ".stage", "?distance=learn": ".lessons, .article, main",
    "?distance=learn&lesson=pages": ".article", "docs/index": "main", "j/": "#code",
}  # fmt: skip


@pytest.mark.parametrize("width", [390, 320])
@pytest.mark.parametrize("path", PAGES)
def test_no_page_is_wider_than_a_phone(
    reserved_contexts: ReservedContexts, live_server: str, path: str, width: int
) -> None:
    address = f"{live_server}/{path}{'&' if '?' in path else '?'}lang=en"
    page = reserved_contexts.page(address, ViewportSize(width=width, height=844), {"locale": "en-US"})
    page.add_init_script("localStorage.setItem('kvtheater.tour', 'done')")
    page.add_init_script("localStorage.setItem('kvtheater.opening', 'seen')")
    page.goto(address)
    page.wait_for_selector(PAGES[path])
    assert page.evaluate("document.scrollingElement.scrollWidth") == width


def without_waiting(route: Route) -> None:
    """Serve a page module that starts a run without the wait for a quiet machine."""
    answer = route.fetch()
    asks = "{ scenario, rounds: wanted }"
    assert asks in answer.text()
    route.fulfill(response=answer, body=answer.text().replace(asks, "{ scenario, rounds: wanted, quiet_seconds: 0 }"))


@contextmanager
def the_run_waits() -> Iterator[None]:
    """Suspend the benchmark's process that the live server has started."""
    (run,) = (one for one in psutil.Process().children(recursive=True) if "app.bench.worker" in one.cmdline())
    run.suspend()
    try:
        yield
    finally:
        run.resume()


# The number of the second trace's point that is farthest from all points of the others.
APART = """() => {
  const chart = document.querySelector(".bench-chart");
  const traces = [...chart.querySelectorAll(".scatterlayer .trace")].map((trace) =>
    [...trace.querySelectorAll(".point")].map((point) => point.getBoundingClientRect()));
  const others = traces.filter((_, index) => index !== 1).flat();
  const nearest = (one) => Math.min(...others.map((other) => Math.hypot(one.x - other.x, one.y - other.y)));
  const distances = traces[1].map(nearest);
  return distances.indexOf(Math.max(...distances));
}"""


def test_a_benchmark_is_run_from_the_page_watched_and_its_points_open_their_traces(open_bench: OpenBench) -> None:
    page = open_bench("?scenario=guard")
    page.route("**/js/bench/run.js", without_waiting)  # other tests are busy beside this one: it would wait a minute
    page.reload()
    drawn(page, 2)
    page.fill("#bench-rounds", "1")
    page.click("#bench-run")
    expect(page.locator("#bench-progress")).to_contain_text("Warming up", timeout=150_000)
    expect(page.locator("#bench-left")).to_contain_text(re.compile(r"about \d+ (s|min) left"), timeout=60_000)
    with the_run_waits():  # or a fast machine would be done before it is watched
        expect(page).to_have_title(re.compile(r"^\d+ % · "))
        with page.context.expect_page() as opened:
            page.locator("#bench-watch").click(timeout=60_000)
        opened.value.wait_for_selector("#connection.live")
    expect(opened.value.locator("html")).to_have_attribute("data-num-records", re.compile(r"^[1-9]"), timeout=60_000)
    opened.value.close()
    expect(page.locator("#bench-run")).to_be_visible(timeout=150_000)
    expect(page.locator(".bench-legend.records li")).to_have_count(2)  # the new record is beside the shipped one
    drawn(page, 2)
    expect(page).to_have_url(re.compile("records=shipped-guard%2Chere-"))
    assert page.locator(".bench-table a").count() == 6
    chart = page.locator(".bench-chart").first
    chart.scroll_into_view_if_needed()
    where = "JSON.stringify(document.querySelectorAll('.bench-chart .scatterlayer .trace')[1].getBoundingClientRect())"
    settled_value(page, where)  # a chart that has come into sight may still be laid out
    nth = page.evaluate(APART)  # of the new record; where two points lie on each other the older one may be seen
    point = chart.locator(".scatterlayer .trace").nth(1).locator(".point").nth(nth).bounding_box()
    assert point is not None
    for side in range(100):  # a click is on what Plotly has seen hovered; a move before it listens is lost
        page.mouse.move(point["x"] + side % 2, point["y"] + point["height"] / 2)
        if "made here" in page.locator("#tooltip").inner_text():
            break
        page.wait_for_timeout(200)
    expect(page.locator("#tooltip")).to_contain_text("made here")
    page.mouse.click(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
    page.wait_for_selector("#connection.replay")
    expect(page.locator("html")).to_have_attribute("data-num-records", re.compile(r"^[1-9]\d"))


def test_on_a_phone_the_value_and_bar_of_each_headline_are_visible(open_bench: OpenBench) -> None:
    page = open_bench(width=390, height=844, has_touch=True)
    boxes = page.evaluate(
        """[...document.querySelectorAll('.bench-headlines tbody td')].map((e) => e.getBoundingClientRect().toJSON())"""
    )
    assert len(boxes) > 30
    assert all(box["left"] >= 0 and box["right"] <= 390 for box in boxes)
    links = page.locator(".bench-headlines tbody a")
    assert all((links.nth(i).bounding_box() or {"height": 0})["height"] >= 44 for i in range(links.count()))


def test_on_a_phone_a_row_keeps_its_name_while_it_scrolls(open_bench: OpenBench) -> None:
    page = open_bench("?scenario=against-transformers", width=390, height=844, has_touch=True)
    drawn(page, 2)
    table = page.locator(".bench-scroll").last
    table.evaluate("(e) => (e.scrollLeft = e.scrollWidth)")
    name, box = table.locator(".variant").first.bounding_box(), table.bounding_box()
    assert name and box and abs(name["x"] - box["x"]) < 1
    selects = page.locator(".bench-controls select")
    widths = [(selects.nth(i).bounding_box() or {"width": 0})["width"] for i in range(selects.count())]
    assert len(widths) == 2 and min(widths) > 340
