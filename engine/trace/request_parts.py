"""Requests whose parts are sequences on several instances: prefill on one, decode on another.

A request begins with its first `submit`, and its tokens are those of the decode part. The prefill part (`kv_producer`)
samples a token that is discarded. If an instance is lost before a part has tokens, the request continues with another
part. `static/js/core/request_parts.js` mirrors this file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.trace.disagg_ids import plain_id
from engine.trace.operations import Finish, Fork, Lost, Op, Sample, Submit


@dataclass(slots=True)
class _Open:
    """Unfinished request."""

    request_id: str
    part: int  # seq_id of its latest submission
    alive: set[int] = field(default_factory=set)  # unfinished sequences of that part
    has_tokens: bool = False


class RequestParts:
    """Map from sequences to their requests, which `read` builds from operations.

    Args:
        is_shared: whether several instances share the log; if not, each sequence is a request.
    """

    def __init__(self, is_shared: bool) -> None:
        self.is_shared = is_shared
        self._open: dict[str, _Open] = {}  # by request_id
        self._of: dict[int, _Open] = {}  # seq_id of an unfinished sequence -> its request
        self._producers: set[int] = set()  # unfinished sequences whose requests continue on another instance
        self.may_continue: set[int] = set()  # sequences ended by the last `lost` whose requests may continue
        self._instances: dict[int, int] = {}  # seq_id of an unfinished sequence -> its instance

    def request_id(self, op: Submit) -> str:
        """Return the id of the request that a submission belongs to."""
        if self.is_shared and op.kv_role == "kv_producer":
            return plain_id(op.request_id)
        return op.request_id

    def read(self, op: Op, instance: int) -> int | None:
        """Read the next operation of a record of `instance`.

        Returns the previous part if the operation submits a further part, otherwise None.
        """
        if not self.is_shared:
            return None
        match op:
            case Submit():
                return self._submit(op, instance)
            case Fork() if op.parent_seq_id in self._of:
                request = self._of[op.seq_id] = self._of[op.parent_seq_id]
                request.alive.add(op.seq_id)
                self._instances[op.seq_id] = instance
            case Sample() if op.seq_id in self._of and op.seq_id not in self._producers:
                self._of[op.seq_id].has_tokens = True
            case Finish() if op.seq_id in self._of:
                continues = op.seq_id in self._producers and op.reason != "abort"
                self._end(op.seq_id, continues)
            case Lost():
                lost = [seq_id for seq_id, owner in self._instances.items() if owner == instance]
                may_continue = {i for i in lost if i in self._producers or not self._of[i].has_tokens}
                self.may_continue = may_continue.difference(op.given_up)
                for seq_id in lost:
                    self._end(seq_id, seq_id in self.may_continue)
            case _:
                pass
        return None

    def _submit(self, op: Submit, instance: int) -> int | None:
        request_id = self.request_id(op)
        request, before = self._open.get(request_id), None
        if request is None or request.alive:
            request = self._open[request_id] = _Open(request_id, op.seq_id)
        else:
            before, request.part = request.part, op.seq_id
        request.alive = {op.seq_id}
        self._of[op.seq_id] = request
        self._instances[op.seq_id] = instance
        if op.kv_role == "kv_producer":
            self._producers.add(op.seq_id)
        return before

    def _end(self, seq_id: int, continues: bool) -> None:
        request = self._of.pop(seq_id)
        del self._instances[seq_id]
        self._producers.discard(seq_id)
        request.alive.discard(seq_id)
        if not request.alive and not continues and self._open.get(request.request_id) is request:
            del self._open[request.request_id]
