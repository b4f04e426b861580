"""Access to the server, and the browser policy of its answers."""

import pytest
import requests
import socketio.exceptions
import websocket

from app.ground.settings import ServerSettings, is_loopback
from tests.server.conftest import Client


def test_every_answer_carries_the_headers(server):
    for path in ("/api/health", "/api/nothing", "/static/nothing.js", "/socket.io/?EIO=4&transport=polling"):
        headers = requests.get(server.url + path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "Access-Control-Allow-Origin" not in headers


def test_another_sites_page_is_refused(server):
    socket = server.url.replace("http", "ws") + "/socket.io/?EIO=4&transport=websocket"
    for origin in (
        "http://evil.example",
        "null",
        f"http://127.0.0.1.evil.example:{server.listener.port}",
        "https://",
        "http://[::",
    ):
        for path in ("/api/health", "/socket.io/?EIO=4&transport=polling"):
            answer = requests.get(server.url + path, headers={"Origin": origin})
            assert answer.status_code == 403 and answer.json()["error"]["code"] == "forbidden"
        with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
            websocket.create_connection(socket, origin=origin)
    assert requests.get(server.url + "/api/health", headers={"Origin": server.url}).ok
    websocket.create_connection(socket, origin=server.url).close(timeout=1)


def test_an_invalid_handshake_is_refused_in_one_sentence(server, caplog):
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "x", "Sec-WebSocket-Version": "13"}
    for missing in headers:
        some = {name: value for name, value in headers.items() if name != missing}
        answer = requests.get(server.url + "/socket.io/?EIO=4&transport=websocket", headers=some)
        assert answer.status_code == 400, (missing, answer.text)
    headers["Sec-WebSocket-Version"] = "99"
    answer = requests.get(server.url + "/socket.io/?EIO=4&transport=websocket", headers=headers)
    assert answer.status_code == 400 and "not a valid WebSocket handshake" in answer.json()["error"]["message"]
    assert "Traceback" not in caplog.text


def test_another_name_for_this_machine_is_refused(server):
    for name in ("evil.example", f"evil.example:{server.listener.port}", "", "[::", "127.0.0.1@evil.example"):
        assert requests.get(server.url + "/api/health", headers={"Host": name}).status_code in (400, 403)
    assert requests.get(server.url + "/api/health", headers={"Host": f"localhost:{server.listener.port}"}).ok


def test_listening_to_others_needs_a_token():
    assert is_loopback("127.0.0.1") and is_loopback("localhost") and is_loopback("[::1]")
    assert not is_loopback("0.0.0.0") and not is_loopback("192.168.1.2") and not is_loopback("example.org")
    with pytest.raises(ValueError, match="needs a token"):
        ServerSettings(host="0.0.0.0")


@pytest.fixture
def guarded(make_server):
    return make_server(host="0.0.0.0", token="s3cret-token")  # settings only: it is bound to 127.0.0.1 all the same


def test_without_the_token_nothing_is_answered(guarded):
    for path in ("/", "/api/model", "/static/x.js", "/api/health?token=wrong", "/api/health?token=%ff"):
        answer = requests.get(guarded.url + path)
        assert answer.status_code == 401 and answer.json()["error"]["code"] == "token_required"
    for connect in ({}, {"headers": {"Cookie": "kvtheater_token=wrong"}}, {"headers": {"Authorization": "Bearer x"}}):
        with pytest.raises(socketio.exceptions.ConnectionError):
            Client(guarded.url, **connect)


def test_the_token_becomes_a_cookie_and_leaves_the_address(guarded):
    answer = requests.get(guarded.url + "/x?a=1&token=s3cret-token", allow_redirects=False)
    assert answer.status_code == 303 and answer.headers["Location"] == "./x?a=1"
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie
    session = requests.Session()
    session.get(guarded.url + "/x?token=s3cret-token")
    assert session.get(guarded.url + "/api/health").ok
    client = guarded.client(headers={"Cookie": "kvtheater_token=s3cret-token"})
    assert client.do("tokenize", text="a")


def test_programs_may_send_the_token_themselves(guarded):
    assert requests.get(guarded.url + "/api/health", headers={"Authorization": "Bearer s3cret-token"}).ok
    assert requests.get(guarded.url + "/api/health?token=s3cret-token").ok
    assert Client(guarded.url + "?token=s3cret-token").do("tokenize", text="a")


def test_a_redirect_never_leaves_the_site(guarded):
    answer = requests.get(guarded.url + "//evil.example/?token=s3cret-token", allow_redirects=False)
    assert answer.headers["Location"] == "./"


def test_on_the_loopback_interface_the_token_may_begin_the_path(make_server):
    """A frame in another site's page is sent no cookies, so its address identifies the sender."""
    framed = make_server(token="s3cret-token")
    page = f"{framed.url}/s3cret-token"
    around = {"Origin": "http://elsewhere.example", "Sec-Fetch-Site": "cross-site", "Host": "hub.example"}
    answer = requests.get(f"{page}/", headers=around)
    assert answer.ok and "X-Frame-Options" not in answer.headers
    assert "frame-ancestors" not in answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    socket = page.replace("http", "ws") + "/socket.io/?EIO=4&transport=websocket"
    websocket.create_connection(socket, origin="http://elsewhere.example").close(timeout=1)
    # the link of a class goes to everybody, so it is no frame's
    for path in ("/", "/s3cret-toke/", "/s3cret-token", "/s3cret-token/j/CODE", "/%ff/"):
        answer = requests.get(framed.url + path)
        assert answer.status_code == 401 and answer.headers["X-Frame-Options"] == "DENY", path


def test_public_servers_accept_no_token_in_the_path(guarded):
    assert requests.get(f"{guarded.url}/s3cret-token/").status_code == 401
