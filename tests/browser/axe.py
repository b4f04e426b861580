"""Checks of the page with axe-core."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.driving import OpenPage

AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


def violations(page: Page, within: str = "html") -> list[str]:
    """Return axe's serious and critical violations within the selector `within`, one line per element."""
    found: list[dict[str, Any]] = page.evaluate(
        """async ([tags, within]) => {
          const options = {runOnly: {type: 'tag', values: tags}, resultTypes: ['violations']};
          const report = await globalThis.axe.run(within, options);
          return report.violations.filter((v) => ['serious', 'critical'].includes(v.impact));
        }""",
        [RULES, within],
    )
    return [f"{v['id']}: {n['html'][:160]} | {n['failureSummary']}" for v in found for n in v["nodes"]]


def fail_on_violations(found: dict[str, list[str]]) -> None:
    """Fail with all violations and the places where they were found."""
    lines = [f"{where}: {line}" for where, violated in found.items() for line in violated]
    if lines:
        pytest.fail("\n\n".join(lines))


def open_with_axe(open_page: OpenPage, path: str = "/", **options: Any) -> Page:
    page = open_page(path, bypass_csp=True, **options)
    page.add_script_tag(path=str(AXE))
    return page
