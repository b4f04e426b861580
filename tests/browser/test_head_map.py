"""Models of many layers and heads: one map of all heads, one layer alone, and the initial head."""

import re
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, Request, expect

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.capture import CaptureRequest
from engine.model.loader import from_module
from tests.browser.axe import open_with_axe, violations
from tests.browser.driving import OpenPage, wait_until
from tests.browser.dropping import drop_recording
from tests.browser.settling import wait_until_still
from tests.tiny_models import tiny_model, tiny_tokenizer

LAYERS, HEADS, KV_HEADS, DIM = 30, 16, 4, 8
LOOKING = (7, 5)  # layer and head whose queries equal its keys
CHOSEN = """() => import('/static/js/state/store.js').then((store) => [store.layer.value, store.head.value])"""

# whether the arrays of every layer of some record are here
WHOLE = "(log) => log?.arrivals.some((one) => one.layer === null)"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compute a prefill of 24 tokens and four decode steps of a random model, one of whose heads attends to itself."""
    module = tiny_model(
        "llama", num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=DIM
    )
    layer, head = LOOKING
    attention = module.model.layers[layer].self_attn
    kv = head // (HEADS // KV_HEADS)
    with torch.no_grad():
        keys = attention.k_proj.weight[kv * DIM : (kv + 1) * DIM]
        attention.q_proj.weight[head * DIM : (head + 1) * DIM] = 4 * keys
    path = tmp_path_factory.mktemp("large") / "large.kvtrace"
    model = from_module(module, tiny_tokenizer(), "large")
    with Engine(model, EngineConfig(), log_path=path, capture=CaptureRequest()) as engine:
        engine.add_request(list(range(3, 27)), SamplingParams(max_tokens=5, ignore_eos=True))
        while engine.num_unfinished:
            engine.step()
    return path


def shown(page: Page) -> list[int]:
    found: list[int] = page.evaluate(CHOSEN)
    return found


def test_the_head_map_shows_what_each_head_attends_to(open_page: OpenPage, large: Path) -> None:
    page = open_with_axe(open_page, "/?detail=attention")
    drop_recording(page, large)
    kinds = page.locator(".map-kind")
    expect(kinds.filter(has_text=re.compile("itself"))).to_be_visible()
    assert page.locator(".cell").count() == 0, "no button for each of 480 heads"
    kinds.filter(has_text="itself").click()
    assert shown(page) == list(LOOKING)
    expect(page.locator("#pattern option:checked")).to_have_text("looks at itself")
    page.locator(".patterns .fidelity").hover()
    expect(page.locator("[role=tooltip]")).to_contain_text("derived: Σ weight")
    page.locator(".head-map").hover(position={"x": 40, "y": 40})
    expect(page.locator("[role=tooltip]")).to_contain_text(re.compile(r"Layer \d+, head \d+"))
    page.mouse.move(2, 2)
    wait_until_still(page)
    assert [line for line in violations(page) if "token-text" not in line] == []  # the stage's letters fade in


def test_arrows_walk_over_the_map_and_enter_shows_a_layer(open_page: OpenPage, large: Path) -> None:
    page = open_page("/?detail=attention")
    drop_recording(page, large)
    before = shown(page)
    heads = page.locator(".head-map")
    heads.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "ArrowRight", "PageDown"):
        page.keyboard.press(key)
    after = [min(LAYERS - 1, before[0] + 2), min(HEADS - 1, before[1] + 1)]
    assert shown(page) == after
    page.keyboard.press("Enter")
    cells = page.locator(".overview .cell")
    expect(cells).to_have_count(HEADS)
    expect(page.locator(f'[data-cell="{after[0]}/{after[1]}"]')).to_have_attribute("aria-selected", "true")
    expect(page.locator(f'[data-cell="{after[0]}/{after[1]}"]')).to_be_focused()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("PageUp")
    left = [after[0] - 1, after[1] - 1]
    expect(page.locator(f'[data-cell="{left[0]}/{left[1]}"]')).to_be_focused()
    assert shown(page) == left
    page.locator("#overview-layer").press("Enter")
    expect(heads).to_be_visible()
    heads.click(position={"x": 6, "y": 60})  # a layer's number
    expect(cells).to_have_count(HEADS)


def test_the_head_map_shows_the_newest_row_and_stays_still(open_page: OpenPage, large: Path) -> None:
    page = open_page("/?detail=attention&overview=row")
    drop_recording(page, large)
    opened = shown(page)
    expect(page.locator(".map-legend")).to_have_count(0)
    for key in ("ArrowLeft", "ArrowLeft", "ArrowRight"):
        page.keyboard.press(key)
        wait_until_still(page)
    assert shown(page) == opened


def test_the_arrays_of_a_record_come_in_one_request(open_page: OpenPage, large: Path, live_server: str) -> None:
    """The server's recordings are fetched as needed: 30 layers do not take 30 requests."""
    page = open_page("/?detail=attention&overview=row")
    address, headers = f"{live_server}/api/recordings?name=large", {"Content-Type": "application/octet-stream"}
    kept = page.request.post(address, data=large.read_bytes(), headers=headers).json()
    requests: list[Request] = []
    page.on("request", lambda request: requests.append(request) if "/api/theaters/" in request.url else None)
    page.goto(f"{live_server}/?recording={kept['id']}&detail=attention&overview=row")
    expect(page.locator(".matrix .panel-foot")).to_have_text("query ↓ · key → · row to its max")
    wait_until(page, f"import('/static/js/state/store.js').then((s) => ({WHOLE})(s.log.value))")
    wait_until_still(page)
    for _ in range(100):  # a request is reported shortly after it is sent
        whole = [request.url for request in requests if request.url.split("?")[0].endswith("/capture")]
        if whole:
            break
        page.wait_for_timeout(50)
    layers = {match[1] for request in requests if (match := re.search(r"/layers/(\d+)", request.url))}
    assert whole and len(whole) == len(set(whole)) and len(layers) <= 2, (whole, layers)
