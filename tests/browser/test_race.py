"""The race of three strategies in lockstep, with and without a cache, agrees with the server's records."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import fail_on_violations, open_with_axe, violations
from tests.browser.driving import OpenPage, prefill, step, wait_for_record
from tests.browser.settling import wait_for_value

OWN = "import('/static/js/state/run.js').then(({ own }) => own.numRecords.value)"


TOUCHING = """() => [...document.querySelectorAll('.race-lanes tr')].flatMap((row) => {
  const texts = [...row.children].map((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return { text: cell.textContent, box: range.getBoundingClientRect() };
  });
  return texts.slice(1).filter(({ box }, i) => box.left - texts[i].box.right < 4).map(({ text }) => text);
})"""


def steps(page: Page, count: int) -> None:
    """Take `count` steps of the race, one at a time."""
    expect(page.locator("#race")).to_have_attribute("data-phase", "ready")
    for _ in range(count):
        before = int(page.locator("#race").get_attribute("data-step") or 0)
        page.click("#btn-step")
        expect(page.locator("#race")).to_have_attribute("data-step", str(before + 1))


def run_to_the_end(page: Page) -> None:
    expect(page.locator("#race")).to_have_attribute("data-phase", "ready")
    # a phone has the choice of speed behind a button
    page.evaluate("import('/static/js/state/settings.js').then(({ settings }) => { settings.speed.value = 0; })")
    page.click("#btn-run")
    expect(page.locator("#race")).to_have_attribute("data-phase", "done", timeout=60_000)


def figure(page: Page, strategy: str, name: str) -> str:
    return page.locator(f'[data-strategy-lane="{strategy}"] [data-figure="{name}"]').inner_text()


def records_of(page: Page, strategy: str, like: str) -> list[dict[str, Any]]:
    """Return the records of the newest race with this strategy, from the server; `like`: the first token of its
    prompt.
    """
    theaters = page.evaluate("fetch('/api/theaters').then((r) => r.json())")["theaters"]
    for theater in reversed(theaters):
        if theater["name"] != f"race: {strategy}":
            continue
        count, path = theater["status"]["num_records"], f"/api/theaters/{theater['theater']}/records"
        found: list[dict[str, Any]] = [
            page.evaluate("(url) => fetch(url).then((r) => r.json())", f"{path}/{i}?format=json") for i in range(count)
        ]
        if found and found[0]["ops"][0]["prompt_token_bytes"][0] == like.encode().hex():
            return found
    pytest.fail(f"no race of {strategy}")


def test_the_figures_are_those_of_the_servers_records(open_page: OpenPage) -> None:
    """Two pages race at once with random sampling, each in its own sessions, with the same tokens for all
    strategies.
    """
    other, page = (open_page("/?detail=race&max_tokens=12&ignore_eos=1&temperature=1.2&seed=11") for _ in range(2))
    page.fill("#prompt", "空山新雨后，天气晚来秋。")
    expect(page.locator("#sentence")).to_contain_text("the prompt: 12 tokens")  # updated after a pause in typing
    other.select_option("#speed", "0")
    other.click("#btn-run")
    run_to_the_end(page)
    expect(page.locator("#race-verdict")).to_have_text("12 of 12 the same in all three")
    chosen = {}
    for strategy in ("none", "contiguous", "paged"):
        records = [r for r in records_of(page, strategy, "空") if r["kind"] == "step"]
        assert not any(r["has_capture"] for r in records), "nobody looks at its tensors, and they would cost time"
        total = sum(len(entry["token_ids"]) for r in records for entry in r["batch"])
        assert figure(page, strategy, "totalComputed").replace("\u2009", "") == str(total)
        if strategy == "none":
            assert figure(page, strategy, "kept") == "0\u2009B" and figure(page, strategy, "transient") != "0\u2009B"
            assert {r["memory"]["bytes_used"] for r in records} == {0}, "nothing stays from step to step"
        chosen[strategy] = [o["token_id"] for r in records for o in r["outputs"]]
    assert chosen["none"] == chosen["contiguous"] == chosen["paged"] and len(chosen["none"]) == 12
    assert page.locator(".runs-place").count() == 12
    assert set(page.locator(".runs-mark").all_inner_texts()) == {"="}
    assert page.evaluate(OWN) == 0  # the page's own run is left alone
    expect(other.locator("#race")).to_have_attribute("data-phase", "done", timeout=60_000)
    expect(other.locator("#race-verdict")).to_have_text("12 of 12 the same in all three")


def test_bytes_copied_by_racing_caches_equal_the_servers_records(open_page: OpenPage) -> None:
    """transformers' caches beside pages give the same tokens, and the copies counted on the tensors."""
    page = open_page("/?detail=race&max_tokens=10&ignore_eos=1")
    expect(page.locator("#race")).to_have_attribute("data-phase", "ready")
    page.fill("#prompt", "霜叶红于二月花")
    page.click("#lanes-caches")
    expect(page.locator('[data-strategy-lane="static"]')).to_be_visible()
    expect(page.locator("#sentence")).to_contain_text("All four have the prompt: 7 tokens")
    run_to_the_end(page)
    expect(page.locator("#race-verdict")).to_have_text("10 of 10 the same in all four")
    for strategy in ("concat", "dynamic", "static", "paged"):
        steps = [r for r in records_of(page, strategy, "霜") if r["kind"] == "step"]
        copied = [r["cache_tensors"]["copied_bytes"] for r in steps]
        perhaps = [0, *((7 + i) * 2048 for i in range(9))] if strategy in ("concat", "dynamic") else [0] * 10
        assert copied == perhaps, "all positions before the step, or none"
        total = page.locator(f'[data-strategy-lane="{strategy}"] [data-figure="totalCopied"]')
        total.hover()
        expect(page.locator("#tooltip")).to_contain_text(f"{sum(copied):,} bytes".replace(",", "\u2009"))
    assert "lanes=caches" in page.url
    page.click("#lanes-strategies")
    expect(page.locator("#sentence")).to_contain_text("All three have the prompt: 7 tokens")


