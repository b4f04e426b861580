"""Attachments read the pool's size, the version and numbers from the metrics."""

import errno

import pytest

from engine.observe.monitor import attachment as module
from engine.observe.monitor.attachment import Attaching, Attachment
from engine.trace.log import TraceWriter
from engine.trace.records import StepRecord
from tests.unit.monitor.metrics_server import MetricsServer, page
from tests.unit.monitor.publisher import Publisher, message
from tests.unit.monitor.waiting import wait_for


def problems(attachment: Attachment) -> list[str]:
    records = [attachment.log.record(index) for index in range(len(attachment.log))]
    return [one.seen.problem for one in records if one.seen is not None and one.seen.problem]


def test_metrics_give_size_version_and_numbers_until_the_server_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "METRICS_SECONDS", 0.02)
    with Publisher() as publisher, MetricsServer(page(3)) as server:
        attachment = Attachment(Attaching(events=publisher.events, replay=publisher.replay, metrics=server.url))
        try:
            header = attachment.log.header
            assert header.observed is not None and header.observed.source == "vLLM 0.32.0"
            assert (header.model.name, header.engine["block_size"], header.engine["num_blocks"]) == ("m", 32, 512)
            attachment.start()
            wait_for(lambda: len(attachment.log) == 1)
            seen = attachment.log.record(0).seen
            assert seen is not None and seen.metrics["vllm:num_requests_running"] == 3.0
            server.text = page(4, num_blocks=256)
            wait_for(lambda: len(attachment.log) == 3)
            assert problems(attachment) == ["the server restarted with 256 blocks of 32 tokens: attach again"]
            server.text = "no metrics {"
            wait_for(lambda: len(problems(attachment)) == 2)
            server.close()
            wait_for(lambda: len(problems(attachment)) == 3)
            assert "no metrics from" in problems(attachment)[2]
        finally:
            attachment.close()
            attachment.log.close()


def test_a_full_disk_ends_the_attachment_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(log: TraceWriter, record: StepRecord) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Publisher() as publisher:
        options = Attaching(events=publisher.events, replay=publisher.replay, block_size=4, num_blocks=4)
        attachment = Attachment(options)
        try:
            monkeypatch.setattr(TraceWriter, "append", full)
            attachment.start()
            publisher.publish(message())
            wait_for(lambda: attachment.error is not None)
            assert "No space left on device" in str(attachment.error)
        finally:
            attachment.close()
            attachment.log.close()
