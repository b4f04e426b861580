"""Moving through a run: playing, jumping, sub-steps, links, and notices about a lost connection or run."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from engine.trace.apply import apply
from engine.trace.log import TraceReader, TraceWriter
from engine.trace.operations import Admit, Op, Preempt, Submit
from engine.trace.records import StepRecord, Timing
from engine.trace.state import initial_state, memory_figures
from tests.browser.driving import (
    PAINTED,
    OpenPage,
    num_records,
    prefill,
    step,
    tokens,
    wait_for_record,
    wait_for_rest,
    wait_until,
)
from tests.browser.dropping import drop_recording
from tests.browser.recording import GOLDEN
from tests.browser.settling import address, theater_of, wait_for_value
from tests.golden.make import HEADER

# Playing


def test_behind_the_newest_record_play_does_not_drive_the_engine(open_page: OpenPage) -> None:
    page = open_page("/?speed=16", motion=True)
    prefill(page)
    step(page, 4)
    page.keyboard.press("Home")
    wait_for_record(page, -1)
    expect(page.locator("#btn-live")).to_be_visible()
    expect(page.locator("#btn-play")).to_be_visible()
    expect(page.locator("#btn-run")).not_to_be_visible()
    page.click("#btn-play")
    wait_for_record(page, 5)
    expect(page.locator("#btn-run")).to_be_visible()  # at the tail it follows again
    expect(page.locator("#btn-live")).not_to_be_visible()
    assert num_records(page) == 6
    assert "step=" not in address(page)
    step(page)  # and what comes is shown
    wait_for_record(page, 6)
    page.keyboard.press("j")
    wait_for_record(page, -1)
    assert num_records(page) == 7


def test_space_pauses_playback(open_page: OpenPage) -> None:
    page = open_page("/?speed=2", motion=True)
    prefill(page)
    step(page, 8)
    page.keyboard.press("Home")
    wait_for_record(page, -1)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Space")
    wait_until(page, f"{PAINTED} >= 1")
    page.keyboard.press("Space")
    expect(page.locator("#btn-play")).to_be_visible()
    at = page.evaluate("import('/static/js/state/store.js').then((store) => store.viewIndex.value)")
    assert 1 <= at < 9
    wait_for_rest(page, at)
    page.wait_for_timeout(1200)  # more than two moves
    assert page.evaluate(PAINTED) == at and num_records(page) == 10


def test_a_recording_has_one_play_button_and_starts_over_at_its_end(open_page: OpenPage) -> None:
    page = open_page("/?speed=0")
    drop_recording(page, GOLDEN)
    for button in ("btn-prefill", "btn-step", "btn-reset"):
        expect(page.locator(f"#{button}")).to_have_count(0)
    expect(page.locator("#btn-run")).not_to_be_visible()
    last = num_records(page) - 1
    wait_for_record(page, last)
    page.click("#btn-play")
    wait_until(page, f"{PAINTED} < 60")
    wait_for_record(page, last)
    expect(page.locator("#btn-play")).to_be_visible()


def test_playback_follows_the_level_of_detail(open_page: OpenPage) -> None:
    """Playback goes through sub-steps if a sub-step is open."""
    page = open_page("/?speed=2", motion=True)
    prefill(page)
    step(page, 2)
    page.keyboard.press("ArrowLeft")
    wait_for_record(page, 2)
    page.click("#phase-schedule")
    expect(page.locator("#sentence")).to_contain_text("one token for each running sequence: 1")
    page.evaluate(
        """() => {
          globalThis.played = [];
          const sentence = document.querySelector('#sentence');
          const keep = () => globalThis.played.push(sentence.dataset.sub);
          new MutationObserver(keep).observe(sentence, { attributes: true, attributeFilter: ['data-sub'] });
        }"""
    )
    page.keyboard.press("l")
    wait_for_value(page, "globalThis.played.slice(0, 5)", ["allocate", "qkv", "write", "attend", "sample"])
    page.keyboard.press("k")


# Jumping


def test_numbers_and_kinds_of_events_lead_there(open_page: OpenPage) -> None:
    page = open_page()
    drop_recording(page, GOLDEN)
    page.keyboard.press("g")
    expect(page.locator("#jump-record")).to_be_focused()
    page.keyboard.type("17")
    page.keyboard.press("Enter")
    wait_for_record(page, 16)
    expect(page.locator("#jump")).to_have_count(0)
    page.click("#position")
    page.fill("#jump-step", "40")
    page.press("#jump-step", "Enter")
    wait_for_record(page, 40)  # in this trace every record is a step, the first one step 0
    page.keyboard.press("Home")
    wait_for_record(page, -1)
    with TraceReader(GOLDEN) as trace:
        holding = [{type(op).__name__ for op in trace.record(i).ops} for i in range(len(trace))]
    page.keyboard.press("g")
    for kind, name in {"submit": "Submit", "preempt": "Preempt", "finish": "Finish", "evict": "Evict"}.items():
        count = sum(name in names for names in holding)
        expect(page.locator(f'[data-kind="{kind}"] .jump-kind .num')).to_have_text(str(count))
    page.click('[data-kind="copy"] [data-way="1"]')
    wait_until(page, f"{PAINTED} > 0")
    expect(page.locator("#sentence")).to_contain_text("gets a copy of its own, block")
    page.keyboard.press("Escape")
    first = page.evaluate(PAINTED)
    page.keyboard.press("n")  # the kind stays chosen
    wait_until(page, f"{PAINTED} > {first}")
    expect(page.locator("#sentence")).to_contain_text("gets a copy of its own, block")
    page.keyboard.press("Shift+N")
    wait_for_record(page, first)


def test_the_next_token_a_typed_number_and_what_the_scrubber_says(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    step(page, 3)
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    wait_for_record(page, 0)
    page.keyboard.press("g")
    page.click('[data-kind="token"] [data-way="1"]')
    wait_for_record(page, 1)
    page.click('[data-kind="token"] [data-way="1"]')
    wait_for_record(page, 2)
    expect(page.locator('[data-kind="token"] .jump-kind .num')).to_have_text("4")
    page.locator("#jump-record").fill("1")
    page.evaluate("import('/static/js/control/actions.js').then((actions) => actions.step())")
    expect(page.locator("html")).to_have_attribute("data-num-records", "6")
    expect(page.locator("#jump-record")).to_have_value("1")  # typed while a record came
    page.keyboard.press("Enter")
    wait_for_record(page, 0)
    box = page.locator("#scrubber").bounding_box()
    assert box
    page.mouse.move(box["x"] + 8 + (box["width"] - 16) * 2 / 6, box["y"] + box["height"] / 2)
    expect(page.locator(".tooltip")).to_contain_text("record 2 of 6")
    expect(page.locator(".tooltip")).to_contain_text("at once")
    wait_for_record(page, 0)  # looking is not going


def test_digit_keys_are_tenths_and_remotes_step_both_ways(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    step(page, 8)  # ten records
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("5")
    wait_for_record(page, 4)
    page.keyboard.press("0")
    wait_for_record(page, -1)
    page.keyboard.press("End")
    wait_for_record(page, 9)
    page.keyboard.press("PageUp")
    wait_for_record(page, 8)
    page.keyboard.press("PageDown")
    wait_for_record(page, 9)
    page.keyboard.press("PageDown")  # at the newest record: the engine takes a step
    wait_for_record(page, 10)
    page.keyboard.press("b")
    expect(page.locator("#blackout")).to_be_visible()
    page.keyboard.press("b")
    expect(page.locator("#blackout")).to_have_count(0)
    page.fill("#prompt", "b5n")  # a text field keeps its keys
    expect(page.locator("#prompt")).to_have_value("b5n")
    wait_for_record(page, 10)


# Sub-steps


def test_keys_walk_sub_steps_which_are_described_with_numbers(open_page: OpenPage) -> None:
    page = open_page("/?telling=expert", motion=True)
    prefill(page)
    step(page)
    count = len(tokens(page)) - 1  # tokens whose keys the step read, its own included
    sentences = {}
    page.click("#phase-schedule")
    for phase in ("schedule", "allocate", "qkv", "write", "attend", "sample"):
        expect(page.locator("#sentence")).to_have_attribute("data-sub", phase)
        expect(page.locator(f"#phase-{phase}")).to_have_attribute("aria-current", "step")
        sentences[phase] = page.locator("#sentence").inner_text()
        page.keyboard.press(".")
    assert "1 running sequence" in sentences["schedule"]
    assert f"(position {count - 1}) were computed in 4 layers" in sentences["qkv"]
    assert re.search(r"went to slot (\d+) = (\d+) · 4 \+ (\d)", sentences["write"])
    assert f"read {count} keys" in sentences["attend"] and "the largest weight" in sentences["attend"]
    assert re.search(r"was chosen \(p [\d.]+\)", sentences["sample"])
    page.keyboard.press("Shift+ArrowLeft")
    expect(page.locator("#sentence")).to_have_attribute("data-sub", "attend")
    assert "sub=4" in address(page)
    page.click("#phase-attend")  # the same again: the step whole
    expect(page.locator("#sentence")).to_have_attribute("data-sub", "")


def test_a_remote_walks_through_sub_steps_of_new_steps(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    page.click("#phase-sample")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("PageDown")
    wait_until(page, "Number(document.documentElement.dataset.numRecords) === 3")
    expect(page.locator("#sentence")).to_have_attribute("data-sub", "schedule")
    page.keyboard.press("PageDown")
    expect(page.locator("#sentence")).to_have_attribute("data-sub", "allocate")
    assert num_records(page) == 3


# Links


def test_settings_in_a_hash_are_read_and_written_as_a_query(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    step(page, 3)
    theater = theater_of(page)
    other = open_page(f"/?theater={theater}#step=2&sub=1")
    wait_for_record(other, 2)
    expect(other.locator("#sentence")).to_have_attribute("data-sub", "allocate")
    written = address(other)
    assert "step=2" in written and "sub=1" in written
    other.evaluate("location.hash = '#step=3'")
    wait_for_record(other, 3)
    address(other)  # without a hash


def test_the_browsers_back_returns_from_a_jump_and_not_from_steps(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    step(page, 4)
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
    wait_for_record(page, 3)
    page.keyboard.press("Home")
    wait_for_record(page, -1)
    page.go_back()  # at once
    wait_for_record(page, 3)
    page.go_forward()
    wait_for_record(page, -1)


# The scrubber


@pytest.fixture(scope="module")
def long_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write 5,000 records of one sequence that is admitted and preempted repeatedly."""
    path = tmp_path_factory.mktemp("long") / "long.kvtrace"
    state = initial_state(HEADER)
    with TraceWriter(HEADER, path) as log:
        for index in range(5000):
            ops: list[Op] = [Admit(seq_id=0, num_cached_tokens=0, resumed=index > 1)]
            if index % 2 == 0:
                ops = [Preempt(seq_id=0, queue_position=0, mode="recompute", for_seq_id=0, num_computed_tokens=0)]
            if index == 0:
                ops = [
                    Submit(
                        seq_id=0,
                        queue_position=0,
                        request_id="r",
                        prompt_token_ids=[1],
                        prompt_token_bytes=[b"a"],
                        max_tokens=1,
                    )
                ]
            memory = memory_figures(state)
            record = StepRecord(
                index=index, kind="step", step=index, ops=ops, timing=Timing(at=float(index)), memory=memory
            )
            apply(state, record)
            log.append(record)
    return path


