"""A returned context is as empty as a new one when it is reused."""

from typing import Any

import pytest
from playwright.sync_api import Page, ViewportSize

from tests.browser.contexts import Contexts

SIZE = ViewportSize(width=1280, height=800)
LEAVES = """async () => {
  localStorage.setItem("kvtheater.theme", "dark");
  sessionStorage.setItem("a", "1");
  document.cookie = "a=1";
  const base = await new Promise((done) => {
    const asked = indexedDB.open("a");
    asked.onsuccess = () => done(asked.result);
  });
  base.close();
}"""
FINDS = """async () => ({
  local: Object.keys(localStorage), session: Object.keys(sessionStorage), cookies: document.cookie,
  bases: (await indexedDB.databases()).length, width: innerWidth,
  dark: matchMedia("(prefers-color-scheme: dark)").matches,
  still: matchMedia("(prefers-reduced-motion: reduce)").matches, languages: navigator.languages.join(),
  online: navigator.onLine, left: globalThis.left ?? null,
})"""


def found(page: Page, address: str) -> dict[str, Any]:
    page.goto(address + "/static/icon.svg")
    there: dict[str, Any] = page.evaluate(FINDS)
    return there


@pytest.mark.parametrize("options", [{"locale": "en-US"}, {"locale": "zh-CN", "has_touch": True}])
def test_nothing_of_a_visit_remains_for_the_next(contexts: Contexts, live_server: str, options: dict[str, Any]) -> None:
    """The second of four visits leaves behind everything that a page and a test can leave."""
    seen, used = [], []
    for visit in range(4):
        with contexts.reserve() as reserved:
            left = {"color_scheme": "dark", "reduced_motion": "reduce"} if visit == 1 else {}
            page = reserved.page(
                live_server, ViewportSize(width=390, height=844) if visit == 1 else SIZE, options | left
            )
            used.append(page.context)
            if visit == 1:
                page.add_init_script("globalThis.left = 1")
                assert found(page, live_server)["left"] == 1
                page.evaluate(LEAVES)
                page.context.route("**/*", lambda route: route.abort())
                page.context.set_offline(True)
            else:
                seen.append(found(page, live_server))
    assert used[1] is used[0] is used[2] is used[3]
    assert seen[0] == seen[1] == seen[2]
    assert seen[0]["local"] == seen[0]["session"] == [] and seen[0]["bases"] == 0 and seen[0]["width"] == 1280


def test_two_visitors_of_a_test_share_nothing(contexts: Contexts, live_server: str) -> None:
    with contexts.reserve() as reserved:
        one, other = (reserved.page(live_server, SIZE, {"locale": "en-US"}) for _ in range(2))
        found(one, live_server)
        one.evaluate(LEAVES)
        assert found(other, live_server)["local"] == []
        assert one.context is not other.context


def test_a_context_that_a_test_closed_is_not_lent_again(contexts: Contexts, live_server: str) -> None:
    with contexts.reserve() as reserved:
        closed = reserved.page(live_server, SIZE, {"locale": "en-US"}).context
        closed.close()
    with contexts.reserve() as reserved:
        page = reserved.page(live_server, SIZE, {"locale": "en-US"})
        assert page.context is not closed
        assert found(page, live_server)["online"]
