"""Figures of a run that a lesson's text may state: `[16](=prompt_tokens)`.

A figure is read from the visible part of the log, together with the index of its record.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import NamedTuple

from app.lessons.questions.forgetting import changes
from app.lessons.questions.instances import longest_gap
from app.lessons.scene import Scene, Undecided, need_op, visible_log
from engine.accounting.memory import bytes_per_element
from engine.trace.operations import (
    Admit,
    Arrive,
    Cache,
    Copy,
    Draft,
    Evict,
    Finish,
    Load,
    Lookup,
    LookupExternal,
    Op,
    Preempt,
    Receive,
    Release,
    Store,
    TakeBack,
    TransferFailed,
    Verify,
)
from engine.trace.records import Memory


class FigureValue(NamedTuple):
    """Value of a figure, and the record that it is read from (None: the header, or a formula)."""

    value: float
    record: int | None = None


Figure = Callable[..., FigureValue]
COUNTED_OPERATIONS: dict[str, type[Op]] = {
    kind.__struct_config__.tag: kind  # type: ignore[misc]
    for kind in (Preempt, Evict, Copy, Release, Cache, Finish, Load, Store, Receive, TransferFailed, Draft)
}
FIGURES: dict[str, Figure] = {}


def figure_of(scene: Scene, name: str, arguments: list[str]) -> FigureValue:
    """Return the figure `name` of the visible part of the run.

    Raises:
        Undecided: the run does not have the figure at this moment, or the arguments are invalid.
    """
    figure = FIGURES[name]
    parameters = list(inspect.signature(figure).parameters.values())[1:]
    if len(arguments) > len(parameters) or len(arguments) < sum(p.default is p.empty for p in parameters):
        raise Undecided(f"the figure {name!r} takes {', '.join(p.name for p in parameters) or 'nothing'} after a colon")
    try:
        values = [int(text) if p.annotation == "int" else text for text, p in zip(arguments, parameters, strict=False)]
    except ValueError:
        raise Undecided(f"the figure {name!r} takes whole numbers, not {arguments}") from None
    if not scene.now:
        raise Undecided(f"the figure {name!r} is used before any prompt is submitted")
    return figure(scene, *values)


def figure(function: Figure) -> Figure:
    """Register a function as a figure, under its name."""
    FIGURES[function.__name__] = function
    return function


def _newest(scene: Scene) -> int:
    return scene.now - 1


def _memory(scene: Scene) -> Memory:
    return scene.log.record(_newest(scene)).memory


# figures read directly from the newest record, and those of the whole run
NEWEST_FIGURES: dict[str, Callable[[Scene], float]] = {
    "held": lambda scene: _memory(scene).blocks_held,
    "cached": lambda scene: _memory(scene).blocks_cached,  # blocks that no sequence holds
    "free": lambda scene: _memory(scene).blocks_free,  # blocks that no sequence holds and that cache nothing
    "wasted": lambda scene: _memory(scene).slots_wasted,  # reserved slots without content
    "held_bytes": lambda scene: _memory(scene).bytes_held,
    "running": lambda scene: len(scene.state.running),
    "waiting": lambda scene: len(scene.state.waiting),
}
RUN_FIGURES: dict[str, Callable[[Scene], float]] = {
    "block_size": lambda scene: scene.block_size,
    "num_blocks": lambda scene: len(scene.state.blocks),
    "layers": lambda scene: scene.header.model.num_layers,
    "heads": lambda scene: scene.header.model.num_heads,  # query heads
    "kv_heads": lambda scene: scene.header.model.num_kv_heads,
    "head_dim": lambda scene: scene.header.model.head_dim,
    "token_bytes": lambda scene: scene.header.kv_bytes_per_token,  # in all layers
    "state_bytes": lambda scene: scene.header.model.state_bytes,  # of a sequence, in all layers
}


def _figure_from(read: Callable[[Scene], float], of_newest: bool) -> Figure:
    def found(scene: Scene) -> FigureValue:
        return FigureValue(read(scene), _newest(scene) if of_newest else None)

    return found


FIGURES |= {name: _figure_from(read, True) for name, read in NEWEST_FIGURES.items()}
FIGURES |= {name: _figure_from(read, False) for name, read in RUN_FIGURES.items()}


@figure
def prompt_tokens(scene: Scene, seq: int = 0) -> FigureValue:
    """Return the number of prompt tokens of a sequence."""
    found = scene.sequence(seq)
    return FigureValue(found.num_prompt_tokens, found.submitted_in)


@figure
def tokens(scene: Scene, seq: int = 0) -> FigureValue:
    """Return the number of tokens of a sequence: prompt and output."""
    return FigureValue(len(scene.sequence(seq).token_ids), _newest(scene))


@figure
def generated(scene: Scene, seq: int = 0) -> FigureValue:
    """Return the number of generated tokens of a sequence."""
    found = scene.sequence(seq)
    return FigureValue(len(found.token_ids) - found.num_prompt_tokens, _newest(scene))


@figure
def computed(scene: Scene, seq: int = 0) -> FigureValue:
    """Return the number of tokens of a sequence whose K and V are in the cache."""
    return FigureValue(scene.sequence(seq).num_computed_tokens, _newest(scene))


@figure
def step_tokens(scene: Scene) -> FigureValue:
    """Return the number of tokens computed in the newest step."""
    for index in range(scene.now - 1, -1, -1):
        record = scene.log.record(index)
        if record.kind == "step":
            return FigureValue(sum(len(entry.token_ids) for entry in record.batch), index)
    raise Undecided("no step has been taken yet")


@figure
def total_tokens(scene: Scene) -> FigureValue:
    """Return the number of tokens computed in all steps so far."""
    total = sum(len(entry.token_ids) for record in scene.seen_records() for entry in record.batch)
    return FigureValue(total, _newest(scene))


@figure
def earlier_total_tokens(scene: Scene) -> FigureValue:
    """Return `total_tokens` of the lesson's previous run."""
    if scene.earlier is None:
        raise Undecided("there is no previous run")
    log = scene.earlier
    return FigureValue(sum(len(entry.token_ids) for i in range(len(log)) for entry in log.record(i).batch))