def test_thousands_of_records_are_dragged_through_smoothly(open_page: OpenPage, long_trace: Path) -> None:
    page = open_page(motion=True)
    drop_recording(page, long_trace)
    assert num_records(page) == 5000
    box = page.locator("#scrubber").bounding_box()
    assert box
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.9, y)
    page.mouse.down()
    painted = set()
    for i in range(40):
        page.mouse.move(box["x"] + box["width"] * (0.9 - i * 0.02), y)
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        painted.add(page.evaluate(PAINTED))
    page.mouse.up()
    wait_until(page, f"400 < {PAINTED} && {PAINTED} < 700")  # 12 % of 5,000
    at = page.evaluate(PAINTED)
    assert len(painted) > 30, "of 40 places: two frames after it is asked for, each is there"
    page.keyboard.press("n")
    wait_for_record(page, at + 1 if at % 2 else at + 2)  # preemptions are the even records
    page.keyboard.press("9")
    wait_for_record(page, 4499)


# What is said aloud


def test_a_running_engine_is_not_announced_at_each_step(open_page: OpenPage) -> None:
    page = open_page("/?speed=16&max_tokens=24")
    prefill(page)
    page.wait_for_timeout(800)
    page.evaluate(
        """() => {
          window.said = [];
          const note = document.querySelector("#announcement");
          const keep = () => window.said.push(note.textContent);
          new MutationObserver(keep).observe(note, { childList: true, characterData: true, subtree: true });
        }"""
    )
    page.click("#btn-run")
    expect(page.locator(".status.finished")).to_have_count(1)
    # the final sentence, without the mark of its phase
    wait_until(page, "document.querySelector('#sentence').textContent.includes(globalThis.said.at(-1) ?? 'not yet')")
    sentences = page.evaluate("window.said")
    assert 1 <= len(sentences) <= 4, sentences  # of 23 steps


