"""Accessibility of the page by axe-core, and beyond it: focus, zoom, targets, names of drawings."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import fail_on_violations, open_with_axe, violations
from tests.browser.driving import POEM, OpenPage
from tests.browser.settling import resize, wait_for_value


def prefill_and_step(page: Page, steps: int = 2) -> None:
    expect(page.locator("#btn-prefill")).to_be_enabled()
    page.click("#btn-prefill")
    expect(page.locator("html")).to_have_attribute("data-painted", "1", timeout=20_000)
    for step in range(steps):
        page.click("#btn-step")
        expect(page.locator("html")).to_have_attribute("data-painted", str(2 + step), timeout=20_000)


# a colour is one of a theme, a word one of a language: each of both is looked at, on a phone the other way round
@pytest.mark.parametrize(("scheme", "locale"), [("light", "en-US"), ("dark", "zh-CN")])
def test_no_serious_violation_on_a_desktop(open_page: OpenPage, scheme: str, locale: str) -> None:
    page = open_with_axe(open_page, color_scheme=scheme, locale=locale)
    found = {"empty": violations(page)}
    prefill_and_step(page)
    found["steps"] = violations(page)
    for tab in page.locator(".detail-tab").all():
        tab.click()
        page.wait_for_timeout(150)
        found[f"detail {tab.get_attribute('id')}"] = violations(page, "#region-detail")  # the rest is as it was
    page.click("#btn-help")
    found["help"] = violations(page)
    page.keyboard.press("Escape")
    fail_on_violations(found)


@pytest.mark.parametrize(("scheme", "locale"), [("light", "zh-CN"), ("dark", "en-US")])
def test_no_serious_violation_on_a_phone(open_page: OpenPage, scheme: str, locale: str) -> None:
    page = open_with_axe(open_page, width=390, height=844, has_touch=True, color_scheme=scheme, locale=locale)
    found = {"empty": violations(page)}
    prefill_and_step(page)
    for region in ("stage", "setup", "memory", "detail"):
        page.click(f"#tab-{region}")
        found[region] = violations(page)
    fail_on_violations(found)
    for selector in (".tab", ".command", ".history .tool", ".header .tool", "#scrubber"):
        for element in page.locator(selector).all():
            box = element.bounding_box()
            if box and element.is_visible():  # as large as a thumb, in the direction in which neighbours are
                assert box["height"] >= 40 and box["width"] >= 40, (selector, box)


def inside(page: Page, selector: str) -> bool:
    """Whether the element is entirely in the window."""
    inner: bool = page.evaluate(
        """(selector) => {
          const b = document.querySelector(selector).getBoundingClientRect();
          return b.width > 0 && b.left >= 0 && b.top >= 0 && b.right <= innerWidth && b.bottom <= innerHeight;
        }""",
        selector,
    )
    return inner


def test_a_tooltip_does_not_outlive_its_view(open_page: OpenPage) -> None:
    """The pointer may rest where it was, as a view is left by key or by the presenter of a class."""
    page = open_page()
    prefill_and_step(page, 0)
    page.locator("[data-position]").first.hover()
    expect(page.locator("#tooltip")).to_be_visible()
    page.evaluate(
        "import('/static/js/state/settings.js').then(({ settings }) => { settings.viewMode.value = 'lesson' })"
    )
    expect(page.locator("#lesson")).to_be_visible()
    expect(page.locator("#tooltip")).to_be_hidden()


@pytest.mark.parametrize("width", [390, 1280])
def test_no_tooltip_is_cut_at_the_edge_of_the_window(open_page: OpenPage, width: int) -> None:
    page = open_page(width=width, height=800)
    prefill_and_step(page, 1)
    seen = 0
    for region in ("stage", "setup", "memory", "detail"):
        if width < 700:
            page.click(f"#tab-{region}")
        for term in page.locator(f"#region-{region} .term, #region-{region} .fidelity").all():
            if not term.is_visible():
                continue
            term.focus()
            expect(page.locator("#tooltip")).to_be_visible()
            assert inside(page, "#tooltip"), term.inner_text()
            seen += 1
    assert seen > 20
    page.keyboard.press("Escape")
    expect(page.locator("#tooltip")).to_be_hidden()


def test_a_definition_stays_until_another_touch(open_page: OpenPage) -> None:
    page = open_page(width=390, height=844, has_touch=True)
    page.tap("#tab-memory")
    term = page.locator("#region-memory .term").first
    term.tap()
    page.wait_for_timeout(400)
    expect(page.locator("#tooltip")).to_contain_text("block_size")
    page.tap("#tab-setup")
    expect(page.locator("#tooltip")).to_be_hidden()


def test_the_help_takes_the_focus_finds_terms_and_gives_the_focus_back(open_page: OpenPage) -> None:
    page = open_page()
    page.focus("#btn-help")
    page.keyboard.press("Enter")
    expect(page.locator("#help")).to_be_focused()
    assert page.locator("#help .glossary dt").count() >= 40
    page.fill("#help-search", "写时复制")
    expect(page.locator("#help .glossary dt")).to_have_count(1)
    expect(page.locator("#help .glossary dd")).to_contain_text("first writes")
    page.fill("#help-search", "nothing of the kind")
    expect(page.locator("#help")).to_contain_text("No term matches")
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_have_count(0)
    expect(page.locator("#btn-help")).to_be_focused()


def test_the_skip_link_every_canvas_beside_words_and_the_language_of_texts(open_page: OpenPage) -> None:
    """A canvas is hidden from screen readers; the element around it has a name or holds named controls."""
    page = open_page()
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    assert inside(page, ".skip")
    page.keyboard.press("Enter")
    expect(page.locator("#region-stage")).to_be_focused()
    expect(page.locator("html")).to_have_attribute("lang", "en")
    expect(page.locator('.preset[lang="en"]').first).to_be_attached()
    page.fill("#prompt", POEM)
    prefill_and_step(page, 1)
    expect(page.locator(".running-text .prompt")).to_have_attribute("lang", "zh-CN")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('canvas')].filter((canvas) => {
          if (canvas.closest('.js-plotly-plot') || canvas.parentElement.closest('[aria-hidden=true]')) return false;
          const named = canvas.closest('[aria-label]');
          const controls = canvas.parentElement.parentElement.querySelector('[role=listbox], input, button');
          return canvas.getAttribute('aria-hidden') !== 'true' || !(named || controls);
        }).map((canvas) => canvas.parentElement.outerHTML.slice(0, 160))"""
    )
    assert nameless == []
    page.click("#btn-language")
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    expect(page.locator("#btn-language")).to_have_attribute("lang", "en")


