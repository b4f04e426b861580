"""Choice of a model on the page: by mouse, keyboard and touch; links contain it; each choice is a new run."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import fail_on_violations, open_with_axe, violations
from tests.browser.driving import OpenPage, prefill, wait_for_record, wait_until
from tests.browser.message_server import CommandedServer

MODEL = "import('/static/js/state/run.js').then(({ own }) => own.log.value?.header.model.name)"
MHA, GQA, MQA = "bundled-mha", "bundled-gqa", "bundled-mqa"


def is_on(page: Page, name: str) -> None:
    wait_until(page, f"{MODEL}.then((name) => name === {name!r})")


def served(page: Page) -> dict[str, dict[str, Any]]:
    found = page.evaluate("fetch('/api/models').then((r) => r.json())")["models"]
    return {one["status"]["name"]: one for one in found}


def test_a_link_names_the_model_and_the_header_leads_to_the_others(open_page: OpenPage) -> None:
    page = open_page(f"/?model={GQA}")
    is_on(page, GQA)
    prefill(page, "Who has seen the wind?")
    page.click("#btn-models")
    row = page.locator(f'#models [data-model="{GQA}"]')
    expect(row).to_have_attribute("aria-pressed", "true")
    expect(row).to_contain_text("GQA, 8 query heads to 2 KV heads · 768 B of K and V a token")
    megabytes = served(page)[GQA]["status"]["bytes"] / 2**20
    expect(row).to_contain_text(f"weights {megabytes:.3g}\u2009MiB")
    expect(page.locator("#models-memory")).to_contain_text("Weights in memory:")
    page.click('#models [data-model="bundled"]')
    is_on(page, "bundled")
    expect(page.locator("#models")).to_have_count(0)
    expect(page.locator("#btn-models")).to_have_count(0)  # as if there were one model, for the others are only at hand
    wait_until(page, "!location.search.includes('model=')")
    expect(page.locator("#prompt")).to_have_value("Who has seen the wind?")  # it waits to be sent again
    page.click("#btn-prefill")
    wait_for_record(page, 1)


def test_a_model_is_chosen_by_keyboard_and_the_scene_starts_again(open_page: OpenPage) -> None:
    page = open_page(f"/?model={MHA}")
    is_on(page, MHA)
    page.select_option("#scene", "moon")
    page.click("#btn-scene")
    wait_until(page, "location.search.includes('scene=moon')")
    page.focus("#btn-models")
    page.keyboard.press("Enter")
    expect(page.locator("#models")).to_be_focused()
    expect(page.locator(f'#models [data-model="{MQA}"]')).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#btn-models")).to_be_focused()
    page.keyboard.press("Enter")
    page.locator(f'#models [data-model="{MQA}"]').focus()
    page.keyboard.press("Enter")
    is_on(page, MQA)
    expect(page.locator("#btn-models")).to_contain_text(MQA)
    wait_for_record(page, 0)  # the scene's prompts wait
    wait_until(page, f"location.search.includes('model={MQA}') && location.search.includes('scene=moon')")
    page.reload()
    is_on(page, MQA)


def test_an_unknown_model_in_a_link_falls_back_to_the_first(open_page: OpenPage) -> None:
    page = open_page("/?model=of-another-server")
    is_on(page, "bundled")
    expect(page.locator(".toast")).to_contain_text("this server has no model 'of-another-server'")
    wait_until(page, "!location.search.includes('model=')")


def test_runs_to_compare_are_named_by_their_models(open_page: OpenPage) -> None:
    page = open_page(f"/?model={GQA}")
    is_on(page, GQA)
    prefill(page, "Tyger Tyger")
    other = open_page("/?detail=compare")
    names = other.locator("#compare option", has_text="Tyger Tyger")
    expect(names.filter(has_text=f"· {GQA} ·").first).to_be_attached()


@pytest.mark.parametrize(("width", "height", "locale"), [(1280, 720, "en-US"), (390, 844, "zh-CN")])
def test_the_choice_of_models_passes_axe_and_fits_touch(
    open_page: OpenPage, width: int, height: int, locale: str
) -> None:
    phone = width < 720
    page = open_with_axe(
        open_page, f"/?model={GQA}", width=width, height=height, locale=locale, is_mobile=phone, has_touch=phone
    )
    is_on(page, GQA)
    page.click("#btn-models")
    expect(page.locator("#models-memory")).to_be_visible()
    fail_on_violations({"models": violations(page)})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    if phone:
        for target in ("#btn-models", f'#models [data-model="{MQA}"]'):
            box = page.locator(target).bounding_box()
            assert box and box["height"] >= 44 and box["width"] >= 40, target


# Each line on its standard input lets one more model be read.
SERVE = """
import sys
from app.models.registry import Models
from app.models.model_entry import ModelEntry
from app.server.application import create_app
from app.server.listener import Listener, bind
from app.ground.settings import ServerSettings
from engine.config import EngineConfig
from tests.server.fake import FakeModel
class Opener:
    def weigh(self, name):
        return 8 << 20
    def open(self, served):
        served.set_stage("weights")
        if sys.stdin.readline().strip() == "break":
            raise ValueError("it has no safetensors")
        served.set_model(FakeModel(served.name, 8 << 20))
