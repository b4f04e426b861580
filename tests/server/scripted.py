"""API on a model that calls a tool after a user message, and answers after a tool message."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.ground.settings import ApiSettings, ServerSettings
from app.models.live_model import load
from engine.config import EngineConfig
from tests.scripted_model import TEMPLATE, hermes, write_scripted
from tests.server.apis import Api, served_api

BLOCK = 16
CONFIG = EngineConfig(block_size=BLOCK, num_blocks=256, max_num_seqs=8, enforce_eager=True)
LOOK = ["I ", "look ", "at it.\n"]
SAYS = ["It ", "says ", "春", "江."]
SCRIPTS = {"user": [*LOOK, *hermes("read", path="a.txt")], "tool": SAYS}
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


@contextmanager
def scripted_api(
    folder: Path,
    scripts: Mapping[str, Sequence[str]] = SCRIPTS,
    template: str = TEMPLATE,
    special: Sequence[str] = (),
    api: ApiSettings | None = None,
    num_positions: int = 4096,
    **settings: Any,
) -> Iterator[Api]:
    """Serve the model under the name of `folder`."""
    write_scripted(folder, scripts, template, special, num_positions)
    model = load(str(folder), "auto", "cpu", ServerSettings(), lambda stage: None)
    with served_api(api, model=model, **{"config": CONFIG} | settings) as found:
        yield found
