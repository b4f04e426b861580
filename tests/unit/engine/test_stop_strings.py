"""Incremental search for stop strings, whose cost depends only on the new characters."""

import time

from hypothesis import given
from hypothesis import strategies as st

from engine.config import SamplingParams
from engine.options.table import table_of
from engine.requests.stop_strings import StopStrings

LETTERS = st.text("ab", min_size=1, max_size=6)


@given(stops=st.lists(LETTERS, min_size=1, max_size=4), pieces=st.lists(st.text("abc", max_size=4), max_size=12))
def test_incremental_stop_search_equals_a_full_search(stops: list[str], pieces: list[str]) -> None:
    searched, text = StopStrings(stops), ""
    for piece in pieces:
        before, text = len(text), text + piece
        found = searched.feed(piece)
        ending = [
            (at, stop)
            for stop in stops
            for at in range(len(text))
            if text.startswith(stop, at) and at + len(stop) > before
        ]
        assert (found and (found[0] + before, found[1])) == min(ending, default=None)
        beginnings = [n for stop in stops for n in range(len(stop)) if text.endswith(stop[:n])]
        assert searched.pending == max(beginnings)


def test_the_cost_per_character_does_not_depend_on_the_stop_strings_length() -> None:
    """Compare the processor time of 20,000 characters that match a stop string except for its end."""

    def seconds(length: int) -> float:
        searched, began = StopStrings(["a" * length + "b"]), time.process_time()
        for _ in range(20_000):
            searched.feed("a")
        return time.process_time() - began

    assert seconds(10_000) < 10 * seconds(10) + 0.1


def test_every_list_option_has_a_limit() -> None:
    """Every list and text option of a request has bounds on entries and characters."""
    for name, row in table_of(SamplingParams).items():
        if row.kind in ("list", "map"):
            assert row.option.most is not None, name
        if row.kind == "text" or str in row.items:
            assert row.option.longest is not None, name
