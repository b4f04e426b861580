"""Size of a first visit's downloads."""

import gzip

from playwright.sync_api import expect

from tests.browser.driving import OpenPage

MOST = 300 * 1024  # bytes, compressed


def test_the_page_weighs_less_than_300_kib_without_charts(open_page: OpenPage) -> None:
    """All files that a visit and a first step fetch are counted, each gzipped as by a proxy."""
    page = open_page()
    page.click("#btn-prefill")
    expect(page.locator("html")).to_have_attribute("data-painted", "1", timeout=20_000)
    fetched: list[str] = page.evaluate(
        "[location.origin + '/', ...performance.getEntriesByType('resource').map((e) => e.name)]"
    )
    files = {url for url in fetched if "/socket.io/" not in url and "/api/" not in url and "plotly" not in url}
    assert any(url.endswith("/static/first.js") for url in files)
    assert sum(url.endswith(".js") for url in files) < 20, "most modules come as one"
    sizes = {url: len(gzip.compress(page.request.get(url).body())) for url in files}
    heaviest = sorted(sizes.items(), key=lambda item: -item[1])[:8]
    total = sum(sizes.values())
    print(f"{len(files)} files, {total / 1024:.0f} KiB compressed")
    assert total < MOST, heaviest
