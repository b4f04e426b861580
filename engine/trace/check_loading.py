"""Checks of external KV content in a record: lookups, admissions and loads agree."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from engine.trace.check_ops import Wrong
from engine.trace.geometry import group_index
from engine.trace.operations import Admit, Cache, Load, LookupExternal, Store
from engine.trace.records import BlockGroup, Header, StepRecord
from engine.trace.state import State


def wrong_in_loading(record: StepRecord, state: State, header: Header) -> Iterator[Wrong]:
    """Yield each contradiction between these operations. `state`: state after the record."""
    found = {op.seq_id: op for op in record.ops if isinstance(op, LookupExternal)}
    admitted = {op.seq_id: op for op in record.ops if isinstance(op, Admit)}
    hashes = {op.block_id: op.block_hash for op in record.ops if isinstance(op, Cache)}
    arrived = {seq_id for seq_id, sequence in state.sequences.items() if sequence.transfer is not None}
    loaded: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))  # sequence, group: logical blocks
    for op in record.ops:
        if isinstance(op, Load):
            loaded[op.seq_id][group_index(state.block_groups, op.block_id)].add(op.logical)
    for position, op in enumerate(record.ops):
        match op:
            case LookupExternal():
                wrong = _lookup(op, admitted.get(op.seq_id), state.block_size)
            case Admit() if op.seq_id in arrived:
                continue  # its content arrived before this record
            case Admit():
                wrong = _admission(op, found.get(op.seq_id), loaded[op.seq_id], state, header)
            case Load():
                wrong = _load(op, admitted.get(op.seq_id), hashes, state.block_size)
            case Store():
                wrong = _store(op, hashes, state)
            case _:
                continue
        for message in wrong:
            yield position, f"{op.__struct_config__.tag}: {message}"


def _lookup(op: LookupExternal, admit: Admit | None, size: int) -> Iterator[str]:
    if not 0 <= op.num_found_tokens <= op.num_tokens:
        yield f"num_found_tokens is {op.num_found_tokens}, but num_tokens is {op.num_tokens}"
    if op.num_tokens % size or op.num_found_tokens % size:
        yield f"{op.num_tokens} and {op.num_found_tokens} tokens are not whole blocks of {size}"
    if len(op.media) * size > op.num_found_tokens:
        yield f"media has {len(op.media)} blocks, but {op.num_found_tokens} tokens fill {op.num_found_tokens // size}"
    for name in ("load_seconds", "compute_seconds"):
        seconds = getattr(op, name)
        if seconds is not None and not (math.isfinite(seconds) and seconds >= 0):
            yield f"{name} is {seconds}"
    taken = admit.num_external_tokens if admit else 0
    if (op.verdict == "load") != (taken > 0):
        yield f"the verdict is {op.verdict}, but {taken} external tokens are admitted"
    elif taken > op.num_found_tokens:
        yield f"{op.num_found_tokens} tokens were found, but {taken} are admitted"


def _admission(
    op: Admit, lookup: LookupExternal | None, loaded: dict[int, set[int]], state: State, header: Header
) -> Iterator[str]:
    """Check that every block of external tokens that a later query sees is loaded, in each group."""
    size = state.block_size
    if op.num_external_tokens == 0:
        return
    if op.num_external_tokens < 0 or op.num_external_tokens % size or op.num_cached_tokens % size:
        both = f"{op.num_cached_tokens} cached and {op.num_external_tokens} external tokens"
        yield f"{both} are not whole blocks of {size}"
        return
    if lookup is None:
        yield f"{op.num_external_tokens} tokens are external, but no lookup_external found them"
    external = set(range(op.num_cached_tokens // size, (op.num_cached_tokens + op.num_external_tokens) // size))
    for index, group in enumerate(state.block_groups):
        logicals = loaded[index]
        if max(external) not in logicals or (_sees_all(group, header) and logicals != external):
            num_loaded = len(logicals & external)
            yield f"group {index} loads {num_loaded} of {len(external)} blocks with external tokens"


def _sees_all(group: BlockGroup, header: Header) -> bool:
    if group.state_bytes:  # a query sees the last state only
        return False
    windows = [header.model.sliding_windows[layer] for layer in group.layers if layer < header.model.num_layers]
    return group.window is None and header.engine.get("attention_window") is None and not any(windows)


def _load(op: Load, admit: Admit | None, hashes: dict[int, bytes], size: int) -> Iterator[str]:
    first = admit.num_cached_tokens // size if admit else 0
    end = first + admit.num_external_tokens // size if admit else 0
    if not first <= op.logical < end:
        yield f"logical block {op.logical} of sequence {op.seq_id} is not among the external blocks of its admission"
    if hashes.get(op.block_id, op.block_hash) != op.block_hash:
        yield f"block {op.block_id} is loaded with one hash, but cached with another"


def _store(op: Store, hashes: dict[int, bytes], state: State) -> Iterator[str]:
    if not 0 <= op.block_id < len(state.blocks):
        yield f"there is no block {op.block_id}"
    elif hashes.get(op.block_id, op.block_hash) != op.block_hash:
        yield f"block {op.block_id} is stored with one hash, but cached with another"
