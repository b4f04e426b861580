"""What a page of another site can make a browser ask of this server: a look at the page, and nothing else."""

from __future__ import annotations

import pytest
import requests
import websocket

SESSION = "/socket.io/?EIO=4&transport=polling"
ASKED_BY_A_PAGE = {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}  # <img>: a GET without an Origin
A_LINK = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize("site", ["cross-site", "same-site", "something new"])
@pytest.mark.parametrize("path", ["/", "/api/machine", "/api/recordings", "/static/js/main.js", "/bench", SESSION])
def test_an_image_elsewhere_starts_nothing_here(server, site, path):
    answer = requests.get(server.url + path, headers={"Sec-Fetch-Site": site, **ASKED_BY_A_PAGE})
    assert answer.status_code == 403 and answer.json()["error"]["code"] == "forbidden"


def test_the_machine_is_not_measured_and_no_session_begins(server):
    for path in ("/api/machine", SESSION):
        requests.get(server.url + path, headers={"Sec-Fetch-Site": "cross-site", **ASKED_BY_A_PAGE})
    assert server.model.machine.roofs is None
    assert not server.app.extensions["socketio"].server.eio.sockets


@pytest.mark.parametrize("path", ["/", "/bench", "/?recording=rec-a"])
def test_a_link_elsewhere_leads_to_a_page(server, path):
    assert requests.get(server.url + path, headers={"Sec-Fetch-Site": "cross-site", **A_LINK}).ok


@pytest.mark.parametrize("path", ["/api/machine", "/api/recordings", "/static/js/main.js", SESSION, "/api/bench"])
def test_a_link_elsewhere_leads_to_nothing_but_pages(server, path):
    assert requests.get(server.url + path, headers={"Sec-Fetch-Site": "cross-site", **A_LINK}).status_code == 403


@pytest.mark.parametrize("change", [{"Sec-Fetch-Dest": "iframe"}, {"Sec-Fetch-Mode": "no-cors"}])
def test_a_page_elsewhere_does_not_hold_ours(server, change):
    answer = requests.get(server.url + "/", headers={"Sec-Fetch-Site": "cross-site", **A_LINK, **change})
    assert answer.status_code == 403
    posted = requests.post(server.url + "/", headers={"Sec-Fetch-Site": "cross-site", **A_LINK})
    assert posted.status_code == 403


def test_a_socket_elsewhere_is_refused_without_an_origin_too(server):
    address = server.url.replace("http", "ws") + "/socket.io/?EIO=4&transport=websocket"
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
        websocket.create_connection(address, suppress_origin=True, header={"Sec-Fetch-Site": "cross-site"})


@pytest.mark.parametrize("site", ["same-origin", "none", None])
def test_our_page_a_typed_address_and_programs_are_answered(server, site):
    headers = {"Sec-Fetch-Site": site} if site else {}
    for path in ("/", "/api/machine", "/static/js/main.js", SESSION):
        assert requests.get(server.url + path, headers=headers).ok, path
