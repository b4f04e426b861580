"""Redaction of records: removes texts, token ids and all values that reveal them. Counts, blocks and times remain.

A block's hash is computed from token ids, so it could confirm a guess. Each hash is therefore replaced by a keyed hash
whose key is not stored. Equal hashes remain equal.
"""

from __future__ import annotations

import secrets
from hashlib import blake2b

from msgspec.structs import replace

from engine.trace.operations import (
    Adjust,
    Cache,
    Choose,
    Draft,
    Evict,
    Finish,
    Forget,
    Load,
    Op,
    Sample,
    Setting,
    Store,
    Submit,
)
from engine.trace.records import BatchEntry, Output, StepRecord

HIDDEN = 0  # replaces every token id
LENGTHS = ("max_tokens", "min_tokens", "n", "best_of", "beam_width", "use_beam_search", "ignore_eos", "temperature")


class Redaction:
    """Redacts the records of one log, deterministically within the log."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def __call__(self, record: StepRecord) -> StepRecord:
        """Return the redacted record. The capture is removed, because keys and values reveal tokens."""
        return replace(
            record,
            batch=[_entry(entry) for entry in record.batch],
            ops=[self._op(op) for op in record.ops],
            outputs=[_output(output) for output in record.outputs],
            prompt_logprobs=[],
            has_capture=False,
        )

    def _op(self, op: Op) -> Op:
        if isinstance(op, Submit):
            return replace(
                op,
                prompt_token_ids=[HIDDEN] * len(op.prompt_token_ids),
                prompt_token_bytes=[b""] * len(op.prompt_token_ids),
                cache_salt=None if op.cache_salt is None else self._keyed_hash(op.cache_salt.encode()).hex(),
                sampling=_sampling(op.sampling),
            )
        if isinstance(op, Cache):
            return replace(
                op,
                block_hash=self._keyed_hash(op.block_hash),
                parent_hash=None if op.parent_hash is None else self._keyed_hash(op.parent_hash),
                token_ids=[HIDDEN] * len(op.token_ids),
            )
        if isinstance(op, Evict | Load | Store):
            return replace(op, block_hash=self._keyed_hash(op.block_hash))
        if isinstance(op, Sample):
            return replace(op, token_id=HIDDEN, sampled_token_id=None)
        if isinstance(op, Draft):
            hidden, texts = [HIDDEN] * len(op.token_ids), [b""] * len(op.token_ids)
            return replace(op, token_ids=hidden, token_bytes=texts, match_start=None, match_length=0)
        if isinstance(op, Choose):
            return replace(op, token_id=HIDDEN, token_bytes=b"")
        if isinstance(op, Finish):
            return replace(op, detail="") if op.reason == "stop" else op  # the detail may be a stop string
        if isinstance(op, Forget):
            zeros = [[0.0] * len(scores) for scores in op.scores]
            return replace(op, scores=zeros, lowest_kept=[None if x is None else 0.0 for x in op.lowest_kept])
        if isinstance(op, Adjust):
            return replace(op, sampling=_sampling(op.sampling))
        return op

    def _keyed_hash(self, value: bytes) -> bytes:
        return blake2b(value, key=self._secret, digest_size=min(max(len(value), 16), 32)).digest()


def _entry(entry: BatchEntry) -> BatchEntry:
    return replace(entry, token_ids=[HIDDEN] * len(entry.token_ids))


def _output(output: Output) -> Output:
    return replace(output, token_id=HIDDEN, token_bytes=b"", text="", logprob=0.0, top=[], full=None)


def _sampling(fields: dict[str, Setting]) -> dict[str, Setting]:
    """Return the sampling settings without those that contain texts or tokens."""
    return {name: value for name, value in fields.items() if name in LENGTHS}
