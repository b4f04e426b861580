"""Figures of a run that a lesson's text may state: `[16](=prompt_tokens)`.

A figure is read from the visible part of the log, with the record that has it, or None.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import NamedTuple

from app.lessons.questions.forgetting import changes
from app.lessons.questions.instances import longest_gap
from app.lessons.scene import Scene, Undecided, need_op, shown
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


class Found(NamedTuple):
    """Figure's value, and its record (None: the header, or none)."""

    value: float
    record: int | None = None


Figure = Callable[..., Found]
COUNTED: dict[str, type[Op]] = {
    kind.__struct_config__.tag: kind  # type: ignore[misc]
    for kind in (Preempt, Evict, Copy, Release, Cache, Finish, Load, Store, Receive, TransferFailed, Draft)
}
FIGURES: dict[str, Figure] = {}


def figure_of(scene: Scene, name: str, arguments: list[str]) -> Found:
    """Return the figure `name` of the visible part of the run.

    Raises:
        Undecided: the run has no such figure here, or the arguments are invalid.
    """
    figure = FIGURES[name]
    wanted = list(inspect.signature(figure).parameters.values())[1:]
    if len(arguments) > len(wanted) or len(arguments) < sum(p.default is p.empty for p in wanted):
        raise Undecided(f"the figure {name!r} takes {', '.join(p.name for p in wanted) or 'nothing'} after a colon")
    try:
        values = [int(text) if p.annotation == "int" else text for text, p in zip(arguments, wanted, strict=False)]
    except ValueError:
        raise Undecided(f"the figure {name!r} takes whole numbers, not {arguments}") from None
    if not scene.now:
        raise Undecided(f"the figure {name!r} is asked for before anything was submitted")
    return figure(scene, *values)


def figure(named: Figure) -> Figure:
    """Register a function as a figure, under its name."""
    FIGURES[named.__name__] = named
    return named


def _newest(scene: Scene) -> int:
    return scene.now - 1


def _memory(scene: Scene) -> Memory:
    return scene.log.record(_newest(scene)).memory


# figures that stand in the run as they are: those of the newest record, and those of the whole run
OF_NEWEST: dict[str, Callable[[Scene], float]] = {
    "held": lambda scene: _memory(scene).blocks_held,
    "cached": lambda scene: _memory(scene).blocks_cached,  # blocks that no sequence holds
    "free": lambda scene: _memory(scene).blocks_free,  # blocks that no sequence holds and without cached content
    "wasted": lambda scene: _memory(scene).slots_wasted,  # reserved slots without content
    "held_bytes": lambda scene: _memory(scene).bytes_held,
    "running": lambda scene: len(scene.state.running),
    "waiting": lambda scene: len(scene.state.waiting),
}
OF_RUN: dict[str, Callable[[Scene], float]] = {
    "block_size": lambda scene: scene.block_size,
    "num_blocks": lambda scene: len(scene.state.blocks),
    "layers": lambda scene: scene.header.model.num_layers,
    "heads": lambda scene: scene.header.model.num_heads,  # query heads
    "kv_heads": lambda scene: scene.header.model.num_kv_heads,
    "head_dim": lambda scene: scene.header.model.head_dim,
    "token_bytes": lambda scene: scene.header.kv_bytes_per_token,  # in all layers
    "state_bytes": lambda scene: scene.header.model.state_bytes,  # of a sequence, in all layers
}


def _standing(read: Callable[[Scene], float], of_newest: bool) -> Figure:
    def found(scene: Scene) -> Found:
        return Found(read(scene), _newest(scene) if of_newest else None)

    return found


FIGURES |= {name: _standing(read, True) for name, read in OF_NEWEST.items()}
FIGURES |= {name: _standing(read, False) for name, read in OF_RUN.items()}


@figure
def prompt_tokens(scene: Scene, seq: int = 0) -> Found:
    """Tokens of a sequence's prompt."""
    found = scene.sequence(seq)
    return Found(found.num_prompt_tokens, found.submitted_in)


