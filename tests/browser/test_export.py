"""The page exports pictures that match the screen, a zip of them, and a printed page."""

import base64
import io
import re
import xml.etree.ElementTree as ElementTree
import zipfile
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import OpenPage, prefill, wait_until
from tests.browser.dropping import drop_recording
from tests.browser.recording import record_prefill

SVG = "{http://www.w3.org/2000/svg}"


def prepared(open_page: OpenPage, steps: int = 2, **options: Any) -> Page:
    page = open_page(**options)
    prefill(page)
    for step in range(steps):
        page.click("#btn-step")
        expect(page.locator("html")).to_have_attribute("data-painted", str(2 + step), timeout=20_000)
    page.click("#btn-export")
    expect(page.locator("#export")).to_be_focused()
    return page


def taken(page: Page, panel: str, kind: str) -> bytes:
    """Return the file that the button downloads."""
    page.select_option("#export-panel", panel)
    with page.expect_download() as download:
        page.click(f"#export-{kind}")
    return Path(download.value.path()).read_bytes()


def pixels(page: Page, png: bytes) -> dict[str, float]:
    """Return size, number of colours, and the share of the most frequent one, as the browser decodes the picture."""
    found: dict[str, float] = page.evaluate(
        """async (text) => {
          const image = new Image();
          image.src = 'data:image/png;base64,' + text;
          await image.decode();
          const canvas = document.createElement('canvas');
          [canvas.width, canvas.height] = [image.width, image.height];
          const context = canvas.getContext('2d');
          context.drawImage(image, 0, 0);
          const data = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
          const counts = new Map();
          for (const value of data) counts.set(value, (counts.get(value) ?? 0) + 1);
          return {width: image.width, height: image.height, colours: counts.size,
                  commonest: Math.max(...counts.values()) / data.length};
        }""",
        base64.b64encode(png).decode(),
    )
    return found


