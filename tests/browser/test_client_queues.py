"""Time → Engine of a run that several clients share: client queues, queue, one step, streams."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.loader import from_module
from tests.browser.axe import fail_on_violations, open_with_axe, violations
from tests.browser.driving import OpenPage, wait_for_record
from tests.browser.dropping import drop_recording
from tests.tiny_models import tiny_model, tiny_tokenizer


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Serve two requests of alice, which make a step, and then one of bob, which had waited an hour for its turn."""
    path = tmp_path_factory.mktemp("shared") / "shared.kvtrace"
    model = from_module(tiny_model("llama"), tiny_tokenizer(), "tiny-llama")
    params = SamplingParams(max_tokens=3, ignore_eos=True)
    with Engine(model, EngineConfig(block_size=4, num_blocks=32, max_num_seqs=1), log_path=path) as engine:
        for i in range(2):
            engine.add_request([3, 4, 5, 6 + i], params, f"a{i}", client="alice")
        engine.step()
        engine.add_request([3, 4, 5, 9], params, "b0", client="bob", waited=3600.0)
        while engine.has_unfinished():
            engine.step()
    return path


def cells(page: Page) -> list[list[str]]:
    found: list[list[str]] = page.locator(".clients-row:not(.clients-names)").evaluate_all(
        "(rows) => rows.map((row) => [...row.querySelectorAll('[role=cell]')].map((cell) => cell.innerText.trim()))"
    )
    return found


def test_client_queues_lead_to_a_step_and_its_tokens_to_streams(open_page: OpenPage, shared: Path) -> None:
    page = open_page("/?detail=time&chart=flow&lang=en")
    drop_recording(page, shared)
    page.evaluate("import('/static/js/state/settings.js').then(({ settings }) => (settings.step.value = 2))")
    wait_for_record(page, 2)  # records 0 and 1 are alice's submissions, 2 is the step that computes the first of them
    expect(page.locator(".clients-row:not(.clients-names)")).to_have_count(2)
    alice, bob = cells(page)
    assert alice[0].split() == ["alice", "·"] and bob[0].split() == ["bob", "1"]  # he waits, as his submission says
    assert "1 sequence" in alice[1] and alice[2].startswith("4 tokens")
    assert bob[1:] == ["·", "·", "·"]
    expect(page.locator(".clients-token")).to_have_count(1)
    expect(page.locator("#clients [role=status]")).to_contain_text("4 tokens for 1 client in")
    page.evaluate("import('/static/js/state/settings.js').then(({ settings }) => (settings.step.value = 3))")
    wait_for_record(page, 3)
    assert cells(page)[1][0].split() == ["bob", "·"]
    expect(page.locator("#clients [role=status]")).to_contain_text("no step here")


def test_a_run_without_clients_has_no_client_queues(open_page: OpenPage) -> None:
    page = open_page("/?recording=rec-moon&detail=time&chart=flow", connection="replay")
    expect(page.locator(".flow-parts")).to_be_visible()
    expect(page.locator("#clients")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible(open_page: OpenPage, shared: Path, scheme: str) -> None:
    page = open_with_axe(open_page, "/?detail=time&chart=flow", color_scheme=scheme)
    drop_recording(page, shared)
    page.evaluate("import('/static/js/state/settings.js').then(({ settings }) => (settings.step.value = 2))")
    expect(page.locator("#clients")).to_be_visible()
    fail_on_violations({"clients": violations(page)})
