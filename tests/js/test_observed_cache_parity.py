"""A monitored server's reports and prefix tree are the same from the page's log and from an indexed one."""

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.observe.monitor.observed_log import ObservedLog, header_of
from engine.observe.monitor.sequence import Break, Message
from engine.trace.geometry import geometry
from engine.trace.log import TraceReader
from engine.trace.log_index.log_index import LogIndex
from engine.trace.log_index.make import make
from engine.trace.log_index.prefixes import prefixes
from tests.js.node_run import node_output
from tests.unit.monitor.publisher import message, removed, stored

ROOT = Path(__file__).parents[2]
SIZE, TOKENS = 2, 3  # few tokens, so that prompts share beginnings
SALTS = (None, None, [["tenant"]], [["other"]])


def chance_log(path: Path, seed: int) -> None:
    """Write a random log of two ranks that store, rename, remove, lose messages, restart, and report numbers."""
    draw, clock = random.Random(seed), iter(range(1 << 20))
    header = header_of(model="m", source="vLLM", block_size=SIZE, num_blocks=40, events=["tcp://a:1", "tcp://a:2"])
    observed = ObservedLog(header, path, clock=lambda: next(clock) / 8)
    numbers = [0, 0]
    for rank in (0, 1):
        observed.receive(rank, Break("attached", 0))
    for _ in range(60):
        rank = draw.randrange(2)
        if draw.random() < 0.05:
            reason, lost = draw.choice([("gap", 2), ("restarted", 0)])
            numbers[rank] = 0 if reason == "restarted" else numbers[rank] + lost
            observed.receive(rank, Break(reason, numbers[rank], lost))  # type: ignore[arg-type]
            continue
        if draw.random() < 0.2:
            hits = {"vllm:prefix_cache_hits_total": draw.choice([0.0, 3.0])}
            observed.numbers({rank: {**hits, "vllm:prefix_cache_queries_total": float(draw.randrange(90))}})
            continue
        if draw.random() < 0.1:
            observed.problem(rank, "metrics", f"no answer {draw.randrange(3)}")
        events = []
        for _ in range(draw.randrange(1, 4)):
            salt, tokens = draw.choice(SALTS), [draw.randrange(TOKENS) for _ in range(2 * SIZE)]
            hashes = [f"{salt}{tokens[: SIZE * n]}".encode() for n in (1, 2)]
            more: dict[str, Any] = {"group_idx": draw.randrange(2), "medium": draw.choice(["GPU", "GPU", "CPU"])}
            if draw.random() < 0.3:
                events.append(removed([draw.choice(hashes)], **more))
            elif draw.random() < 0.2:  # moved, and nothing more is said of it
                events.append(stored([hashes[1]], [], 0, **more))
            else:
                events.append(stored(hashes, tokens, SIZE, extra_keys=salt and [salt[0]] * 2, **more))
        events_message = message(*events, *([{"type": "AllBlocksCleared"}] if draw.random() < 0.03 else []))
        observed.receive(rank, Message(numbers[rank], events_message, draw.random() < 0.1))
        numbers[rank] += 1
    observed.log.close()


def in_order(report: dict[str, Any]) -> dict[str, Any]:
    """Sort families of equal size, whose order is undefined."""
    families = sorted(report["families"], key=lambda one: (-one["count"], json.dumps(one, sort_keys=True)))
    lacking = sorted(report["again"]["lacking"], key=lambda one: one["group"])
    return {**report, "families": families, "again": {**report["again"], "lacking": lacking}}


def by_size(tree: dict[str, Any]) -> list[Any]:
    """Return a prefix tree without the order of equal branches and without names. Only the log index counts events in a
    tier as uses.
    """
    own = {"id", "parent", "num_more", "used_in"}
    branches = [{key: value for key, value in one.items() if key not in own} for one in tree["branches"]]
    return [tree["blocks"], tree["tokens"], sorted(branches, key=lambda one: json.dumps(one, sort_keys=True))]


@pytest.mark.parametrize("seed", [None, *range(4)])
def test_both_readers_explain_every_record_equally(seed: int | None, tmp_path: Path) -> None:
    path = ROOT / "tests/golden/observed.kvtrace" if seed is None else tmp_path / "chance.kvtrace"
    if seed is not None:
        chance_log(path, seed)
    draw = random.Random(seed)
    prompts = [list(range(100)), *([draw.randrange(TOKENS) for _ in range(2 * SIZE + 1)] for _ in range(12))]
    output = node_output("observed_cache_dump.mjs", path, json.dumps(prompts))
    with TraceReader(path) as log:
        make(log, tmp_path / "a.survey")
        log_index = LogIndex(tmp_path / "a.survey", log)
        observed_cache, groups = log_index.observed_cache, geometry(log.header)[1]
        ranks, restored, links = range(observed_cache.num_ranks), 0, 0
        for index, page in enumerate(json.loads(output), -1):
            for rank in ranks:
                report = msgspec.to_builtins(observed_cache.report(log, rank, index))
                assert in_order(json.loads(json.dumps(report))) == in_order(page["said"][rank]), (index, rank)
                key = json.dumps
                roots = [msgspec.to_builtins(one) for one in observed_cache.roots(log, rank, index)]
                assert sorted(roots, key=key) == sorted(page["roots"][rank], key=key), (index, rank)
                restored += report["restored"]
                for prompt, chains in zip(prompts, page["chains"], strict=True):
                    found = msgspec.to_builtins(observed_cache.chains(rank, prompt, index))
                    by_salt = [sorted(one["chains"], key=key) for one in (found, chains[rank])]
                    assert by_salt[0] == by_salt[1] and found["groups"] == chains[rank]["groups"], (index, rank)
                    links += sum(len(one["links"]) for one in found["chains"])
            for rank, tree in enumerate(page["trees"]):
                first = groups[rank].first_block
                found = prefixes(log_index, index, 1 << 20, first, first + groups[rank].num_blocks)
                assert by_size(msgspec.to_builtins(found)) == by_size(tree), (index, rank)
        assert restored and links > 50
