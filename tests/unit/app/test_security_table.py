"""SECURITY.md has the bounds of all client input, with the numbers of the code."""

import importlib
import pkgutil
import re

import pytest

import app
from app.classroom import admission, bounds
from app.ground.limits import MIB, Limits
from app.ground.routing import Route
from app.ground.settings import ServerSettings
from app.openai.bodies import MAX_LISTS, MAX_VALUES
from app.openai.memory_budget import MAX_OF_ALL, MAX_OF_CLIENT
from app.openai.paths import MAX_BYTES
from app.openai.stored_responses import MAX_STORED, MAX_STORED_OF_ONE
from app.prompts import page as prompts_page
from app.server.dispatch import ALL_EVENTS
from app.server.events import READS
from engine.config import MAX_BIASES, MAX_STOP_CHARACTERS, MAX_STOP_TOKENS, MAX_STOPS
from engine.connector.link import MAX_READ_SECONDS
from engine.model.projections import MAX_NUMBERS
from engine.requests.request_spec import MAX_TOKEN_CHARACTERS
from tests.conftest import ROOT

TEXT = (ROOT / "docs/SECURITY.md").read_text(encoding="utf-8")
TABLE = TEXT.partition("## What a client can send")[2].partition("\n## ")[0]
LIMITS, SETTINGS = Limits(), ServerSettings()
BOUNDS = {
    "frames": LIMITS.frames,
    "frame_rate": LIMITS.frame_rate,
    "client_share": LIMITS.client_share,
    "hub_share": LIMITS.hub_share,
    "packets": LIMITS.packets,
    "message_mib": SETTINGS.max_message_bytes // MIB,
    "events": LIMITS.events,
    "event_mib": LIMITS.event_bytes // MIB,
    "busy_mib": LIMITS.busy_bytes // MIB,
    "stall_seconds": LIMITS.stall_seconds,
    "uploads": LIMITS.uploads,
    "body_mib": MAX_BYTES // MIB,
    "body_values": MAX_VALUES,
    "body_lists": MAX_LISTS,
    "held_mib": MAX_OF_CLIENT // MIB,
    "held_all_mib": MAX_OF_ALL // MIB,
    "stored_mib": MAX_STORED_OF_ONE // MIB,
    "stored_all_mib": MAX_STORED // MIB,
    "stops": MAX_STOPS,
    "stop_characters": MAX_STOP_CHARACTERS,
    "stop_tokens": MAX_STOP_TOKENS,
    "biases": MAX_BIASES,
    "token_characters": MAX_TOKEN_CHARACTERS,
    "prompt_kib": SETTINGS.max_prompt_bytes // 1024,
    "prompts": SETTINGS.max_prompts,
    "prompts_mib": prompts_page.MAX_BYTES // MIB,
    "prompts_seconds": prompts_page.MAX_SECONDS,
    "reads": READS,
    "reads_of_one": bounds.MAX_READS_PER_GUEST,
    "commands_of_one": bounds.MAX_PER_GUEST,
    "commands": bounds.MAX_COMMANDS,
    "seats": admission.MAX_SEATS,
    "seats_of_address": admission.MAX_OF_ADDRESS,
    "seats_unconfirmed": admission.MAX_UNCONFIRMED,
    "seat_confirm_seconds": admission.CONFIRM_SECONDS,
    "seat_expire_seconds": admission.EXPIRE_SECONDS,
    "recording_mib": SETTINGS.max_recording_bytes // MIB,
    "link_seconds": MAX_READ_SECONDS,
    "projection_numbers": MAX_NUMBERS,
}


def routes() -> set[str]:
    """Return every address of the server, as `METHOD rule`, from the tables of its modules."""
    found = set()
    for module in pkgutil.walk_packages(app.__path__, "app."):
        if module.name == "app.__main__":
            continue
        for route in getattr(importlib.import_module(module.name), "ROUTES", ()):
            if isinstance(route, Route) and route.method != "GET":
                found.add(f"{route.method} {route.rule}")
    return found


def test_every_socket_event_has_a_row() -> None:
    named = set(re.findall(r"`(\w+)`", TABLE))
    assert not set(ALL_EVENTS) - named


def test_every_route_that_takes_a_body_has_a_row() -> None:
    named = set(re.findall(r"`([A-Z]+ [^`]*)`", TABLE))
    assert routes() == named


@pytest.mark.parametrize("name", BOUNDS)
def test_numbers_of_the_table_equal_the_codes_constants(name: str) -> None:
    """A number is written as `5,000<!-- frames -->`, with the name of its constant in a comment."""
    figures = re.findall(rf"([\d,.]+)<!-- {name} -->", TABLE)
    assert figures and {float(number.replace(",", "")) for number in figures} == {float(BOUNDS[name])}


def test_every_number_of_the_table_is_checked() -> None:
    assert set(re.findall(r"<!-- (\w+) -->", TABLE)) == set(BOUNDS)
