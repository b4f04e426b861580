"""A request waits for one piece of adjacent blocks although enough blocks are free, and the page shows the numbers."""

import pytest
from playwright.sync_api import expect

from tests.browser.axe import fail_on_violations, open_with_axe, violations
from tests.browser.driving import OpenPage, add, step

# new tokens and prompt: pieces of 4, 8, 5, 7 and 8 blocks of 4; the first four fill 24 blocks
REQUESTS = (
    (9, "Who has seen the wind?"),
    (22, "Tyger Tyger, burning bright"),
    (9, "Twinkle, twinkle, little star"),
    (23, "Once upon a time"),
    (24, "Once upon a midnight dreary"),
)


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (390, 844)])
def test_holes_are_drawn_and_the_refusal_names_them(open_page: OpenPage, width: int, height: int) -> None:
    page = open_with_axe(
        open_page, "/?strategy=first_fit&num_blocks=24&ignore_eos=1&lang=en&region=setup", width=width, height=height
    )
    for max_tokens, prompt in REQUESTS:
        page.evaluate(
            "(n) => import('/static/js/state/settings.js').then(({ settings }) => { settings.max_tokens.value = n; })",
            max_tokens,
        )
        add(page, prompt)
    page.evaluate(
        "import('/static/js/state/settings.js').then(({ settings }) => { settings.region.value = 'memory'; })"
    )
    step(page)
    sentence = page.locator(".region-said")
    expect(sentence).to_contain_text("0 holes: 0 blocks free, the largest hole 0")
    assert page.locator(".region-part.piece").count() == 4
    step(page, 9)  # the first and the third end in the ninth step
    expect(sentence).to_contain_text("needs 8 in one piece: 9 free, the largest hole 5")
    assert page.locator(".region-part.hole").all_inner_texts() == ["4", "5"]
    expect(page.locator("#sentence")).to_contain_text("9 are free, but the largest hole has 5")
    fail_on_violations({"region": [found for found in violations(page) if "region-" in found]})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.locator(".region-part.hole.largest").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(":focus")).to_have_attribute(
        "aria-label", "seq 3: one piece of 7 blocks (17 to 23), 28 slots reserved, 14 with K and V"
    )
