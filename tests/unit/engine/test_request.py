"""Text of a growing output, without partial characters and parts of stop strings."""

import pytest

from engine.config import SamplingParams
from engine.requests.sequence_output import SequenceOutput
from engine.scheduling.sequence import Sequence


class ByteTokenizer:
    """Tokenizer whose token ids are bytes."""

    eos_token_ids = frozenset({0})

    def text_bytes(self, token_id: int) -> bytes:
        return bytes([token_id])


def feed(data: bytes, **sampling: object) -> tuple[list[str], SequenceOutput]:
    params = SamplingParams(**sampling)  # type: ignore[arg-type]
    limit = params.max_tokens or 99
    sequence = Sequence(seq_id=0, request_id="r", token_ids=[1], num_prompt_tokens=1, max_tokens=limit)
    request = SequenceOutput(sequence, params, ByteTokenizer(), 0)  # type: ignore[arg-type]
    shown = []
    for byte in data:
        sequence.token_ids.append(byte)
        text, stop = request.accept(byte, -1.0)
        shown.append(text)
        if stop:
            request.finish_reason = stop.reason
            break
    return shown, request


def test_a_character_appears_with_its_last_byte() -> None:
    shown, _ = feed("月A".encode())
    assert shown == ["", "", "月", "A"]


def test_a_stop_string_over_several_tokens_is_never_shown() -> None:
    shown, request = feed(b"one END two", stop=["END"])
    assert "".join(shown) == "one " and request.finish_reason == "stop"


def test_text_that_may_begin_a_stop_string_is_held_back() -> None:
    shown, request = feed(b"ENTER", stop=["END"])
    assert shown == ["", "", "ENT", "", "ER"] and request.text == "ENTER"


def test_the_earliest_of_several_stop_strings_counts() -> None:
    _, request = feed(b"abcdef", stop=["de", "bc"])
    assert request.text == "a"


def test_max_tokens_flushes_held_back_text() -> None:
    _, request = feed(b"abEN", stop=["END"], max_tokens=4)
    assert request.text == "abEN" and request.finish_reason == "length"


@pytest.mark.parametrize("data", [b"a\xe6\x9c\0", b"a\xe6\x9c"])
def test_an_incomplete_character_is_shown_at_the_end(data: bytes) -> None:
    _, request = feed(data, max_tokens=len(data))
    assert request.text == "a\ufffd" and request.finish_reason == ("stop" if data.endswith(b"\0") else "length")


def test_a_fork_continues_within_a_character_and_a_stop_string() -> None:
    """The fork follows two of the three bytes of 月, or two letters of a stop string."""
    _, partial = feed("a月".encode()[:3])
    child = partial.fork(partial.sequence, seed=1)
    assert child.accept(0x88, -1.0)[0] == "月" == partial.accept(0x88, -1.0)[0]
    _, parent = feed(b"xEN", stop=["END"])
    child = parent.fork(parent.sequence, seed=1)
    assert child.accept(ord("D"), -1.0) == ("", ("stop", "END")) and child.text == "x"
    assert parent.accept(ord("T"), -1.0)[0] == "ENT" and child.cumulative_logprob == -4.0


def test_the_end_of_sequence_token_has_no_text_and_can_be_ignored() -> None:
    _, request = feed(b"ab\0cd")
    assert (request.text, request.finish_reason) == ("ab", "stop")
    _, ignoring = feed(b"ab\0cd", ignore_eos=True)
    assert ignoring.text == "ab\0cd" and ignoring.finish_reason is None