def texts(svg: bytes) -> list[str]:
    return ["".join(e.itertext()) for e in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_every_panel_is_exported_as_a_nonblank_picture(open_page: OpenPage) -> None:
    page = prepared(open_page)
    panels = page.locator("#export-panel option").evaluate_all("(all) => all.map((option) => option.value)")
    assert {"page", "stage", "token-row", "matrix", "overview", "memory-map", "tables"} <= set(panels)
    for panel in panels:
        svg = taken(page, panel, "svg")
        root = ElementTree.fromstring(svg)
        seen = pixels(page, taken(page, panel, "png"))
        assert seen["width"] == 2 * float(root.attrib["width"]) and seen["height"] == 2 * float(root.attrib["height"])
        assert seen["colours"] > 20, panel
        assert seen["commonest"] < 0.995, panel


def test_an_svg_has_text_as_text_tensors_as_images_and_says_which_record_it_shows(open_page: OpenPage) -> None:
    page = prepared(open_page)
    svg = taken(page, "stage", "svg")
    root = ElementTree.fromstring(svg)
    words = texts(svg)
    assert "春江潮水连海平，海上明月共潮生。" in "".join(words)
    assert any(re.search(r"record 4 of 4 · step 3", text) for text in words)
    assert page.locator("#sentence").inner_text().split()[-1] in " ".join(words)
    images = [e.attrib["href"] for e in root.iter(f"{SVG}image")]
    assert images and all(href.startswith("data:image/png;base64,") for href in images)
    assert root.find(f".//{SVG}foreignObject") is None
    pool = ElementTree.fromstring(taken(page, "tables", "svg"))
    assert not [e for e in pool.iter(f"{SVG}image") if float(e.attrib["width"]) > 20], "a table has no tensors"


def test_exported_canvases_have_double_resolution(open_page: OpenPage) -> None:
    """Canvases in a picture have two pixels for each CSS pixel, also on a screen that has one, and one again
    afterwards.
    """
    page = prepared(open_page, device_scale_factor=1)
    root = ElementTree.fromstring(taken(page, "matrix", "svg"))
    image = next(root.iter(f"{SVG}image"))
    png = base64.b64decode(image.attrib["href"].split(",")[1])
    assert int.from_bytes(png[16:20], "big") >= 2 * float(image.attrib["width"]) - 2
    page.wait_for_function(
        "() => { const { width, clientWidth } = document.querySelector('.matrix canvas');"
        " return Math.abs(width / clientWidth - 1) < 0.02; }"
    )


def test_a_picture_has_the_colours_of_the_theme(open_page: OpenPage) -> None:
    page = prepared(open_page, color_scheme="dark")
    paper = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--paper').trim()")
    svg = taken(page, "tables", "svg").decode()
    assert f'fill="{paper}"' in svg[: svg.index("<g")]


def test_every_record_as_an_image_in_one_zip(open_page: OpenPage) -> None:
    page = prepared(open_page, steps=3)
    page.click("#btn-back")
    page.select_option("#export-panel", "token-row")
    page.fill("#export-from", "2")
    page.keyboard.press("Tab")
    with page.expect_download(timeout=60_000) as download:
        page.click("#export-zip")
    assert download.value.suggested_filename == "kvtheater-token-row-2-5.zip"
    content = zipfile.ZipFile(io.BytesIO(Path(download.value.path()).read_bytes()))
    assert content.testzip() is None
    assert content.namelist() == ["2.png", "3.png", "4.png", "5.png", "captions.txt"]
    pictures = [content.read(name) for name in content.namelist()[:-1]]
    assert len(set(pictures)) == 4, "each record looks different"
    assert all(pixels(page, picture)["colours"] > 20 for picture in pictures)
    captions = content.read("captions.txt").decode().splitlines()
    assert "read the whole prompt at once: 16 tokens" in captions[0] and "record 2 of 5" in captions[0]
    assert "record 5 of 5" in captions[3]
    expect(page.locator("html")).to_have_attribute("data-painted", "3")  # where it was before


def test_an_exported_series_ends_with_the_last_record(open_page: OpenPage, tmp_path: Path) -> None:
    page = prepared(open_page, steps=3)
    expect(page.locator("#export-to")).to_have_value("5")
    drop_recording(page, record_prefill(tmp_path / "short.kvtrace", 4, None))
    expect(page.locator("#export-to")).to_have_value("2")


HOLD = """() => {
  const take = HTMLCanvasElement.prototype.toBlob;
  HTMLCanvasElement.prototype.toBlob = function (...told) { globalThis.release = () => take.apply(this, told); };
}"""


def test_a_series_can_be_cancelled_and_saves_nothing(open_page: OpenPage) -> None:
    page = prepared(open_page, steps=4)
    page.select_option("#export-panel", "page")
    saved: list[Any] = []
    page.on("download", lambda download: saved.append(download))
    page.evaluate(HOLD)
    page.click("#export-zip")
    wait_until(page, "Boolean(globalThis.release)")
    page.click("#export-cancel")
    page.evaluate("globalThis.release()")
    expect(page.locator("#toasts")).to_contain_text("Cancelled")
    expect(page.locator("#export-zip")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-painted", "5")
    assert saved == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_step_fits_on_one_page_of_paper_in_the_light_theme(open_page: OpenPage, scheme: str) -> None:
    page = prepared(open_page, color_scheme=scheme)
    page.keyboard.press("Escape")
    paper = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) == 1
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    for part in (".running-text", ".token-row", ".pool-scroll", "#memory-figures", "#sentence", "#print-link"):
        expect(page.locator(part)).to_be_visible()
    for part in (".setup", "#btn-step", ".header-tools"):
        expect(page.locator(part)).to_be_hidden()
    assert "theater=" in page.locator("#print-link").inner_text()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(page.locator("html")).to_have_attribute("data-theme", "auto")


@pytest.mark.parametrize(
    ("query", "width", "height"),
    [("", 1280, 640), ("&detail_large=1", 1280, 720), ("&region=detail", 390, 844), ("&region=memory", 390, 844)],
)
def test_a_printout_has_the_token_row_at_every_window_size(
    open_page: OpenPage, query: str, width: int, height: int
) -> None:
    page = open_page(f"/?max_tokens=8&ignore_eos=1{query}", width=width, height=height)
    page.click("#btn-prefill")
    expect(page.locator("html")).to_have_attribute("data-painted", "1")
    shown = page.evaluate(
        """() => {
          dispatchEvent(new Event('beforeprint'));  // what is there when it returns is on paper
          const canvas = document.querySelector('.token-row-window canvas');
          const at = (row) => document.querySelector(`.gutter-row.of-${row}`).getBoundingClientRect();
          const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
          let painted = 0;
          for (let i = 3; i < pixels.length; i += 4) painted += pixels[i] > 200;
          return [document.querySelector('.token-row').clientHeight, at('k').height, at('v').height,
            painted / (canvas.width * canvas.height)];
        }"""
    )
    assert shown[0] >= 330 and shown[1] > 40 and shown[2] > 40 and shown[3] > 0.1, shown
    page.emulate_media(media="print")
    expect(page.locator(".token-row")).to_be_visible()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.querySelector('.token-row').style.height") == ""


def test_a_printout_starts_the_token_row_at_its_beginning_and_marks_its_cut(open_page: OpenPage) -> None:
    page = open_page("/?max_tokens=40&ignore_eos=1&speed=0")
    prefill(page)
    page.click("#btn-run")
    expect(page.locator(".status.finished")).to_have_count(1, timeout=30_000)
    scrolled = page.evaluate("document.querySelector('#token-row-scroll').scrollLeft")
    assert scrolled > 100
    expect(page.locator(".token-row-cut")).to_be_hidden()
    drawn = page.evaluate(
        """() => {
          dispatchEvent(new Event('beforeprint'));  // what is there when it returns is on paper
          const box = document.querySelector('#token-row-scroll').getBoundingClientRect();
          const whole = [...document.querySelectorAll('.token')]
            .filter((e) => e.getBoundingClientRect().left >= box.left && e.getBoundingClientRect().right <= box.right)
            .map((e) => Number(e.dataset.position));
          return { first: Math.min(...whole), last: Math.max(...whole) };
        }"""
    )
    assert drawn["first"] == 0
    page.emulate_media(media="print")
    expect(page.locator(".token-row-cut")).to_be_visible()
    expect(page.locator(".token-row-cut")).to_contain_text(f"positions 0 to {drawn['last']} of 56")
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.querySelector('#token-row-scroll').scrollLeft") == scrolled