@figure
def times_computed(scene: Scene, position: int, seq: int = 0) -> FigureValue:
    """Return the number of steps that computed the token at a position."""
    covering = scene.covering(position, seq, scene.seen_records())
    return FigureValue(len(covering), covering[-1] if covering else None)


@figure
def moved(scene: Scene) -> FigureValue:
    """Return the bytes received from other instances."""
    return _sum(scene, Arrive, "num_bytes")


@figure
def held_up(scene: Scene, request: int) -> FigureValue:
    """Return the maximum number of tokens that its instance computed between two tokens of a request."""
    return FigureValue(longest_gap(visible_log(scene.log, scene.now), request), _newest(scene))


@figure
def steps(scene: Scene) -> FigureValue:
    """Return the number of engine steps so far."""
    return FigureValue(scene.state.step, _newest(scene))


@figure
def keys_read(scene: Scene, seq: int = 0) -> FigureValue:
    """Return the number of keys that the newest query of a sequence read."""
    for index in range(scene.now - 1, -1, -1):
        for entry in scene.log.record(index).batch:
            if entry.seq_id == seq:
                return FigureValue(entry.context_len, index)
    raise Undecided(f"nothing of sequence {seq} has been computed yet")


@figure
def blocks(scene: Scene, seq: int = 0) -> FigureValue:
    """Return the number of entries in a sequence's block table that are not RELEASED."""
    return FigureValue(sum(1 for block in scene.sequence(seq).block_tables[0] if block >= 0), _newest(scene))


@figure
def block_of(scene: Scene, position: int, seq: int = 0) -> FigureValue:
    """Return the physical block of a position."""
    table = scene.sequence(seq).block_tables[0]
    logical = position // scene.block_size
    if logical >= len(table) or table[logical] < 0:
        raise Undecided(f"position {position} of sequence {seq} has no block")
    return FigureValue(table[logical], _newest(scene))


@figure
def slot_of(scene: Scene, position: int, seq: int = 0) -> FigureValue:
    """Return the slot of a position: block id · block size + position mod block size."""
    block = int(block_of(scene, position, seq).value)
    return FigureValue(block * scene.block_size + position % scene.block_size, _newest(scene))


@figure
def ref_count(scene: Scene, block: int) -> FigureValue:
    """Return a block's ref_count."""
    if not 0 <= block < len(scene.state.blocks):
        raise Undecided(f"there is no block {block}")
    return FigureValue(scene.state.blocks[block].ref_count, _newest(scene))


@figure
def hit_tokens(scene: Scene, seq: int) -> FigureValue:
    """Return the number of tokens of a sequence that hit in the prefix cache at its first admission."""
    found = need_op(scene.seen_records(), Lookup, f"sequence {seq} was not looked up in the prefix cache", seq_id=seq)
    return FigureValue(found.op.num_hit_tokens, found.record.index)


