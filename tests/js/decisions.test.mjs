// Reasons of allocations and frees, from the log or inferred for older logs in the same way.

import assert from "node:assert/strict";
import { test } from "node:test";

import { operationsWithReasons } from "../../static/js/core/decisions.js";

test("logged reasons are not replaced by inferred ones", () => {
  const header = { engine: { strategy: "paged", block_size: 4 } };
  const reasons = (record) => operationsWithReasons(header, record).map((op) => op.reason);
  const ops = [{ type: "allocate", seq_id: 0, block_id: 0, logical: 1, reason: "append" }];
  const batch = [{ seq_id: 0, phase: "prefill", start: 4, token_ids: [1], context_len: 5 }];
  assert.deepEqual(reasons({ ops, batch }), ["append"]);
  assert.deepEqual(reasons({ ops: [{ ...ops[0], reason: null }], batch }), ["chunk"]);
  assert.deepEqual(reasons({ ops: [{ ...ops[0], reason: null }] }), [null]); // nothing tells it
  const free = { type: "free", seq_id: 0, block_id: 0, to: "front" };
  const preempt = { type: "preempt", seq_id: 0, mode: "recompute", reason: "deadlock" };
  assert.deepEqual(reasons({ ops: [{ ...free, reason: "discard" }, preempt] }), ["discard", "deadlock"]);
  assert.deepEqual(reasons({ ops: [free, preempt] }), ["preempt", "deadlock"]);
});