@figure
def tokens(scene: Scene, seq: int = 0) -> Found:
    """Tokens that a sequence has, prompt and output."""
    return Found(len(scene.sequence(seq).token_ids), _newest(scene))


@figure
def generated(scene: Scene, seq: int = 0) -> Found:
    """Tokens that were generated."""
    found = scene.sequence(seq)
    return Found(len(found.token_ids) - found.num_prompt_tokens, _newest(scene))


@figure
def computed(scene: Scene, seq: int = 0) -> Found:
    """Tokens of a sequence whose K and V are in the cache."""
    return Found(scene.sequence(seq).num_computed_tokens, _newest(scene))


@figure
def step_tokens(scene: Scene) -> Found:
    """Tokens that the newest step computed."""
    for index in range(scene.now - 1, -1, -1):
        record = scene.log.record(index)
        if record.kind == "step":
            return Found(sum(len(entry.token_ids) for entry in record.batch), index)
    raise Undecided("no step has been taken yet")


@figure
def total_tokens(scene: Scene) -> Found:
    """Tokens that all steps so far computed."""
    total = sum(len(entry.token_ids) for record in scene.seen() for entry in record.batch)
    return Found(total, _newest(scene))


@figure
def earlier_total_tokens(scene: Scene) -> Found:
    """Return the same for the lesson's previous run."""
    if scene.earlier is None:
        raise Undecided("there is no previous run")
    log = scene.earlier
    return Found(sum(len(entry.token_ids) for i in range(len(log)) for entry in log.record(i).batch))


@figure
def times_computed(scene: Scene, position: int, seq: int = 0) -> Found:
    """Steps that computed the token at a position."""
    covering = scene.covering(position, seq, scene.seen())
    return Found(len(covering), covering[-1] if covering else None)


@figure
def moved(scene: Scene) -> Found:
    """Return the bytes received from other instances."""
    found = [(record.index, op.num_bytes) for record in scene.seen() for op in record.ops if isinstance(op, Arrive)]
    return Found(sum(num_bytes for _, num_bytes in found), found[-1][0] if found else None)


@figure
def held_up(scene: Scene, request: int) -> Found:
    """Return the maximum of tokens that its instance computed between two tokens of a request."""
    return Found(longest_gap(shown(scene.log, scene.now), request), _newest(scene))


@figure
def steps(scene: Scene) -> Found:
    """Steps of the engine so far."""
    return Found(scene.state.step, _newest(scene))


@figure
def keys_read(scene: Scene, seq: int = 0) -> Found:
    """Keys that the newest query of a sequence read."""
    for index in range(scene.now - 1, -1, -1):
        for entry in scene.log.record(index).batch:
            if entry.seq_id == seq:
                return Found(entry.context_len, index)
    raise Undecided(f"nothing of sequence {seq} has been computed yet")


@figure
def blocks(scene: Scene, seq: int = 0) -> Found:
    """Entries of a sequence's block table that are not RELEASED."""
    return Found(sum(1 for block in scene.sequence(seq).block_tables[0] if block >= 0), _newest(scene))


@figure
def block_of(scene: Scene, position: int, seq: int = 0) -> Found:
    """Return the physical block of a position."""
    table = scene.sequence(seq).block_tables[0]
    logical = position // scene.block_size
    if logical >= len(table) or table[logical] < 0:
        raise Undecided(f"position {position} of sequence {seq} has no block")
    return Found(table[logical], _newest(scene))


@figure
def slot_of(scene: Scene, position: int, seq: int = 0) -> Found:
    """slot = block id · block size + position mod block size."""
    block = int(block_of(scene, position, seq).value)
    return Found(block * scene.block_size + position % scene.block_size, _newest(scene))


@figure
def ref_count(scene: Scene, block: int) -> Found:
    """Return a block's ref_count."""
    if not 0 <= block < len(scene.state.blocks):
        raise Undecided(f"there is no block {block}")
    return Found(scene.state.blocks[block].ref_count, _newest(scene))


