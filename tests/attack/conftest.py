"""Fixtures of the attack tests: the server of tests/server, with real clients."""

from tests.server.conftest import client, make_server, server, theater

__all__ = ["client", "make_server", "server", "theater"]
