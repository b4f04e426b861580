// A monitored server in figures: sums over its records at any of them, and no figure for unreported values.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { branchesIn } from "../../static/js/core/branch_rows.js";
import { contentsOf } from "../../static/js/core/cached_contents.js";
import { parseTrace } from "../../static/js/core/file.js";
import { geometry } from "../../static/js/core/geometry.js";
import { TraceLog } from "../../static/js/core/log.js";
import { countUpTo, familiesAt, hitsSince, lastUpTo, ranksOf } from "../../static/js/core/observed_ranks.js";
import { prefixTree } from "../../static/js/core/prefix_tree.js";

const trace = parseTrace(readFileSync(new URL("../golden/observed.kvtrace", import.meta.url)));
const log = new TraceLog(trace.header);
for (const record of trace.records) log.append(record);
const [first, second] = ranksOf(log);

test("each rank has its messages, epochs and gaps", () => {
  assert.deepEqual(
    second.since.map(({ reason, sequence, epoch, missed }) => [reason, sequence, epoch, missed]),
    [
      ["attached", 7, 0, 0],
      ["gap", 13, 0, 2],
      ["cleared", 14, 0, 0],
      ["gap", 16, 0, 1], // of a message that could not be read
      ["restarted", 0, 1, 0],
    ],
  );
  assert.deepEqual(
    second.messages.map(({ sequence }) => sequence),
    [7, 8, 9, 10, 13, 14, 15, 0, 1, 2],
  );
  assert.equal(first.messages.length, 12);
  const last = log.length - 1;
  assert.deepEqual({ ...lastUpTo(second.sums, last), index: 0 }, { index: 0, replayed: 2, unmatched: 1, unread: 1 });
  assert.equal(lastUpTo(first.since, -1), undefined);
  assert.equal(countUpTo(first.messages, 4), 4);
  assert.match(first.problems[0].problem, /Connection refused/);
  assert.match(second.problems[0].problem, /neither a map nor an array/);
});

test("limits apply per rank and in total", () => {
  const { header } = log;
  const of = (count, ranks) => ({
    ...header,
    engine: { ...header.engine, num_blocks: count * ranks },
    instances: Array.from({ length: ranks }, (_, i) => ({ name: `${i}`, role: "mixed" })),
    block_groups: Array.from({ length: ranks }, (_, i) => ({
      ...header.block_groups[0],
      ...{ instance: i, first_block: i * count, num_blocks: count },
    })),
  });
  assert.equal(geometry(of(190_000, 4)).groups.length, 4);
  assert.throws(() => geometry(of(190_000, 5)), /num_blocks must be/);
  assert.throws(() => geometry(of(300_000, 1)), /do not follow each other/);
});

test("an unreported number is unknown, not 0", () => {
  const at = log.length - 1;
  assert.equal(lastUpTo(first.readings.get("vllm:num_requests_running"), at).value, 3);
  assert.equal(first.readings.get("vllm:num_preemptions_total"), undefined);
  assert.equal(hitsSince(first, at), null);
});

test("hits are counted since monitoring began", () => {
  const readings = new Map([
    ["vllm:prefix_cache_hits_total", [100, 130].map((value, index) => ({ index, at: index, value }))],
    ["vllm:prefix_cache_queries_total", [1000, 1120].map((value, index) => ({ index, at: index, value }))],
  ]);
  assert.deepEqual(hitsSince({ ...first, readings }, 1), { hits: 30, asked: 120 });
  assert.deepEqual(hitsSince({ ...first, readings }, 0), { hits: 0, asked: 0 });
});

test("branches have every content below what comes before it", () => {
  const state = log.stateAt(log.length - 1);
  const { branches, blocks, num_more } = branchesIn(prefixTree(log, state, 0), 1000);
  const cached = state.blocks.slice(0, 512).filter((block) => block.block_hash !== null).length;
  assert.equal(blocks, cached);
  assert.equal(num_more, 0);
  for (const [i, one] of branches.entries()) {
    const below = branches.filter(({ parent }) => parent === i);
    const own = one.standing === "gone" ? 0 : one.blocks;
    assert.equal(
      below.reduce((sum, { all_blocks: all }) => sum + all, own),
      one.all_blocks,
    );
    assert.ok(one.parent < i && below.every(({ level }) => level === one.level + 1));
    assert.ok(one.used_in >= Math.max(-1, ...below.map(({ used_in: used }) => used)));
  }
  const some = branchesIn(prefixTree(log, state, 0), 3);
  assert.equal(some.branches.length, 3);
  const sizes = branches.map(({ all_tokens: tokens }) => tokens).sort((a, b) => b - a);
  assert.deepEqual(
    some.branches.map(({ all_tokens: tokens }) => tokens).sort((a, b) => b - a),
    sizes.slice(0, 3),
  );
  assert.equal(some.num_more, branches.filter(({ parent }) => parent < 0).length - 3);
});

test("what is cached where is counted by medium, store, group and adapter, until both copies are gone", () => {
  const last = log.length - 1;
  const said = (index) =>
    familiesAt(second, index).map(({ medium, tier, group, lora, count }) => [medium, tier, group, lora, count]);
  assert.deepEqual(said(last - 2), [
    ["GPU", "", 0, null, 2],
    ["GPU", "", 1, null, 2],
    ["GPU", "", 0, "poet", 1],
    ["STORAGE", "fs REMOTE", 0, null, 1],
  ]);
  assert.equal(log.records[last - 1].ops[0].num_left, 1);
  assert.deepEqual(said(last - 1), [...said(last - 2), ["GPU", "", 0, null, 1]]); // one came: of no kind that it said
});

test("contents without a reported parent are no roots, and later reports are merged", () => {
  const last = log.length - 1;
  const hex = (text) => Buffer.from(text).toString("hex");
  const tree = prefixTree(log, log.stateAt(last), 1);
  const roots = branchesIn(tree, 10).branches.filter(({ parent }) => parent < 0);
  assert.deepEqual(
    roots.filter(({ begins }) => begins).map(({ id, all_blocks: all }) => [id, all]),
    [[hex("a"), 3]], // a, b, e
  );
  const unknown = roots.filter(({ begins }) => !begins).map(({ id }) => id);
  assert.deepEqual(unknown.sort(), [hex("g"), hex("i"), hex("m")]); // of an event that skips one; whose parent never came
  const moved = contentsOf(log).byHash.get(hex("m"));
  assert.deepEqual([moved.parent, moved.unsaid, moved.tokens.length], [hex("l"), false, 32]); // it was a placeholder
});

test("cyclic parents are tolerated", () => {
  const stored = (hash, parent) => ({
    ...{ type: "stored", place: 0, medium: "GPU", token_ids: [1] },
    ...{ block_hash: Uint8Array.of(hash), parent_hash: Uint8Array.of(parent) },
  });
  const records = [[stored(1, 3)], [stored(2, 1)], [stored(3, 2)], [stored(4, 4)]].map((ops, index) => ({
    index,
    ops,
  }));
  const contents = contentsOf({ records });
  for (const start of contents.byHash.keys()) {
    let steps = 0;
    for (let at = start; at; at = contents.byHash.get(at)?.parent ?? null) assert.ok((steps += 1) < 10);
  }
});
