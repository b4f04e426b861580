"""Blocks outside the pool on the page: shelves under the pool, where a loaded key came from, why it was loaded."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from app.ground.settings import ServerSettings
from app.models.live_model import LiveModel
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.server.application import create_app
from app.server.listener import Listener, bind
from engine.config import EngineConfig
from engine.connector.tiers.tiers import Tiers
from engine.model.loader import load_model
from tests.browser.axe import AXE, fail_on_violations, violations
from tests.browser.driving import OpenPage, prefill, select, step, wait_for_record

SHELF = '#tiers [data-medium="cpu"]'


@pytest.fixture(scope="module")
def offloading() -> Iterator[str]:
    """Start a server that stores full blocks in CPU memory."""
    tiers = Tiers(cpu_bytes=1 << 20)
    settings = ServerSettings(config=EngineConfig(block_size=4, num_blocks=48, enforce_eager=True))
    live = LiveModel(load_model("bundled"), True, settings, tiers)
    listener = Listener(create_app(Models(ModelEntry(live, "bundled")), settings), bind("127.0.0.1", 0))
    yield f"http://127.0.0.1:{listener.port}"
    listener.close()
    tiers.close()


def opened(open_page: OpenPage, url: str, **options: bool | int) -> Page:
    """Open a page of that server in place of the fixture's page."""
    page = open_page(**options)
    page.goto(f"{url}/?distance=bench&region=setup")
    page.wait_for_selector("#connection.live")
    return page


def test_a_prompt_of_an_earlier_run_is_loaded_and_the_page_says_from_where(
    open_page: OpenPage, offloading: str
) -> None:
    """The prompt has four blocks of 4 tokens: all are stored, and three can be loaded because the last token is
    computed.
    """
    page = opened(open_page, offloading)
    prefill(page)
    step(page)
    expect(page.locator(f"{SHELF} .tier-held")).to_have_text("4 blocks · 32\u2009KiB of 1\u2009MiB")  # 4 · 8 KiB
    page.click("#btn-reset")
    expect(page.locator("html")).to_have_attribute("data-num-records", "0")
    page.click("#btn-add")
    wait_for_record(page, 0)
    step(page)
    sentence = page.locator("#sentence")
    expect(sentence).to_contain_text("The next 12 tokens of seq 0 had been computed before")
    expect(sentence).to_contain_text("Computing again: ")  # measured: the run before has computed a prompt
    expect(sentence).to_contain_text("3 blocks (0–2) of seq 0 come from CPU memory, already full.")
    expect(sentence).to_contain_text("Only the other 4 were computed")
    expect(page.locator(".panel-foot").first).to_have_text("hatched: computed elsewhere, loaded")
    page.click('[data-position="2"]')
    loaded = page.locator('#region-provenance [data-kind="loaded"]')
    expect(loaded).to_contain_text("was loaded from CPU memory. Another run computed it, whose log is not here.")
    expect(page.locator('#region-provenance [data-kind="written"]')).to_have_count(0)
    select(page, '{"seq": 0}')
    outside = page.locator('#region-provenance [data-kind="outside"]')
    expect(outside).to_contain_text("12 of the 12 tokens that follow, 3 blocks, 24\u2009KiB. They are loaded.")
    expect(outside).to_contain_text("Expected from what both took on this machine so far: loading ")


@pytest.mark.parametrize("width", [390, 1280])
def test_cache_tiers_fit_and_pass_axe(open_page: OpenPage, offloading: str, width: int) -> None:
    page = opened(open_page, offloading, width=width, bypass_csp=True)
    page.add_script_tag(path=str(AXE))
    prefill(page)
    page.evaluate("import('/static/js/state/settings.js').then(({settings}) => { settings.region.value = 'memory'; })")
    expect(page.locator(SHELF)).to_be_visible()
    over = page.evaluate(
        "[...document.querySelectorAll('#tiers *')].filter((e) => e.scrollWidth > e.clientWidth + 1).length"
    )
    assert over == 0
    fail_on_violations({f"{width} px": violations(page)})


def test_a_run_without_cache_tiers_shows_none(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    expect(page.locator("#tiers, .tiers-room")).to_have_count(0)
