"""The page under axe-core, and what axe cannot see: focus, zoom, targets, names of what is drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

OpenPage = Callable[..., Page]
AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
POEM = "春江潮水连海平，海上明月共潮生。"


def violations(page: Page) -> list[str]:
    """What axe calls serious or critical, one line for each element."""
    found: list[dict[str, Any]] = page.evaluate(
        """async (tags) => {
          const options = {runOnly: {type: 'tag', values: tags}, resultTypes: ['violations']};
          const report = await globalThis.axe.run(document, options);
          return report.violations.filter((v) => ['serious', 'critical'].includes(v.impact));
        }""",
        RULES,
    )
    return [f"{v['id']}: {n['html'][:160]} | {n['failureSummary']}" for v in found for n in v["nodes"]]


def complain(found: dict[str, list[str]]) -> None:
    """Fail with every violation, where it was found."""
    lines = [f"{where}: {line}" for where, violated in found.items() for line in violated]
    if lines:
        pytest.fail("\n\n".join(lines))


def open_with_axe(open_page: OpenPage, path: str = "/", **options: Any) -> Page:
    page = open_page(path, bypass_csp=True, **options)
    page.add_script_tag(path=str(AXE))
    return page


def prefill_and_step(page: Page, steps: int = 2) -> None:
    expect(page.locator("#btn-prefill")).to_be_enabled()
    page.click("#btn-prefill")
    expect(page.locator("html")).to_have_attribute("data-painted", "1", timeout=20_000)
    for step in range(steps):
        page.click("#btn-step")
        expect(page.locator("html")).to_have_attribute("data-painted", str(2 + step), timeout=20_000)


LOOKS = [("light", "en-US"), ("dark", "en-US"), ("light", "zh-CN"), ("dark", "zh-CN")]


@pytest.mark.parametrize(("scheme", "locale"), LOOKS)
def test_no_serious_violation_on_a_desktop(open_page: OpenPage, scheme: str, locale: str) -> None:
    page = open_with_axe(open_page, color_scheme=scheme, locale=locale)
    found = {"empty": violations(page)}
    prefill_and_step(page)
    found["steps"] = violations(page)
    for tab in page.locator(".detail-tab").all():
        tab.click()
        page.wait_for_timeout(150)
        found[f"detail {tab.get_attribute('id')}"] = violations(page)
    page.click("#btn-help")
    found["help"] = violations(page)
    page.keyboard.press("Escape")
    complain(found)


@pytest.mark.parametrize(("scheme", "locale"), [("light", "zh-CN"), ("dark", "en-US")])
def test_no_serious_violation_on_a_phone(open_page: OpenPage, scheme: str, locale: str) -> None:
    page = open_with_axe(open_page, width=390, height=844, color_scheme=scheme, locale=locale)
    found = {"empty": violations(page)}
    prefill_and_step(page)
    for region in ("stage", "score", "memory", "detail"):
        page.click(f"#tab-{region}")
        found[region] = violations(page)
    complain(found)
