"""docs/reference/protocol.md names every event, and its example program works."""

import re
from pathlib import Path
from typing import Any, get_args

from app.server.dispatch import ALL_EVENTS
from app.session.messages import Change

PROTOCOL = Path(__file__).parents[2] / "docs" / "reference" / "protocol.md"


def test_the_example_runs_unchanged(server):
    (code,) = re.findall(r"```python\n(.*?)```", PROTOCOL.read_text(encoding="utf-8"), re.DOTALL)
    address = "http://127.0.0.1:8765"
    assert code.count(address) == 1
    names: dict[str, Any] = {}
    exec(code.replace(address, server.url), names)
    assert [record.kind for record in names["records"]] == ["submit", "step", "step", "step", "step"]
    assert len(names["token_ids"]) == 4
    assert names["first"]["kind"] == "submit" and names["first"]["ops"][0]["request_id"] == "story"


def test_every_event_is_in_the_protocol():
    text = PROTOCOL.read_text(encoding="utf-8")
    missing = [name for name in ALL_EVENTS if f"| `{name}` |" not in text]
    assert not missing


def test_every_change_of_a_fork_is_in_the_protocol():
    text = PROTOCOL.read_text(encoding="utf-8")
    kinds = [kind.__struct_config__.tag for kind in get_args(Change)]
    assert len(kinds) > 5 and not [kind for kind in kinds if f'{{kind: "{kind}"' not in text]
