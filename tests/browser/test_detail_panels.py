"""A detail panel is a folder and one line of `page/detail_panels.js`: tab, link and loading follow from it."""

import re

import pytest
from playwright.sync_api import Route, expect

from tests.browser.driving import OpenPage, prefill
from tests.browser.settling import wait_until_still

PANEL = """\
import { html } from "../../kit/html.js";
export const Panel = () => html`<p id="echo">here it is</p>`;
"""
LINE = '  { name: "echo", component: lazyPanel(() => import("./js/panels/echo/panel.js")) },\n'  # as seen from first.js


def test_a_folder_and_a_table_entry_make_a_panel(open_page: OpenPage) -> None:
    page = open_page()

    def with_a_line(route: Route) -> None:
        answer = route.fetch()
        lines = answer.text().splitlines(keepends=True)
        begin = lines.index("// js/page/detail_panels.js\n")
        end = next(i for i in range(begin, len(lines)) if lines[i].startswith("];"))
        route.fulfill(response=answer, body="".join([*lines[:end], LINE, *lines[end:]]))

    page.route("**/static/first.js", with_a_line)
    page.route("**/panels/echo/panel.js", lambda route: route.fulfill(body=PANEL, content_type="text/javascript"))
    page.goto(page.url.split("?")[0] + "?detail=echo")
    expect(page.locator("#echo")).to_have_text("here it is")
    expect(page.get_by_role("tab")).to_have_count(11)
    page.locator("#detail-echo").press("ArrowRight")  # from the last tab to the first
    expect(page.locator("#detail-attention")).to_have_attribute("aria-selected", "true")


def test_a_link_to_a_panel_that_is_not_here_shows_the_first(open_page: OpenPage) -> None:
    page = open_page("/?detail=elsewhere")
    expect(page.locator("#detail-attention")).to_have_attribute("aria-selected", "true")
    page.locator("#detail-attention").press("ArrowRight")
    expect(page.locator("#detail-layer")).to_have_attribute("aria-selected", "true")


def test_lazy_texts_of_a_panel_load_in_each_chosen_language(open_page: OpenPage) -> None:
    page = open_page("/?detail=museum&lang=en")
    panel = page.locator("#detail-panel")
    expect(panel).to_contain_text("Mistakes")
    page.click("#btn-language")
    expect(panel).to_contain_text("引擎都犯过")
    page.click("#detail-library")  # its words arrive in Chinese, and are fetched in English when the page switches back
    expect(panel).not_to_contain_text("引擎都犯过")
    page.click("#btn-language")
    expect(page.locator("#detail-library")).to_have_text("Recordings")
    assert not re.findall(r"\b(?:library|museum)\.\w+", panel.inner_text())
    page.click("#detail-museum")
    expect(panel).to_contain_text("Mistakes")


def test_a_panels_lazy_style_sheet_precedes_the_general_ones(open_page: OpenPage) -> None:
    page = open_page("/?detail=museum&lang=en")
    expect(page.locator("#detail-panel")).to_contain_text("Mistakes")
    sheets = page.evaluate("[...document.styleSheets].map((sheet) => sheet.href?.split('/static/')[1])")
    assert sheets == ["first.css", "js/panels/museum/lazy.css", "over.css"]


# Whether the transport is what one sees along its upper part, and whether the panel's end can be scrolled to.
TALL = """() => {
  const panel = document.querySelector('#detail-panel');
  const tall = document.createElement('div');
  tall.style.height = '1500px';
  tall.style.flex = tall.style.gridColumn = 'none';
  tall.innerHTML = '<p>a row</p>'.repeat(60);
  const own = panel.querySelector(':scope > *');
  (own ?? panel).append(tall);
  const bar = document.querySelector('.transport');
  const box = bar.getBoundingClientRect();
  const [left, right] = [box.left + 20, box.right - 20];
  const covered = [0.1, 0.3, 0.5, 0.7, 0.9].flatMap((x) => [0.1, 0.5, 0.9].map((y) =>
    document.elementFromPoint(left + x * (right - left), box.top + y * box.height)))
    .filter((element) => element && !bar.contains(element));
  const written = [...tall.children].filter((row) => {
    const { top, bottom } = row.getBoundingClientRect();
    const below = bottom > box.top + 2 && top < box.bottom;
    const cut = row.closest('.detail').querySelectorAll('*');
    return below && ![...cut].some((one) => one.contains(row) && getComputedStyle(one).overflowY !== 'visible');
  });
  tall.lastElementChild.scrollIntoView({ block: 'nearest' });
  const last = tall.lastElementChild.getBoundingClientRect();
  tall.remove();
  return [covered.length, written.length, last.bottom <= box.top + 2];
}"""


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1920, 1080)])
def test_tall_panels_scroll_within_their_region(open_page: OpenPage, width: int, height: int) -> None:
    """A panel with too many rows is scrolled; nothing is painted over the transport."""
    page = open_page("/?lang=en", width=width, height=height)
    prefill(page)
    for tab in page.get_by_role("tab").all():
        tab.click()
        wait_until_still(page)
        assert page.evaluate(TALL) == [0, 0, True], tab.inner_text()
