"""Server for load tests: the bundled model in a separate process that prints when records are appended."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

from app.ground.settings import ServerSettings
from app.models.engine_face import EngineLike, OwnTiers
from app.models.live_model import load
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.server.application import create_app
from app.server.listener import Listener, bind
from engine.config import EngineConfig
from engine.trace.records import StepRecord


def main() -> None:
    """Serve until SIGTERM. Optional arguments: the required token, and the message queue of web workers.

    Prints `port N`, followed by a line `index seconds` (CLOCK_MONOTONIC) per record.
    """
    token, queue = [*sys.argv[1:], None, None][:2]
    config = EngineConfig(block_size=16, max_num_seqs=2, enforce_eager=True)
    settings = ServerSettings(token=token, message_queue=queue, config=config)
    model = load("bundled", "auto", "cpu", settings, lambda stage: None)
    build = model.build

    def noted(record: StepRecord) -> None:
        os.write(1, f"{record.index} {time.monotonic():.6f}\n".encode())

    def timed(config: EngineConfig, path: Path | None, own: OwnTiers | None = None) -> EngineLike:
        engine = build(config, path, own)
        engine.log.subscribe(noted)
        return engine

    model.build = timed  # type: ignore[method-assign]
    app = create_app(Models(ModelEntry(model)), settings)
    listener = Listener(app, bind("127.0.0.1", 0))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    os.write(1, f"port {listener.port}\n".encode())
    stop.wait()
    began = time.monotonic()
    listener.close()
    print(f"closed in {time.monotonic() - began:.2f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
