"""A browser gets a refusal as a page in its language with a link to continue; programs get JSON."""

import re
from collections.abc import Callable
from urllib.parse import urljoin

import pytest

from app.classroom.pages import ROUTES as DOORS
from app.page.door import FILES, FOR_PROGRAMS
from tests.server.classes import OWNER, TOKEN, Room
from tests.server.conftest import Server

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
LANGUAGES = {"en": "Enter the code again", "zh-CN": "请重新输入加入码"}


@pytest.fixture
def server(make_server: Callable[..., Server]) -> Server:
    return make_server(token=TOKEN)


@pytest.fixture
def room(server: Server) -> Room:
    return Room(server)


def pages_of(server: Server) -> list[str]:
    """Return every GET address that is not for programs, files or the entry of a class, with a name where it
    takes one.
    """
    rules = [rule for rule in server.app.url_map.iter_rules() if "GET" in (rule.methods or ())]
    doors = {route.rule for route in DOORS}
    found = {re.sub("<.*?>", "nothing", rule.rule) for rule in rules if rule.rule not in doors}
    return sorted(path for path in found if not path.startswith((*FOR_PROGRAMS, *FILES)))


def sheets_load(room: Room, at: str, page: str) -> bool:
    sheets = re.findall(r'rel="stylesheet" href="([^"]+)"', page)
    return bool(sheets) and all(room.get(urljoin(at, sheet)).status == 200 for sheet in sheets)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_guest_of_an_ended_class_gets_the_join_page_at_every_address(room: Room, language: str) -> None:
    paths = pages_of(room.server)
    assert {"/", "/bench", "/scale", "/prompts", "/docs/nothing"} <= set(paths)
    for path in (*paths, "/?class=gone", "/nothing", "/no/such/page"):
        answer = room.get(path, Cookie="kvtheater_class=of-before", **{**BROWSER, "Accept-Language": language})
        page = answer.read().decode()
        assert answer.status == 401 and answer.headers["Content-Type"] == "text/html; charset=utf-8", path
        assert answer.headers["Cache-Control"] == "no-store" and "Content-Security-Policy" in answer.headers
        assert LANGUAGES[language] in page and f'lang="{language}"' in page, path
        action = re.search(r'action="([^"]+)"', page)
        assert action and urljoin(path, action[1]) == "/j/in", path
        assert sheets_load(room, path, page), path


def test_refused_visitors_get_a_page(room: Room) -> None:
    outside = room.get("/", **BROWSER).read().decode()
    assert "open the address that it printed" in outside and "<form" in outside
    guest = room.get("/scale", Cookie=room.ticket(), **BROWSER)
    page = guest.read().decode()
    assert guest.status == 401 and "not part of the class" in page and 'href="./"' in page and "<form" not in page


def test_an_owner_at_an_address_without_a_page_gets_one(room: Room) -> None:
    for path in ("/nothing", "/docs/no/such", "/bench/nothing"):
        for language, sentence in (("en", "no page at this address"), ("zh", "这个地址没有页面")):
            answer = room.get(path, **OWNER, **BROWSER, **{"Accept-Language": language})
            page = answer.read().decode()
            assert answer.status == 404 and sentence in page and sheets_load(room, path, page), path
            way = re.search(r'<a href="([^"]+)"', page)
            assert way and urljoin(path, way[1]) == "/"


def test_refusals_to_browsers_are_pages(server: Server) -> None:
    room = Room(server)
    answer = room.get("/bench", Origin="http://evil.example", **BROWSER)
    page = answer.read().decode()
    assert answer.status == 403 and "refused this page" in page and 'lang="en"' in page


def test_programs_and_files_are_answered_as_before(room: Room) -> None:
    for path in ("/", "/api/model", "/static/js/main.js", "/words/en.json", "/metrics"):
        browser = {} if path == "/" else BROWSER
        answer = room.get(path, **browser)
        assert answer.status == 401 and answer.headers["Content-Type"] == "application/json", path
