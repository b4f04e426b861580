"""How a server answers OpenAI's clients."""

from __future__ import annotations

from msgspec import Struct

from app.openai.keys import ANONYMOUS, Policy


class ApiSettings(Struct, frozen=True, kw_only=True):
    """`keys`: what the client with a key may do, by the key's SHA-256; without any, everybody may ask."""

    keys: dict[str, Policy] = {}
    default: Policy = Policy(name=ANONYMOUS)  # of who has no key, where none is needed
    max_waiting: int = 1024  # requests that wait for one engine, of all clients
    is_private: bool = False  # no text and no token id of a request gets to the page, a log or a record

    @property
    def clients(self) -> list[str]:
        """Those that have a name here."""
        return [policy.name for policy in self.keys.values()]