def test_bytes_held_by_racing_models_equal_the_servers_records(open_page: OpenPage) -> None:
    """The sibling models run one prompt: equal numbers of blocks, an eighth of the bytes, one state, different
    texts.
    """
    page = open_page("/?detail=race&lanes=models&max_tokens=10&ignore_eos=1")
    expect(page.locator("#race")).to_have_attribute("data-phase", "ready", timeout=60_000)
    page.fill("#prompt", "Xanadu had a river")
    expect(page.locator("#sentence")).to_contain_text(re.compile(r"All four have the prompt: \d+ tokens"))
    run_to_the_end(page)
    expect(page.locator("#sentence")).to_contain_text("8.0 times as much with a KV head for every query head")
    expect(page.locator("#race-verdict")).to_contain_text(re.compile("Other weights, other words|10 of 10 the same"))
    for name, layers, heads in (
        ("bundled-mha", 3, 8),
        ("bundled-gqa", 3, 2),
        ("bundled-mqa", 3, 1),
        ("bundled-hybrid", 1, 2),
    ):
        theaters = page.evaluate("fetch('/api/theaters').then((r) => r.json())")["theaters"]
        assert {t["model"] for t in theaters if t["name"] == f"race: {name}"} == {name}
        last = [r for r in records_of(page, name, "X") if r["kind"] == "step"][-1]
        blocks = -(-last["batch"][0]["context_len"] // 4)
        per_token = 2 * layers * heads * 16 * 4
        state = 24_576 if layers == 1 else 0
        assert last["work"]["kv_write_bytes"] == per_token
        assert figure(page, name, "blocks") == str(blocks) and figure(page, name, "step") == "10"
        cell = page.locator(f'[data-strategy-lane="{name}"] [data-figure="kept"]')
        cell.hover()
        expect(page.locator("#tooltip")).to_contain_text(
            f"{blocks * 4 * per_token + state:,} bytes".replace(",", "\u2009")
        )
    layers_box, words = (page.locator("#state-bytes > p").nth(place).bounding_box() for place in (0, 1))
    assert layers_box and words and words["y"] >= layers_box["y"] + layers_box["height"] and words["height"] < 20
    assert page.evaluate("import('/static/js/state/settings.js').then(({ settings }) => settings.model.value)") is None


def test_the_transport_bar_drives_the_race_and_then_its_own_run_again(open_page: OpenPage) -> None:
    page = open_page("/?max_tokens=60")
    prefill(page)
    step(page, 2)
    page.keyboard.press("ArrowLeft")
    wait_for_record(page, 2)
    text = page.locator("#generated").inner_text()
    page.click("#detail-race")
    expect(page.locator("#sentence")).to_contain_text("All three have the prompt: 16 tokens")
    expect(page.locator("html")).to_have_attribute("data-num-records", "1")  # what the lane on the stage has
    page.select_option("#speed", "4")  # the whole of it takes fifteen seconds
    page.locator("#btn-run").press("Enter")
    expect(page.locator("#race")).to_have_attribute("data-step", re.compile(r"^[3-9]|^\d\d"), timeout=30_000)
    page.locator("#btn-pause").press("Enter")
    expect(page.locator("#race")).to_have_attribute("data-phase", "ready")
    count = int(page.locator("#race").get_attribute("data-step") or 0)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("s")  # the keys too
    expect(page.locator("#race")).to_have_attribute("data-step", str(count + 1))
    page.keyboard.press("Home")
    expect(page.locator("#race")).to_have_attribute("data-step", "0")
    page.keyboard.press("ArrowRight")  # the record of the request
    page.keyboard.press("ArrowRight")
    expect(page.locator("#race")).to_have_attribute("data-step", "1")
    expect(page.locator("#sentence")).to_contain_text("all three computed the prompt’s 16 tokens")
    assert figure(page, "none", "totalComputed") == "16"
    page.click('[data-strategy-lane="none"] .runs-lane')  # another lane, at the same step
    expect(page.locator("#race")).to_have_attribute("data-step", "1")
    expect(page.locator("#sentence")).to_contain_text("all three computed the prompt’s 16 tokens")
    page.keyboard.press("End")
    expect(page.locator("#race")).to_have_attribute("data-step", str(count + 1))
    page.keyboard.press("r")
    expect(page.locator("#sentence")).to_contain_text("Nothing is computed yet")
    page.click("#detail-attention")
    wait_for_record(page, 2)
    expect(page.locator("#generated")).to_have_text(text)
    assert page.evaluate(OWN) == 4  # the request, the prompt and two steps: none was taken since


def test_a_lost_connection_ends_the_race_with_a_message(open_page: OpenPage) -> None:
    page = open_page("/?detail=race&max_tokens=20")
    steps(page, 2)
    page.context.set_offline(True)
    page.evaluate("window.dispatchEvent(new Event('offline'))")
    expect(page.locator("#sentence")).to_contain_text("The runs ended early", timeout=40_000)
    page.context.set_offline(False)
    expect(page.locator("#connection")).to_have_class(re.compile("live"), timeout=40_000)
    page.click("#btn-step")
    expect(page.locator("#sentence")).to_contain_text("Step 1:")


@pytest.mark.parametrize(
    ("width", "height", "locale", "lanes"),
    [
        (1280, 720, "en-US", "strategies"),
        (1280, 720, "en-US", "caches"),
        (1920, 1080, "zh-CN", "caches"),
        (1280, 720, "en-US", "drafts"),
        (1280, 720, "en-US", "models"),
        (1920, 1080, "zh-CN", "models"),
        (390, 844, "en-US", "models"),
        (390, 844, "zh-CN", "strategies"),
    ],
)
def test_the_race_is_visible_and_accessible(
    open_page: OpenPage, width: int, height: int, locale: str, lanes: str
) -> None:
    phone = width < 720
    page = open_with_axe(
        open_page,
        f"/?detail=race&max_tokens=24&ignore_eos=1&region=detail&lanes={lanes}",
        width=width,
        height=height,
        locale=locale,
        is_mobile=phone,
        has_touch=phone,
    )
    run_to_the_end(page)
    fail_on_violations({"race": violations(page)})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    if phone:  # with a thumb, and scrolled
        box = page.locator("#btn-step").bounding_box()
        assert box and box["height"] >= 44
        return
    race = "document.querySelector('#race')"
    wait_for_value(page, f"{race}.scrollHeight <= {race}.clientHeight", True)
    assert page.evaluate("document.documentElement.scrollHeight") == height
    cut = """[...document.querySelectorAll('.race-lanes td, .race-lanes th')]
      .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent)"""
    assert page.evaluate(cut) == []
    assert page.evaluate(TOUCHING) == []
