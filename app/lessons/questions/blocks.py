"""Questions about blocks: the next allocation, owners, copies and frees."""

from __future__ import annotations

from functools import partial

from app.lessons.questions import pictured
from app.lessons.questions.rules import Evidence, Question, choice, evidence_of, numbers, rule
from app.lessons.scene import Scene, Undecided, find_op, need_op
from engine.trace.operations import Allocate, Copy, Release


@rule
def next_block(scene: Scene) -> Question:
    """Ask for the block that is allocated next, which is the head of the free queue."""
    found = need_op(scene.unseen_records(), Allocate, "no block is allocated within the lesson")
    state = scene.state
    held = [block.block_id for block in state.blocks if block.ref_count]
    free = [block.block_id for block in state.blocks if not block.ref_count]
    queue = state.free_queues[0]
    wrong = [
        ("after_highest", max(held, default=-1) + 1),
        ("lowest_free", min(free, default=0)),
        ("tail", queue[-1] if queue else 0),
        ("second", queue[1] if len(queue) > 1 else 0),
    ]
    evidence = evidence_of(found, "free_queue[0]")
    place = partial(pictured.block, scene)
    return numbers("next_block", found.op.block_id, wrong, evidence, text="block", place=place)


@rule
def needs_block(scene: Scene, seq: int = 0) -> Question:
    """Ask whether the next step allocates a block for a sequence."""
    record = scene.next_step()
    entry = scene.entry(record, seq)
    if scene.reserves or len(entry.token_ids) > 1:
        raise Undecided(f"step {record.step} does not compute a single token of sequence {seq} that may need a block")
    found = find_op([record], Allocate, seq_id=seq)
    size = scene.block_size
    table, queue = scene.sequence(seq).block_tables[0], scene.state.free_queues[0]
    where = {
        "yes": pictured.block(scene, queue[0]) if queue else None,
        "no": pictured.block(scene, table[-1]),
    }
    return choice(
        "needs_block",
        "yes" if found else "no",
        ["yes", "no"],
        evidence_of(found, "p mod block_size") if found else Evidence(record=record.index, figure="p mod block_size"),
        why=["yes", "no"],
        places=where,
        seq=seq,
        position=entry.start,
        block_size=size,
        offset=entry.start % size,
    )


@rule
def ref_count(scene: Scene, logical: int, seq: int = 0) -> Question:
    """Ask for the ref_count of a sequence's block after the next action."""
    after = scene.final_state
    table = after.sequences[seq].block_tables[0] if seq in after.sequences else []
    if logical >= len(table) or table[logical] < 0:
        raise Undecided(f"sequence {seq} has no block {logical} after the next action")
    count = after.blocks[table[logical]].ref_count
    running = len(after.running)
    wrong = [("one_each", 1), ("all", running), ("all_and_cache", running + 1), ("tokens", scene.block_size)]
    evidence = Evidence(record=len(scene.log) - 1, figure="ref_count")
    return numbers("ref_count", count, wrong, evidence, seq=seq, logical=logical, block=table[logical])


@rule
def copied(scene: Scene) -> Question:
    """Ask whether a block is copied next, and which. Only a shared block to which a sequence writes is copied."""
    found = find_op(scene.unseen_records(), Copy)
    state = scene.state
    shared = [block.block_id for block in state.blocks if block.ref_count > 1]
    tails = [b for b in shared if len(state.blocks[b].token_ids) < state.block_size]
    full = [b for b in shared if b not in tails]
    if found is None:
        right = "none"
        evidence = Evidence(record=len(scene.log) - 1, figure="no copy")
    else:
        right = "tail"
        tails = [found.op.src]
        evidence = evidence_of(found, "copy.src → copy.dst")
    named = {key: blocks[0] for key, blocks in (("tail", tails), ("full", full)) if blocks}
    options = ["none", *named, "every"]
    return choice(
        "copied",
        right,
        options,
        evidence,
        why=options,
        of_options={key: {"block": block} for key, block in named.items()},
        places={key: pictured.block(scene, block) for key, block in named.items()},
    )


