"""A class on a real server, with clients of its presenter and followers."""

import http.client
from typing import Any

from tests.server.conftest import Client, Server

TOKEN = "the-token"
OWNER = {"Authorization": f"Bearer {TOKEN}"}


class Member(Client):
    """Client that stores the messages about its class."""

    def _listen(self) -> None:
        super()._listen()
        self.states: list[dict[str, Any]] = []
        self.desks: list[dict[str, Any]] = []
        self.pressed: list[dict[str, Any]] = []
        self.mine: list[dict[str, Any]] = []
        self.io.on("class_mine", self.mine.append)
        self.io.on("class", self.states.append)
        self.io.on("class_desk", self.desks.append)
        self.io.on("class_pressed", self.pressed.append)

    def last(self) -> dict[str, Any]:
        return self.states[-1] if self.states else {}


class Room:
    """Server with a class and its presenter."""

    def __init__(self, server: Server, names: str = "optional") -> None:
        self.server = server
        self.presenter = self.member(headers=OWNER)
        opened = self.presenter.do("class_open", title="KV", names=names, base=server.url)
        self.secret: str = opened["secret"]
        self.presenting: dict[str, Any] = opened["presenting"]
        self.id: str = self.presenting["state"]["id"]

    def member(self, **connect: Any) -> Member:
        found = Member(self.server.url, **connect)
        self.server.clients.append(found)
        return found

    def get(self, path: str, **headers: str) -> http.client.HTTPResponse:
        """Send a GET request without following redirects."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        connection.request("GET", path, headers=headers)
        return connection.getresponse()

    def ticket(self, path: str | None = None, **headers: str) -> str:
        """Return the cookie of a new visitor."""
        answer = self.get(path or self.presenting["join"], **headers)
        assert answer.status == 303, answer.status
        return str(answer.headers["Set-Cookie"]).partition(";")[0]

    def follower(self, cookie: str | None = None, language: str = "en") -> tuple[Member, dict[str, Any]]:
        """Return a new follower, and the message that it receives on entering."""
        found = self.member(headers={"Cookie": cookie or self.ticket()})
        return found, found.do("class_enter", language=language)

    def seat(self) -> dict[str, Any]:
        """Return the first follower's seat, from the presenter's latest view of the class."""
        seats = self.presenter.desks[-1]["seats"] if self.presenter.desks else []
        return dict(seats[0]) if seats else {}

    def on_stage(self, captures: bool = False) -> str:
        """Return a run that the class watches."""
        theater: str = self.presenter.do("create", captures=captures)["theater"]
        self.presenter.do("class_cast", id=self.id, theater=theater, view={"layer": "1"})
        return theater