@figure
def hit_tokens(scene: Scene, seq: int) -> Found:
    """Tokens of a sequence that hit in the prefix cache at its first admission."""
    found = need_op(scene.seen(), Lookup, f"the prefix cache was not asked for sequence {seq}", seq_id=seq)
    return Found(found.op.num_hit_tokens, found.record.index)


@figure
def loaded_tokens(scene: Scene, seq: int) -> Found:
    """Tokens of a sequence loaded from outside the pool at its first admission."""
    found = need_op(scene.seen(), Admit, f"sequence {seq} has not been admitted", seq_id=seq)
    return Found(found.op.num_external_tokens, found.record.index)


@figure
def load_ms(scene: Scene, seq: int) -> Found:
    """Estimated milliseconds of loading from outside the pool."""
    return _expected(scene, seq, "load_seconds")


@figure
def compute_ms(scene: Scene, seq: int) -> Found:
    """Estimated milliseconds of computing instead."""
    return _expected(scene, seq, "compute_seconds")


def _expected(scene: Scene, seq: int, name: str) -> Found:
    otherwise = f"nothing outside the pool was asked for sequence {seq}"
    found = need_op(scene.seen(), LookupExternal, otherwise, seq_id=seq)
    seconds = getattr(found.op, name)
    if seconds is None:
        raise Undecided(f"{name} of sequence {seq} was not known yet")
    return Found(1000 * seconds, found.record.index)


@figure
def cached_at_end(scene: Scene, seq: int = 0) -> Found:
    """Tokens of a finished sequence that were in the cache when it ended."""
    found = need_op(scene.seen(), Finish, f"sequence {seq} has not finished", seq_id=seq)
    return Found(scene.sequence(seq).num_computed_tokens, found.record.index)


@figure
def count(scene: Scene, operation: str) -> Found:
    """Operations of a type so far: preempt, evict, copy, release, cache, …"""
    if operation not in COUNTED:
        raise Undecided(f"what is counted is one of {', '.join(COUNTED)}")
    found = [(record.index, op) for record in scene.seen() for op in record.ops if isinstance(op, COUNTED[operation])]
    return Found(len(found), found[-1][0] if found else None)


@figure
def drafted(scene: Scene) -> Found:
    """Draft tokens that were verified."""
    return _sum(scene, Verify, "num_drafted")


@figure
def accepted(scene: Scene) -> Found:
    """Draft tokens that were accepted."""
    return _sum(scene, Verify, "num_accepted")


@figure
def taken_back(scene: Scene) -> Found:
    """Slots with keys of rejected drafts."""
    return _sum(scene, TakeBack, "num_tokens")


def _sum(scene: Scene, kind: type[Op], name: str) -> Found:
    found = [(record.index, getattr(op, name)) for record in scene.seen() for op in record.ops if isinstance(op, kind)]
    return Found(sum(number for _, number in found), found[-1][0] if found else None)


@figure
def forgotten(scene: Scene, layer: int, head: int, seq: int = 0) -> Found:
    """Tokens that a KV head has forgotten."""
    found = [op for op in scene.sequence(seq).forgotten if op.layer == layer]
    return Found(sum(len(op.positions[head]) for op in found), _newest(scene))


@figure
def changed(scene: Scene, seq: int = 0) -> Found:
    """Tokens of a sequence for which the full cache, given the same text, has another most probable token."""
    found = changes(shown(scene.log, scene.now), seq)
    return Found(len(found), found[-1].record if found else None)


@figure
def state_every(scene: Scene) -> Found:
    """Return the number of prompt tokens between stored states."""
    return Found(max(group.checkpoint for group in scene.header.block_groups))


@figure
def query_bytes(scene: Scene) -> Found:
    """Return the bytes of a token's queries if they were cached: Hq · D · layers · bytes per number."""
    model = scene.header.model
    return Found(model.num_layers * model.num_heads * model.head_dim * bytes_per_element(model.dtype))


@figure
def setting(scene: Scene, name: str) -> Found:
    """Return a setting of the run."""
    found = scene.header.engine.get(name)
    if not isinstance(found, int | float):
        raise Undecided(f"the run has no number for the setting {name!r}")
    return Found(found)
