"""Questions about costs: bytes and operations."""

from __future__ import annotations

from app.lessons.questions.pictured import AtBytes, nowhere
from app.lessons.questions.rules import Evidence, Question, choice, numbers, rule
from app.lessons.scene import Scene, Undecided
from engine.accounting.memory import bytes_per_element


@rule
def ridge(scene: Scene) -> Question:
    """Ask on which side of the ridge the next step is.

    Williams et al., "Roofline", 2009: intensity = FLOPs / bytes moved; the ridge is peak FLOP/s over peak bytes/s.
    """
    record = scene.next_step()
    roofs = scene.header.machine.roofs
    if roofs is None:
        raise Undecided("the peak rates of this machine were not measured when the run began")
    if record.work is None:
        raise Undecided(f"record {record.index} has no counts of operations and bytes")
    work = record.work
    moved = work.weight_bytes + work.kv_read_bytes + work.kv_write_bytes
    right = "compute" if work.flops / moved > roofs.flops_per_second / roofs.bytes_per_second else "bandwidth"
    evidence = Evidence(record=record.index, figure="flops / bytes against the ridge")
    return choice(
        "ridge",
        right,
        ["compute", "bandwidth"],
        evidence,
        why=["compute", "bandwidth"],
        tokens=work.num_tokens,
        intensity=round(work.flops / moved, 2),
        ridge=round(roofs.flops_per_second / roofs.bytes_per_second, 1),
    )


@rule
def bytes_per_token(scene: Scene) -> Question:
    """Ask for the bytes of K and V per token: 2 · layers · KV heads · D · bytes per number."""
    model = scene.header.model
    right = scene.header.kv_bytes_per_token
    size = bytes_per_element(model.dtype)
    if right != 2 * model.num_layers * model.num_kv_heads * model.head_dim * size:
        raise Undecided(f"the numbers in the cache do not have {size} bytes")
    wrong = [
        ("hidden_size", 2 * model.num_layers * model.num_heads * model.head_dim * size),
        ("one_layer", right / model.num_layers),
        ("only_keys", right / 2),
        ("two_bytes", right // size * 2),
    ]
    evidence = Evidence(record=0, figure="2 · layers · KV heads · D · bytes")
    return numbers("bytes_per_token", right, wrong, evidence, text="bytes", place=nowhere, **_shape(scene))


@rule
def bytes_beside(scene: Scene) -> Question:
    """Ask for the bytes held after the next action, when as many blocks are held as in the run of another model."""
    if scene.earlier is None:
        raise Undecided("there is no previous run")
    index = len(scene.log) - 1
    record = scene.log.record(index)
    memory, earlier = record.memory, scene.earlier.record(min(index, len(scene.earlier) - 1)).memory
    if not memory.blocks_held or memory.blocks_held != earlier.blocks_held:
        raise Undecided(f"it holds {memory.blocks_held} blocks, but the previous run held {earlier.blocks_held}")
    now, before = scene.header.model, scene.earlier.header.model
    held = earlier.bytes_held
    wrong = [
        ("same", held),
        ("one_head", held // before.num_kv_heads),
        ("half", held // 2),
        ("quarter", held // 4),
        ("only_keys", memory.bytes_held // 2),
    ]
    evidence = Evidence(record=index, figure="blocks_held · block_size · kv_bytes_per_token")
    return numbers(
        "bytes_beside",
        memory.bytes_held,
        wrong,
        evidence,
        text="bytes",
        place=lambda n: AtBytes(bytes=int(n)),
        heads=now.num_heads,
        kv_heads=now.num_kv_heads,
        earlier_kv_heads=before.num_kv_heads,
        earlier_bytes=held,
    )


@rule
def query_cache(scene: Scene) -> Question:
    """Ask for the bytes per token of a cache of queries, which would have one entry for each query head."""
    model = scene.header.model
    size = bytes_per_element(model.dtype)
    right = model.num_layers * model.num_heads * model.head_dim * size
    kv = scene.header.kv_bytes_per_token
    wrong = [("as_kv", kv), ("half_of_kv", kv / 2), ("one_layer", right / model.num_layers), ("all_three", right + kv)]
    evidence = Evidence(record=0, figure="layers · query heads · D · bytes")
    return numbers("query_cache", right, wrong, evidence, text="bytes", place=nowhere, **_shape(scene))


def _shape(scene: Scene) -> dict[str, int]:
    """Return the model's dimensions, as placeholders of the texts about bytes."""
    model = scene.header.model
    return {
        "layers": model.num_layers,
        "heads": model.num_heads,
        "kv_heads": model.num_kv_heads,
        "head_dim": model.head_dim,
        "number": int(bytes_per_element(model.dtype)),
    }
