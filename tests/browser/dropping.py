"""Functions that drop files on the page."""

import base64
import re
from pathlib import Path

from playwright.sync_api import Page, expect

from engine.trace.log import TraceReader

DROP = """([text, name]) => {
  const data = new DataTransfer();
  data.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name));
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


def drop(page: Page, content: bytes, name: str) -> None:
    """Drop a file on the page."""
    page.evaluate(DROP, [base64.b64encode(content).decode(), name])


def drop_recording(page: Page, file: Path) -> None:
    """Drop a recording on the page, wait until it is loaded, and go to its last record."""
    drop(page, file.read_bytes(), file.name)
    expect(page.locator("#connection")).to_have_class(re.compile("replay"))
    with TraceReader(file) as trace:  # the page shows their number in the next frame
        expect(page.locator("html")).to_have_attribute("data-num-records", str(len(trace)))
        page.evaluate("(n) => import('/static/js/state/store.js').then((store) => store.goTo(n))", len(trace) - 1)
