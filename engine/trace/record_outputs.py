"""Outputs of a record, in the order in which its operations consume them."""

from __future__ import annotations

from collections.abc import Iterable

from engine.trace.records import Output


class RecordOutputs:
    """Outputs of a record by sequence and token. A step that verifies drafts may sample a token several times."""

    def __init__(self, outputs: Iterable[Output]) -> None:
        self._outputs: dict[tuple[int, int], list[Output]] = {}
        for output in outputs:
            self._outputs.setdefault((output.seq_id, output.token_id), []).append(output)

    def take(self, seq_id: int, token_id: int) -> Output:
        """Return the next output of the sequence with this token. The last one is returned repeatedly.

        Raises:
            KeyError: there is no such output.
        """
        found = self._outputs[seq_id, token_id]
        return found.pop(0) if len(found) > 1 else found[0]
