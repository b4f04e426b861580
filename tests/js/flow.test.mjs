// Path of a sequence through the engine, also for records that are no step and strategies without slots.

import assert from "node:assert/strict";
import { test } from "node:test";

import { flowOf } from "../../static/js/core/flow.js";
import { blockGroups } from "../../static/js/core/groups.js";

const BYTES = [new Uint8Array([65]), new Uint8Array([66])];
const submit = (id, request) => ({
  type: "submit",
  seq_id: id,
  request_id: request,
  queue_position: id,
  prompt_token_ids: [7, 8],
  prompt_token_bytes: BYTES,
  max_tokens: 4,
});
const memory = { num_blocks: 4, blocks_held: 1 };

/** A submission, a step, another's submission, an abort; `engine` as the header has it. */
function logOf(engine) {
  const entry = { seq_id: 0, phase: "prefill", start: 0, token_ids: [7, 8], context_len: 2 };
  const records = [
    { kind: "submit", step: 0, ops: [submit(0, "a")], timing: { at: 0, tokenize: 0.5 }, memory },
    {
      kind: "step",
      step: 1,
      ops: [],
      batch: [entry],
      timing: { at: 1, draft: 0.4, sample: 0.3, detokenize: 0.1 },
      memory,
    },
    { kind: "submit", step: 1, ops: [submit(1, "b")], timing: { at: 2, tokenize: 0.2 }, memory },
    { kind: "abort", step: 1, ops: [], timing: { at: 3 }, memory },
  ];
  records.forEach((record, index) => Object.assign(record, { index }));
  const seq = { request_id: "a", token_ids: [7, 8], token_bytes: BYTES, num_prompt_tokens: 2, instance: 0 };
  const groups = blockGroups({ engine: { ...engine, num_blocks: 4 }, kv_bytes_per_token: 8 });
  const blocks = [0, 0, 0, 1].map((ref_count, block_id) => ({ block_id, ref_count, block_hash: null, token_ids: [] }));
  const state = { sequences: new Map([[0, seq]]), waiting: [], running: [0], block_groups: groups, blocks };
  return { header: { engine }, records, groups, stateAt: () => state, tablesAtCompute: () => [[3]] };
}
const PAGED = { strategy: "paged", block_size: 4, max_num_batched_tokens: 8 };

test("the tokenizer works in the record of the submission only", () => {
  const log = logOf(PAGED);
  assert.deepEqual(
    log.records.map((_, i) => [flowOf(log, i, 0).isSubmission, flowOf(log, i, 0).isStep]),
    [
      [true, false],
      [false, true],
      [false, false],
      [false, false],
    ],
  );
  assert.equal(flowOf(log, 1, 0).tokenize, 0.5);
  assert.equal(flowOf(log, 1, 0).free, 3); // of four
  assert.deepEqual(
    [0, 1].map((i) => flowOf(log, i, 0).seconds.draft),
    [0, 0.4],
  );
  assert.equal(Number(flowOf(log, 1, 0).seconds.sample.toFixed(3)), 0.2);
});

test("only what lies in the pool has slots, and without a cache a step has no budget", () => {
  assert.deepEqual(flowOf(logOf(PAGED), 1, 0).slots, { first: 12, last: 13 });
  for (const strategy of ["concat", "dynamic", "static", "none"])
    assert.equal(flowOf(logOf({ ...PAGED, strategy }), 1, 0).slots, null, strategy);
  assert.equal(flowOf(logOf({ ...PAGED, enable_chunked_prefill: false }), 1, 0).budget, 8);
  assert.equal(flowOf(logOf({ ...PAGED, strategy: "none" }), 1, 0).budget, null);
});