# Phones


def test_on_a_phone_every_button_of_the_bar_is_visible_and_large(open_page: OpenPage) -> None:
    page = open_page(width=390, height=844, is_mobile=True, has_touch=True)
    page.click("#btn-transport-more")
    parts = ".transport .scrubber, .transport .position, #btn-prefill, #speed, .phases"
    places = f"""[...document.querySelectorAll("{parts}")]
      .map((e) => [e.getBoundingClientRect().left, e.getBoundingClientRect().top])"""
    before = page.evaluate(places)
    page.click("#btn-prefill")
    wait_for_record(page, 1)
    assert page.evaluate(places) == before  # nothing jumps when the first record comes
    page.click("#btn-back")
    wait_for_record(page, 0)
    boxes = page.evaluate(
        """[...document.querySelectorAll(".transport button:not(.position-go), .transport select")]
          .filter((e) => e.checkVisibility({ visibilityProperty: true }))
          .map((e) => [e.id, e.getBoundingClientRect().toJSON()])"""
    )
    shown = {name for name, _ in boxes}
    assert {"btn-step", "btn-play", "btn-live", "btn-back", "phase-sample"} <= shown
    assert "btn-prefill" not in shown  # looking back, the way back to live stands in its place
    top = page.evaluate("document.querySelector('.transport').getBoundingClientRect().top")
    for name, box in boxes:
        assert box["top"] >= top, (name, box)  # nothing of the bar lies over what is looked at
        assert box["height"] >= 44 and box["width"] >= 43.5, (name, box)
        assert box["left"] >= 0 and box["right"] <= 390 and box["bottom"] <= 844, (name, box)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.click("#position")
    expect(page.locator("#jump")).to_be_visible()
    page.click('[data-kind="prefill"] [data-way="1"]')
    wait_for_record(page, 1)
