"""Publisher of KV events and the server that displays them, as `kvtheater attach` runs it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.ground.settings import ServerSettings
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.server.application import create_app
from app.server.listener import Listener, bind
from engine.observe.monitor.attachment import Attaching, Attachment
from tests.unit.monitor.publisher import Publisher, message, removed, stored

BLOCK_SIZE, NUM_BLOCKS = 4, 64


@contextmanager
def attached_server(
    folder: Path, record: Path | None = None, max_bytes: int = 1 << 30, metrics: str | None = None
) -> Iterator[tuple[Publisher, str]]:
    """Yield a publisher that has published events, and the address of the page."""
    with Publisher() as publisher:
        publisher.publish(message(stored([b"a" * 8, b"b" * 8], list(range(8)), BLOCK_SIZE)))
        publisher.publish(message(removed([b"b" * 8])))
        options = Attaching(
            events=publisher.events,
            replay=publisher.replay,
            metrics=metrics,
            block_size=BLOCK_SIZE,
            num_blocks=NUM_BLOCKS,
            max_bytes=max_bytes,
        )
        attachment = Attachment(options, record)
        app = create_app(Models(ModelEntry(None)), ServerSettings(data_dir=folder), attachment=attachment)
        attachment.start()
        listener = Listener(app, bind("127.0.0.1", 0))
        try:
            yield publisher, f"http://127.0.0.1:{listener.port}"
        finally:
            listener.close()