def test_everything_focusable_shows_its_focus_and_follows_the_order_on_screen(open_page: OpenPage) -> None:
    """A pass with Tab shows an outline at each stop, with regions in the order of their columns."""
    page = open_page()
    prefill_and_step(page, 1)
    regions: list[str] = []
    page.focus(".skip")
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")  # by key: the focus shows only then
    for _ in range(200):
        at = page.evaluate(
            """() => {
              const e = document.activeElement;
              if (e === document.body) return null;
              const shown = e.closest('.scrubber') ?? e;
              const style = getComputedStyle(shown);
              const region = e.closest('header, main > .region, .transport, .skip');
              return {html: e.outerHTML.slice(0, 90),
                      outline: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0,
                      region: region ? region.id || region.className : ''};
            }"""
        )
        if at is None:
            break
        assert at["outline"], at["html"]
        if at["region"] not in regions[-1:]:
            regions.append(at["region"])
        page.keyboard.press("Tab")
    assert regions == ["skip", "header", "transport", "region-setup", "region-stage", "region-detail", "region-memory"]


def test_nothing_scrolls_sideways_when_the_page_is_narrow_or_zoomed(open_page: OpenPage) -> None:
    """A window of 1280 × 800 at a zoom of 200 % has 640 × 400."""
    page = open_page(width=820, height=1180)
    prefill_and_step(page, 1)
    for width, height in ((820, 1180), (640, 400), (390, 844), (320, 568)):
        resize(page, width, height)
        regions = ("stage", "setup", "memory", "detail") if width < 720 else ("stage",)
        for region in regions:
            if width < 720:
                page.click(f"#tab-{region}")
            # what is drawn to its region's width has that of the window before until the frame after the tab is chosen
            wait_for_value(page, "document.scrollingElement.scrollWidth <= innerWidth", True)
        page.evaluate("scrollTo(0, 0)")
        if width < 720:
            page.click("#btn-transport-more")
        for button in ("#btn-prefill", "#btn-step", "#btn-reset", "#btn-help"):
            assert inside(page, button), (button, width)
        if width < 720:
            page.click("#btn-transport-more")
