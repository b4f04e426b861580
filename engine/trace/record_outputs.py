"""Outputs and drafts of a record, as its operations take them."""

from __future__ import annotations

from collections.abc import Iterable

from engine.trace.records import Output


class RecordOutputs:
    """Outputs of a record by sequence and token. A step that verifies drafts may choose one token several times."""

    def __init__(self, outputs: Iterable[Output]) -> None:
        self._outputs: dict[tuple[int, int], list[Output]] = {}
        for output in outputs:
            self._outputs.setdefault((output.seq_id, output.token_id), []).append(output)

    def take(self, seq_id: int, token_id: int) -> Output:
        """Return the next output of the sequence with this token; the last one again where there is no other.

        Raises:
            KeyError: there is none.
        """
        found = self._outputs[seq_id, token_id]
        return found.pop(0) if len(found) > 1 else found[0]
