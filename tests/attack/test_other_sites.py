"""Pages of other sites can make a browser visit a page of this server, and nothing else."""

import pytest
import requests
import websocket

from app.ground.settings import ApiSettings

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
def test_other_sites_cannot_embed_the_page(server, change):
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


CHAT = "https://chat.example.org"


def test_only_allowed_hosts_are_answered(make_server):
    server = make_server(allowed_hosts=("host.docker.internal",))
    for name, status in {"host.docker.internal": 200, "HOST.docker.internal": 200, "evil.example": 403}.items():
        assert requests.get(f"{server.url}/api/model", headers={"Host": f"{name}:80"}).status_code == status
    proxied = {"Host": "127.0.0.1", "Origin": "https://host.docker.internal"}
    assert requests.get(f"{server.url}/api/model", headers=proxied).ok
    assert requests.get(f"{server.url}/api/model", headers={**proxied, "Origin": CHAT}).status_code == 403


def test_a_page_of_an_allowed_origin_may_call_the_api_and_nothing_else(make_server):
    headers = {"Origin": CHAT, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
    for allowed in ((CHAT,), ("*",), ()):
        server = make_server(api=ApiSettings(allowed_origins=allowed))
        preflight = requests.options(f"{server.url}/v1/completions", headers=headers)
        listed = requests.get(f"{server.url}/v1/models", headers=headers)
        found = [answer.headers.get("Access-Control-Allow-Origin") for answer in (preflight, listed)]
        assert (preflight.ok, listed.ok, found) == (bool(allowed), bool(allowed), [CHAT if allowed else None] * 2)
        other = requests.get(f"{server.url}/v1/models", headers={**headers, "Origin": "https://evil.example"})
        assert other.ok == ("*" in allowed)
        for path in ("/", "/api/model", SESSION):
            answer = requests.get(server.url + path, headers=headers)
            assert answer.status_code == 403 and "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("settings, headers", [({"root_path": "/kv"}, {}), ({}, {"X-Forwarded-Prefix": "/kv/"})])
def test_below_a_path_the_cookie_is_limited_to_it(make_server, settings, headers):
    server = make_server(token="secret-token", **settings)
    for path in ("/kv/?token=secret-token", "/?token=secret-token"):
        answer = requests.get(server.url + path, headers=headers, allow_redirects=False)
        assert (answer.status_code, answer.headers["Location"]) == (303, "./")
        assert "Path=/kv/;" in answer.headers["Set-Cookie"]
    bearer = {"Authorization": "Bearer secret-token", **headers}
    assert requests.get(f"{server.url}/kv/api/model", headers=bearer).ok
    assert not requests.get(f"{server.url}/kvapi/model", headers=bearer).ok
    unbelieved = {**bearer, "X-Forwarded-Prefix": "/a b"}
    assert settings or not requests.get(f"{server.url}/kv/api/model", headers=unbelieved).ok
