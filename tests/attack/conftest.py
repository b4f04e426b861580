"""Shared fixtures of the attacks: the server of the server's tests, with real clients."""

from tests.server.conftest import client, make_server, server, theater

__all__ = ["client", "make_server", "server", "theater"]