@rule
def bytes_after(scene: Scene) -> Question:
    """Ask for the bytes of the blocks that sequences hold after the next action."""
    record = scene.log.record(len(scene.log) - 1)
    memory, model = record.memory, scene.header.model
    block = memory.bytes_held // memory.blocks_held if memory.blocks_held else 0
    wrong = [
        ("only_tokens", memory.bytes_used),
        ("block_more", memory.bytes_held + block),
        ("hidden_size", memory.bytes_held * model.group_size),
        ("only_keys", memory.bytes_held // 2),
    ]
    evidence = Evidence(record=record.index, figure="blocks_held · block_size · kv_bytes_per_token")
    return numbers(
        "bytes_after",
        memory.bytes_held,
        wrong,
        evidence,
        text="bytes",
        place=lambda n: pictured.AtBytes(bytes=int(n)),
    )


@rule
def released(scene: Scene, seq: int = 0) -> Question:
    """Ask for the next block that is released because it has left the attention window."""
    if scene.header.engine.get("forget_policy"):
        raise Undecided("with forget_policy, a block is released when every head has forgotten it")
    message = f"nothing of sequence {seq} is released within the lesson"
    found = need_op(scene.unseen_records(), Release, message, seq_id=seq)
    table = scene.log.state_at(found.record.index - 1).sequences[seq].block_tables[0]
    held = [block for block in table if block >= 0]
    wrong = [("newest", held[-1]), ("first", table[0] if table[0] >= 0 else held[0]), ("second", held[1])]
    place = partial(pictured.block, scene)
    evidence = evidence_of(found, "release")
    return numbers("released", found.op.block_id, wrong, evidence, text="block", place=place, seq=seq)


@rule
def most_blocks(scene: Scene, seq: int = 0) -> Question:
    """Ask for the maximum number of blocks that a sequence holds, up to the end of the run."""
    most, record = 0, 0
    total = 0
    for index in range(len(scene.log)):
        state = scene.log.state_at(index)
        if seq in state.sequences:
            table = state.sequences[seq].block_tables[0]
            total = max(total, len(state.sequences[seq].token_ids))
            held = sum(1 for block in table if block >= 0)
            if held > most:
                most, record = held, index
    if not most:
        raise Undecided(f"sequence {seq} holds no block within the lesson")
    config, size = scene.header.engine, scene.block_size
    window = config.get("attention_window")
    needed = -(-total // size)
    if isinstance(window, int):
        few, many = ("only_window", -(-window // size)), ("all_tokens", needed)
        wrong = [few, many, ("one_less", most - 1), ("one_more", most + 1)]
    else:
        wrong = [("one_less", most - 1)] if scene.reserves else [("one_less", most - 1), ("not_needed", most + 1)]
    return numbers("most_blocks", most, wrong, Evidence(record=record, figure="max blocks_held"), seq=seq)


@rule
def slots_wasted(scene: Scene) -> Question:
    """Ask for the number of reserved slots without content after the next action."""
    record = scene.log.record(len(scene.log) - 1)
    memory = record.memory
    size, right, held = memory.block_size, memory.slots_wasted, memory.blocks_held * memory.block_size
    running = [scene.final_state.sequences[seq] for seq in scene.final_state.running]
    wrong = [("none", 0)]
    if scene.now:
        wrong.append(("as_now", scene.log.record(scene.now - 1).memory.slots_wasted))
    if scene.reserves:
        unused = [held // len(running) - sequence.num_computed_tokens for sequence in running]
        wrong += [("one_alone", max(unused, default=0)), ("all_held", held)]
    else:
        wrong += [("a_block", size), ("most", len(running) * (size - 1))]
    if memory.blocks_held < memory.num_blocks:
        wrong.append(("all_free", memory.num_blocks * size - memory.tokens_held))
    evidence = Evidence(record=record.index, figure="blocks_held · block_size − tokens_held")
    steps = sum(1 for one in scene.unseen_records() if one.kind == "step")
    return numbers("slots_wasted", right, wrong, evidence, steps=steps, held=held, tokens=memory.tokens_held)


@rule
def left_at_end(scene: Scene) -> Question:
    """Ask for the number of cached blocks after all sequences have finished. Freed blocks remain cached."""
    after = scene.final_state
    if after.running or after.waiting:
        raise Undecided("a request still runs or waits after the next action")
    memory = scene.log.record(len(scene.log) - 1).memory
    wrong = [("forgotten", 0), ("still_held", memory.num_blocks)]
    if any(sequence.num_computed_tokens % memory.block_size for sequence in after.sequences.values()):
        wrong.append(("tail_too", memory.blocks_cached + 1))
    evidence = Evidence(record=len(scene.log) - 1, figure="blocks_cached")
    return numbers("left_at_end", memory.blocks_cached, wrong, evidence, held=memory.blocks_held)