others = [ModelEntry.unloaded(name, "named") for name in ("second", "third")]
models = Models(ModelEntry(FakeModel("first", 8 << 20)), others, Opener(), lambda: 64 << 20)
app = create_app(models, ServerSettings(config=EngineConfig(block_size=4, num_blocks=64)))
listener = Listener(app, bind("127.0.0.1", 0))
print(listener.port, flush=True)
import threading
threading.Event().wait()
"""


@pytest.fixture
def slow() -> Iterator[CommandedServer]:
    """Start a server whose other models are loaded when the test allows it."""
    server = CommandedServer(SERVE)
    yield server
    server.end()


def test_slow_loading_is_reported(open_page: OpenPage, slow: CommandedServer) -> None:
    """The model is opened by a link, or chosen beside the current run; a model that fails to load leaves the run
    unchanged.
    """
    page = open_page(f"{slow.url}/?model=second", until="#model-way")
    expect(page.locator("#model-way")).to_contain_text("second is getting ready:")
    slow.say("ready")
    is_on(page, "second")
    page.click("#btn-models")
    expect(page.locator('#models [data-model="first"]')).to_contain_text("ready")
    page.click('#models [data-model="third"]')
    row = page.locator('#models [data-model="third"]')
    expect(row).to_contain_text("getting ready (3 of 4: weights)")
    expect(row).to_have_attribute("aria-busy", "true")
    slow.say("break")
    expect(page.locator(".model-why", has_text="it has no safetensors")).to_be_visible()
    expect(row).to_contain_text("could not be opened")
    is_on(page, "second")
    page.click('#models [data-model="third"]')
    slow.say("ready")
    is_on(page, "third")
    expect(page.locator("#btn-models")).to_contain_text("third")


def test_memory_figures_lead_to_the_contents_of_the_device(open_page: OpenPage) -> None:
    """Each part is the server's own figure, refreshed while the panel is open."""
    page = open_page("/")
    prefill(page, "Who has seen the wind?")
    page.click("#btn-device")
    device = page.locator("#device")
    expect(device.locator("[data-part=free] dd")).to_be_visible()
    device_facts = page.evaluate("fetch('/api/models').then((r) => r.json())")["device"]
    megabytes = device_facts["weights_bytes"] / 2**20
    expect(device.locator("[data-part=weights] dd")).to_have_text(f"{megabytes:.3g}\u2009MiB")
    expect(page.locator("#device-facts")).not_to_contain_text("MHz")  # no driver tells of it here
    with page.expect_response("**/api/models"):
        page.wait_for_timeout(3500)
    page.keyboard.press("Escape")
    expect(device).to_have_count(0)
