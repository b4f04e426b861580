import assert from "node:assert/strict";
import { test } from "node:test";

import { decode } from "../../static/js/trace/codec.js";
import { TraceLog } from "../../static/js/trace/log.js";
import { kvTerms, latencies, slotOf, stepSeconds } from "../../static/js/trace/metrics.js";
import { sentencesOf } from "../../static/js/trace/sentence.js";
import { stageAt, vectorOf } from "../../static/js/trace/stage.js";
import { memoryFigures, TraceStateError } from "../../static/js/trace/state.js";
import { header, records } from "./log_builder.mjs";

function wholeLog() {
  const log = new TraceLog(header());
  for (const [record, capture] of records()) log.append(record, capture);
  return log;
}

test("the state after each record follows the operations", () => {
  const log = wholeLog();
  assert.deepEqual(log.stateAt(-1).free_queue, [0, 1, 2, 3]);
  assert.deepEqual(log.stateAt(0).waiting, [0]);
  const prefilled = log.stateAt(1);
  assert.deepEqual(prefilled.sequences.get(0).block_table, [0, 1, 2]);
  assert.deepEqual(prefilled.blocks[2].token_ids, [5]);
  assert.equal(prefilled.sequences.get(0).num_computed_tokens, 5);
  const finished = log.stateAt(2);
  assert.deepEqual(finished.free_queue, [1, 2, 3, 0]); // the hashed block goes to the back
  assert.deepEqual(finished.blocks[0].token_ids, [1, 2]); // cached: its content stays
  assert.deepEqual(finished.blocks[1].token_ids, []);
});

test("going back gives the same state as going forward", () => {
  const log = wholeLog();
  const forward = [-1, 0, 1, 2].map((i) => JSON.stringify(log.stateAt(i)));
  for (const i of [2, 0, 1, -1]) assert.equal(JSON.stringify(log.stateAt(i)), forward[i + 1]);
});

test("a gap in the log is an error, and nothing is appended", () => {
  const log = new TraceLog(header());
  assert.throws(() => log.append(records()[1][0]), TraceStateError);
  assert.equal(log.length, 0);
});

test("3 blocks of 2 slots hold 5 tokens: 1 slot of 16 bytes is wasted", () => {
  const log = wholeLog();
  const m = memoryFigures(log.stateAt(1), log.header.kv_bytes_per_token);
  assert.equal(m.blocks_held, 3);
  assert.equal(m.bytes_held - m.bytes_used, 16);
  assert.deepEqual(kvTerms(log.header).element_bytes, 4);
});

test("TTFT is the prefill step's 0.24 s, TPOT the decode step's 0.08 s; the pauses between them do not count", () => {
  const log = wholeLog();
  const near = (value, expected) => assert.ok(Math.abs(value - expected) < 1e-12, `${value}`);
  near(latencies(log, 0, 1).ttft, 0.24);
  assert.equal(latencies(log, 0, 1).tpot, null);
  near(latencies(log, 0, 2).tpot, 0.08);
  near(stepSeconds(log.records[1]), 0.24);
});

test("slot = block_id * block_size + position mod block_size", () => {
  assert.deepEqual(slotOf([7, 3], 4, 6), { block: 3, logical: 1, offset: 2, slot: 14 });
  assert.equal(slotOf([7], 4, 6), null);
});

test("vectors come from the record that wrote them; a query only from the record shown", () => {
  const log = wholeLog();
  const stage = stageAt(log, 2, 0, 0, 1);
  assert.deepEqual([...vectorOf(stage, "k", 4)], [4, -4]);
  assert.deepEqual([...vectorOf(stage, "k", 5)], [5, -5]);
  assert.deepEqual([...vectorOf(stage, "q", 5)], [5, 1]);
  assert.equal(vectorOf(stage, "q", 4), null);
  assert.equal(vectorOf(stage, "k", 6), null); // the sampled token: written a step later
});

test("the attention row of the query in flight covers every key it saw", () => {
  const { attention, query } = stageAt(wholeLog(), 2, 0, 0, 0);
  assert.equal(query, 5);
  assert.equal(attention.weights.length, 6);
  assert.ok(Math.abs(attention.weights.reduce((a, b) => a + b) - 1) < 1e-6);
});

test("the sentence of a decode step says which slot was written and that the new token's is not", () => {
  const sentences = sentencesOf(wholeLog(), 2, 0);
  const [key, values] = sentences[0];
  assert.equal(key, "sentence.decode");
  assert.deepEqual({ keys: values.keys, blocks: values.blocks, block: values.block, slot: values.slot }, { keys: 6, blocks: 3, block: 2, slot: 1 });
  assert.equal(sentences[1][0], "sentence.sampled_last");
  assert.equal(sentences[2][0], "sentence.finish.length");
});

test("damaged bytes are a format error", () => {
  assert.throws(() => decode(Uint8Array.from([0xc1])), /not valid msgpack/);
});
