"""Monitoring of SGLang, with events in each of their forms."""

import json

import pytest

from engine.observe.monitor.attachment import Attaching, Attachment
from engine.observe.monitor.events import AllBlocksCleared, BlockRemoved, BlockStored, decode
from engine.observe.monitor.observed_log import ObservedLog, header_of
from engine.observe.monitor.sequence import Break, Message
from tests.unit.monitor.metrics_server import MetricsServer
from tests.unit.monitor.publisher import Publisher
from tests.unit.monitor.sglang import FORMS, Form, batch, cleared, page_removed, page_stored
from tests.unit.monitor.waiting import wait_for

FIRST, SECOND, THIRD = -(2**63), -7, 2**63 - 1
METRICS = """\
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m"} 2.0
"""


def as_bytes(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


@pytest.mark.parametrize("form", FORMS)
def test_every_event_form_decodes_equally(form: Form) -> None:
    payload = batch(
        form,
        page_stored(form, [FIRST, SECOND], [1, 2, 3, 4], 2),
        page_stored(form, [THIRD], [5], 1, parent=SECOND),  # a partial page
        page_removed(form, [FIRST, THIRD]),
        cleared(form),
        rank=3,
    )
    found = decode(payload)
    stored, short, removed, last = found.events
    assert isinstance(stored, BlockStored) and isinstance(short, BlockStored) and isinstance(removed, BlockRemoved)
    assert (found.rank, found.num_unread) == (3, 0) and last == AllBlocksCleared()
    assert [one.block_hash for one in stored.contents] == [as_bytes(FIRST), as_bytes(SECOND)]
    assert [one.parent_hash for one in stored.contents] == [None, as_bytes(FIRST)]
    assert [one.token_ids for one in (*stored.contents, *short.contents)] == [[1, 2], [3, 4], [5]]
    assert short.contents[0].parent_hash == as_bytes(SECOND)
    assert removed.block_hashes == [as_bytes(FIRST), as_bytes(THIRD)]
    assert stored.medium == ("" if form == "FIVE" else "GPU")


@pytest.mark.parametrize("form", ["SEVEN", "MAPS"])
def test_salts_are_distinguished_from_adapters(form: Form) -> None:
    [stored] = decode(batch(form, page_stored(form, [FIRST, SECOND], [1, 2], 1, salt="tenant"))).events
    assert isinstance(stored, BlockStored) and stored.lora_name is None
    assert [json.loads(one.extra_keys or "") for one in stored.contents] == [{"cache_salt": "tenant"}] * 2
    [plain] = decode(batch(form, page_stored(form, [FIRST], [1], 1))).events
    assert isinstance(plain, BlockStored) and plain.contents[0].extra_keys is None


@pytest.mark.parametrize("form", FORMS)
def test_tokens_of_bigram_pages_are_not_invented(form: Form) -> None:
    [stored] = decode(batch(form, page_stored(form, [FIRST], [[1, 2], [2, 3]], 2))).events
    assert isinstance(stored, BlockStored) and stored.contents[0].token_ids == []


@pytest.mark.parametrize("form", FORMS)
def test_missing_data_is_unknown_in_the_log(form: Form) -> None:
    header = header_of(model="m", source="SGLang", block_size=2, num_blocks=8, events=["tcp://one:5557"])
    observed = ObservedLog(header)
    observed.receive(0, Break("attached", 0))
    observed.receive(0, Message(0, batch(form, page_stored(form, [FIRST, SECOND], [1, 2, 3, 4], 2)), False))
    if form != "FIVE":
        lower = page_stored(form, [FIRST], [1, 2], 2, medium="CPU_PINNED")
        observed.receive(0, Message(1, batch(form, lower, page_removed(form, [FIRST])), False))
    log = observed.log
    assert log.header.observed is not None and {"ids", "ref_counts", "requests"} <= set(log.header.observed.unknown)
    state = log.state_at(len(log) - 1)
    hashes = {block.block_hash for block in state.blocks if block.block_hash is not None}
    assert hashes == ({as_bytes(FIRST), as_bytes(SECOND)} if form == "FIVE" else {as_bytes(SECOND)})
    assert len(state.outside) == (0 if form == "FIVE" else 1)
    assert not state.sequences and all(block.ref_count == 0 for block in state.blocks)
    observed.log.close()


def test_a_running_sglang_is_monitored_and_recognized() -> None:
    """SGLang publishes over ZeroMQ and replays missed messages without a topic. Its metrics lack the pool's size."""
    with Publisher(shape="pair") as publisher, MetricsServer(METRICS) as server:
        publisher.publish(batch("FIVE", page_stored("FIVE", [FIRST], [1, 2], 2)))
        options = Attaching(
            events=publisher.events, replay=publisher.replay, metrics=server.url, block_size=2, num_blocks=8
        )
        attachment = Attachment(options)
        try:
            assert attachment.log.header.observed is not None and attachment.log.header.observed.source == "SGLang"
            attachment.start()
            wait_for(lambda: attachment.observed.known(0).num_in_pool == 1)
            publisher.publish(batch("FIVE", page_stored("FIVE", [SECOND], [3, 4], 2), page_removed("FIVE", [FIRST])))
            wait_for(lambda: attachment.observed.known(0).keys == {("GPU", "", 0, as_bytes(SECOND))})
        finally:
            attachment.close()
            attachment.log.close()