@figure
def loaded_tokens(scene: Scene, seq: int) -> FigureValue:
    """Return the number of tokens of a sequence loaded from outside the pool at its first admission."""
    found = need_op(scene.seen_records(), Admit, f"sequence {seq} has not been admitted", seq_id=seq)
    return FigureValue(found.op.num_external_tokens, found.record.index)


@figure
def load_ms(scene: Scene, seq: int) -> FigureValue:
    """Return the estimated milliseconds of loading a sequence's tokens from outside the pool."""
    return _estimated(scene, seq, "load_seconds")


@figure
def compute_ms(scene: Scene, seq: int) -> FigureValue:
    """Return the estimated milliseconds of computing these tokens instead."""
    return _estimated(scene, seq, "compute_seconds")


def _estimated(scene: Scene, seq: int, name: str) -> FigureValue:
    message = f"sequence {seq} was not looked up outside the pool"
    found = need_op(scene.seen_records(), LookupExternal, message, seq_id=seq)
    seconds = getattr(found.op, name)
    if seconds is None:
        raise Undecided(f"{name} of sequence {seq} is not known yet")
    return FigureValue(1000 * seconds, found.record.index)


@figure
def cached_at_end(scene: Scene, seq: int = 0) -> FigureValue:
    """Return the number of tokens of a finished sequence that were in the cache when it ended."""
    found = need_op(scene.seen_records(), Finish, f"sequence {seq} has not finished", seq_id=seq)
    return FigureValue(scene.sequence(seq).num_computed_tokens, found.record.index)


@figure
def count(scene: Scene, operation: str) -> FigureValue:
    """Return the number of operations of a type so far: preempt, evict, copy, release, cache, …"""
    if operation not in COUNTED_OPERATIONS:
        raise Undecided(f"count: the operation must be one of {', '.join(COUNTED_OPERATIONS)}")
    found = _operations(scene, COUNTED_OPERATIONS[operation])
    return FigureValue(len(found), found[-1][0] if found else None)


@figure
def drafted(scene: Scene) -> FigureValue:
    """Return the number of verified draft tokens."""
    return _sum(scene, Verify, "num_drafted")


@figure
def accepted(scene: Scene) -> FigureValue:
    """Return the number of accepted draft tokens."""
    return _sum(scene, Verify, "num_accepted")


@figure
def taken_back(scene: Scene) -> FigureValue:
    """Return the number of slots with keys of rejected drafts."""
    return _sum(scene, TakeBack, "num_tokens")


def _sum(scene: Scene, kind: type[Op], name: str) -> FigureValue:
    found = _operations(scene, kind)
    return FigureValue(sum(getattr(op, name) for _, op in found), found[-1][0] if found else None)


def _operations(scene: Scene, kind: type[Op]) -> list[tuple[int, Op]]:
    """Return the visible operations of a type with the indices of their records."""
    return [(record.index, op) for record in scene.seen_records() for op in record.ops if isinstance(op, kind)]


@figure
def forgotten(scene: Scene, layer: int, head: int, seq: int = 0) -> FigureValue:
    """Return the number of tokens that a KV head has forgotten."""
    found = [op for op in scene.sequence(seq).forgotten if op.layer == layer]
    return FigureValue(sum(len(op.positions[head]) for op in found), _newest(scene))


@figure
def changed(scene: Scene, seq: int = 0) -> FigureValue:
    """Return the number of outputs of a sequence whose most probable token differs under the full cache."""
    found = changes(visible_log(scene.log, scene.now), seq)
    return FigureValue(len(found), found[-1].record if found else None)


@figure
def state_every(scene: Scene) -> FigureValue:
    """Return the number of prompt tokens between stored states."""
    return FigureValue(max(group.checkpoint for group in scene.header.block_groups))


@figure
def query_bytes(scene: Scene) -> FigureValue:
    """Return the bytes that a token's queries would take in a cache: Hq · D · layers · bytes per number."""
    model = scene.header.model
    return FigureValue(model.num_layers * model.num_heads * model.head_dim * bytes_per_element(model.dtype))


@figure
def setting(scene: Scene, name: str) -> FigureValue:
    """Return a numeric engine setting of the run."""
    found = scene.header.engine.get(name)
    if not isinstance(found, int | float):
        raise Undecided(f"the setting {name!r} of the run is not a number")
    return FigureValue(found)
