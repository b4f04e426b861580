// A watched server in figures: what its records add up to at any of them, and nothing where it said nothing.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { parseTrace } from "../../static/js/core/file.js";
import { TraceLog } from "../../static/js/core/log.js";
import { prefixTree } from "../../static/js/core/prefix_tree.js";
import { countUpTo, hitRate, largestBeginnings, lastUpTo, ranksOf } from "../../static/js/panels/attached/model.js";

const trace = parseTrace(readFileSync(new URL("../golden/observed.kvtrace", import.meta.url)));
const log = new TraceLog(trace.header);
for (const record of trace.records) log.append(record);
const [first, second] = ranksOf(log);

test("each rank has its messages, its lives and what did not come", () => {
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
    [7, 8, 9, 10, 13, 14, 15, 0],
  );
  assert.equal(first.messages.length, 12);
  const last = log.length - 1;
  assert.deepEqual({ ...lastUpTo(second.sums, last), index: 0 }, { index: 0, replayed: 2, unmatched: 1, unread: 1 });
  assert.equal(lastUpTo(first.since, -1), undefined);
  assert.equal(countUpTo(first.messages, 4), 4);
  assert.match(first.problems[0].problem, /Connection refused/);
  assert.match(second.problems[0].problem, /neither a map nor an array/);
});

test("a number that the server has not said is unknown, not 0", () => {
  const at = log.length - 1;
  assert.equal(lastUpTo(first.readings.get("vllm:num_requests_running"), at).value, 3);
  assert.equal(first.readings.get("vllm:num_preemptions_total"), undefined);
  assert.equal(hitRate(first, at), null);
});

test("hits are those since the watch began", () => {
  const readings = new Map([
    ["vllm:prefix_cache_hits_total", [100, 130].map((value, index) => ({ index, at: index, value }))],
    ["vllm:prefix_cache_queries_total", [1000, 1120].map((value, index) => ({ index, at: index, value }))],
  ]);
  assert.equal(hitRate({ ...first, readings }, 1), 0.25); // 30 of 120
  assert.equal(hitRate({ ...first, readings }, 0), null);
});

test("the largest beginnings count every content below them", () => {
  const state = log.stateAt(log.length - 1);
  const tree = prefixTree(log, state, 0);
  const all = largestBeginnings(tree, 1000);
  const cached = state.blocks.slice(0, 512).filter((block) => block.block_hash !== null).length;
  assert.equal(
    all.reduce((sum, { count }) => sum + count, 0),
    cached,
  );
  assert.deepEqual(
    all.map(({ count }) => count),
    all.map(({ count }) => count).sort((a, b) => b - a),
  );
  assert.equal(largestBeginnings(tree, 3).length, 3);
});
