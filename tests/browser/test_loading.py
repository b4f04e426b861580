"""The page while its server loads the model: the opening plays, the loading status is shown, and the page goes live by
itself.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import AXE, fail_on_violations, violations
from tests.browser.driving import OpenPage, prefill, wait_until
from tests.browser.message_server import CommandedServer

# What comes on its standard input becomes of the model: a stage, `ready`, `compiling`, `compiled`, or anything else as
# why it failed.
SERVE = """
import sys
from app.models.registry import Models
from app.models.model_entry import ModelEntry
from app.server.application import create_app
from app.server.listener import Listener, bind
from app.ground.settings import ServerSettings
from engine.config import EngineConfig
from engine.model.loading_stages import LOADING_STAGES
from tests.server.fake import FakeModel
served = ModelEntry.loading("held")
COMPILED = {"compiling": "under_way", "compiled": "done"}
app = create_app(Models(served), ServerSettings(config=EngineConfig(block_size=4, num_blocks=64)))
listener = Listener(app, bind("127.0.0.1", 0))
print(listener.port, flush=True)
for line in sys.stdin:
    word = line.strip()
    if word in LOADING_STAGES:
        served.set_stage(word)
    elif word == "ready":
        served.set_model(FakeModel())
    elif word in COMPILED:
        served.set_compiled(COMPILED[word])
    else:
        served.set_failed(word)
        break
listener.close()
"""


@pytest.fixture
def held() -> Iterator[CommandedServer]:
    """Start a server whose model is loaded when the test allows it."""
    server = CommandedServer(SERVE)
    yield server
    server.end()


def opened(open_page: OpenPage, url: str, **options: Any) -> Page:
    """Open a page of that server, whatever the status of its model."""
    return open_page(url, until="#connection, #intro, #model-way", **options)


def test_the_page_works_before_the_model_is_loaded(open_page: OpenPage, held: CommandedServer) -> None:
    page = opened(open_page, held.url)
    held.say("weights")
    way = page.locator("#model-way")
    expect(way.locator("[aria-current=step]")).to_have_text(re.compile("weights"))
    assert way.locator("li").evaluate_all("all => all.map((one) => one.dataset.state)") == [
        "done", "done", "now", "later",
    ]  # fmt: skip
    expect(page.locator("#connection")).to_have_text(re.compile("model loading"))
    expect(page.locator("#btn-prefill")).to_be_disabled()
    expect(page.locator(".toast")).to_have_count(0)
    page.evaluate("globalThis.stays = true")
    held.say("ready")
    expect(page.locator("#connection")).to_have_class(re.compile("live"))
    expect(way).to_have_count(0)
    prefill(page, "once upon a time")
    assert page.evaluate("globalThis.stays") is True
    held.say("compiling")
    expect(page.locator("#compiling")).to_have_text("compiling")
    expect(page.locator("#compiling")).to_have_attribute(
        "title", re.compile("takes over once no request is unfinished")
    )
    held.say("compiled")
    expect(page.locator("#compiling")).to_have_count(0)


@pytest.mark.parametrize(
    ("path", "scheme", "locale", "width"),
    [
        ("/", "light", "en-US", 1280),
        ("/", "dark", "zh-CN", 390),
        ("/?distance=look", "dark", "zh-CN", 390),
        ("/?distance=room", "light", "en-US", 1280),
    ],
)
def test_the_page_passes_axe_while_a_model_loads(
    open_page: OpenPage, held: CommandedServer, path: str, scheme: str, locale: str, width: int
) -> None:
    held.say("weights")
    page = opened(open_page, held.url + path, color_scheme=scheme, locale=locale, width=width, bypass_csp=True)
    page.add_script_tag(path=str(AXE))
    expect(page.locator("#intro-sentence, #model-way").first).to_contain_text("held")
    fail_on_violations({path: violations(page)})
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_the_opening_plays_during_loading_and_says_when_the_model_is_ready(
    open_page: OpenPage, held: CommandedServer
) -> None:
    page = open_page(opening=True, motion=True)
    page.evaluate("localStorage.clear()")
    page.goto(held.url)
    page.wait_for_selector("#opening[data-ready=true]")
    held.say("vocabulary")
    model = page.locator("#opening-model")
    expect(model).to_have_text("held is getting ready (2 of 4: vocabulary).")
    before = page.locator("#opening-time").evaluate("(input) => input.valueAsNumber")
    wait_until(page, f"document.getElementById('opening-time').valueAsNumber > {before + 0.3}")
    held.say("ready")
    expect(model).to_have_text("The live model is ready.")
    page.click("#opening-skip")
    expect(page.locator("#intro-step")).to_be_enabled()
    page.click("#intro-step")
    wait_until(page, "Number(document.getElementById('intro').dataset.records) > 0")


def test_words_typed_during_loading_wait_for_the_model(open_page: OpenPage, held: CommandedServer) -> None:
    """The wait may be long: here longer than a word of the fan would wait."""
    page = open_page(opening=True)
    page.evaluate("localStorage.clear()")
    page.clock.install()
    page.goto(held.url)
    page.wait_for_selector("#opening[data-ready=true]")
    page.locator("#opening-time").fill("44.9")
    page.fill("#own-words", "once upon a time")
    page.keyboard.press("Enter")
    page.clock.fast_forward(60_000)
    expect(page.locator("#own-go")).to_have_text("Waiting …")
    held.say("ready")
    expect(page.locator(".intro-text .prompt")).to_have_text("once upon a time")


def test_a_recording_is_shown_during_loading(open_page: OpenPage, held: CommandedServer) -> None:
    page = opened(open_page, f"{held.url}/?recording=rec-moon&step=6")
    page.wait_for_selector("#connection.replay")
    expect(page.locator("html")).to_have_attribute("data-painted", "6")


def test_the_page_says_why_a_model_failed_to_load(open_page: OpenPage, held: CommandedServer) -> None:
    page = opened(open_page, held.url)
    held.say("weights")
    expect(page.locator("#model-way")).to_be_visible()
    held.say("its weights are no safetensors")
    notice = page.locator("#notice")
    expect(notice).to_contain_text("could not open its model and has ended: its weights are no safetensors.")
    expect(page.locator("#connection")).to_have_class(re.compile("lost"))
