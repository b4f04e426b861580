"""Write the pictures of README and documentation, by running the server in Chromium.

Usage: python -m tools.pictures

- `first_look.webp`: the opening (a recorded run), then steps of a live run in the intro view
- `stage.png`: a live run of the scene "The same beginning twice"
- `scheduler.png`: a live run of the scene "Too few blocks", with the scheduler's tracks

A font with Chinese characters must be installed, because the page shows the name of its other language.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "img"
SIZE = (1040, 700)  # CSS pixels of the animated picture
FILM = [0.6 * at for at in range(1, 72)]  # times of the opening that are shown, in seconds
LIVE_STEPS = 8
STEPS_AFTER = 4  # number of steps after the preemption
FRAME_MS, STEP_MS, LAST_MS = 220, 700, 2500
MAX_BYTES = 3_000_000
SKIP_OPENING = "localStorage.setItem('kvtheater.opening', 'seen'); localStorage.setItem('kvtheater.tour', 'done')"


@contextmanager
def server() -> Iterator[str]:
    """Serve the bundled model on a free port, with an empty data folder. Yields the address."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "app", "serve", "--port", "0", "--data-dir", folder, "--enforce-eager"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert process.stdout is not None
            found = re.search(r"http://[\w.:]+", process.stdout.readline())
            assert found, "the server printed no address"
            yield found.group()
        finally:
            process.terminate()
            process.wait(30)


def open_page(browser: Browser, address: str, size: tuple[int, int], init: str = "") -> Page:
    """Open a page in a new browser context."""
    view = ViewportSize(width=size[0], height=size[1])
    context = browser.new_context(viewport=view, locale="en-US", color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(90_000)
    if init:
        page.add_init_script(init)
    page.goto(address)
    return page


def first_look(browser: Browser, url: str) -> list[tuple[Image.Image, int]]:
    """Return the frames of the animated picture with their durations in milliseconds."""
    frames: list[tuple[Image.Image, int]] = []

    def take_frame(page: Page, milliseconds: int) -> None:
        page.wait_for_timeout(120)
        frames.append((Image.open(io.BytesIO(page.screenshot())).convert("RGB"), milliseconds))

    film = open_page(browser, url, SIZE)
    film.wait_for_selector("#opening[data-ready=true]")
    film.click("#opening-play")
    for second in FILM:
        film.locator("#opening-time").fill(f"{second:.2f}")
        take_frame(film, FRAME_MS)
    film.context.close()

    live = open_page(browser, f"{url}/?distance=look", SIZE, SKIP_OPENING)
    live.wait_for_selector("#intro-step:not([disabled])")
    for _ in range(LIVE_STEPS):
        before = live.get_attribute("#intro", "data-records")
        live.click("#intro-step")
        live.wait_for_selector(f"#intro:not([data-records='{before}'])")
        live.wait_for_timeout(900)  # animation of the step
        take_frame(live, STEP_MS)
    frames.append((frames.pop()[0], LAST_MS))
    live.context.close()
    return frames


def animate(frames: list[tuple[Image.Image, int]], path: Path) -> None:
    """Write an animated WebP that loops.

    Raises:
        ValueError: the file is larger than `MAX_BYTES`.
    """
    images = [image for image, _ in frames]
    durations = [milliseconds for _, milliseconds in frames]
    images[0].save(path, save_all=True, append_images=images[1:], duration=durations, loop=0, quality=68, method=6)
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(
            f"{path} has {path.stat().st_size:,} bytes, but at most {MAX_BYTES:,} are allowed: lower `quality`"
        )


def open_scene(browser: Browser, url: str, scene: str, detail: str) -> Page:
    """Open a scene in the full page. The first step submits its prompts."""
    page = open_page(browser, f"{url}/?distance=bench&scene={scene}&detail={detail}", (1280, 800), SKIP_OPENING)
    page.wait_for_selector("#connection.live")
    page.wait_for_timeout(1500)
    return page


def write_screenshots(browser: Browser, url: str) -> None:
    stage = open_scene(browser, url, "shared-prefix", "attention")
    for _ in range(5):
        stage.keyboard.press("s")
        stage.wait_for_timeout(1200)
    stage.screenshot(path=FOLDER / "stage.png")
    stage.context.close()

    panel = open_scene(browser, url, "preemption", "scheduler")
    after = 0
    while after < STEPS_AFTER:
        panel.keyboard.press("s")
        panel.wait_for_timeout(700)
        after += panel.get_by_text("preempted", exact=True).count() > 0
    panel.wait_for_timeout(1000)
    panel.screenshot(path=FOLDER / "scheduler.png")
    panel.context.close()


def main() -> None:
    names = (os.environ.get("KVTHEATER_CHROMIUM", ""), "chromium-headless-shell", "chromium")
    chromium = next((found for name in names if (found := shutil.which(name))), None)
    with server() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        animate(first_look(browser, url), FOLDER / "first_look.webp")
        write_screenshots(browser, url)
        browser.close()


if __name__ == "__main__":
    main()
