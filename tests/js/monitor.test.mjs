// A monitored server in figures: sums over its records at any of them, and no figure for unreported values.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { contentsOf } from "../../static/js/core/cached_contents.js";
import { parseTrace } from "../../static/js/core/file.js";
import { geometry } from "../../static/js/core/geometry.js";
import { TraceLog } from "../../static/js/core/log.js";
import { countUpTo, hitsSince, lastUpTo, ranksOf } from "../../static/js/core/observed_ranks.js";

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
