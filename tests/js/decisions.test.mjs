// Reasons of allocations and frees, from the log or inferred for older logs in the same way.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { operationsWithReasons } from "../../static/js/core/decisions.js";
import { parseTrace } from "../../static/js/core/file.js";
import { TraceLog } from "../../static/js/core/log.js";

const FOLDER = new URL("../../static/recordings/", import.meta.url);

function logs() {
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith(".kvtrace"))
    .map((name) => {
      const trace = parseTrace(readFileSync(new URL(name, FOLDER)));
      const log = new TraceLog(trace.header);
      for (const bytes of trace.records) log.append(bytes);
      return log;
    });
}

test("every allocate and free of the shipped recordings says its reason, and a guess finds the same", () => {
  const seen = new Set();
  for (const log of logs())
    for (const record of log.records) {
      assert.equal(operationsWithReasons(log.header, record), record.ops);
      const ops = record.ops.map((op) => (op.type === "allocate" || op.type === "free" ? { ...op, reason: null } : op));
      assert.deepEqual(operationsWithReasons(log.header, { ...record, ops }), record.ops);
      for (const { type, reason } of record.ops)
        if (type === "allocate" || type === "free") seen.add(`${type} ${reason}`);
    }
  const said = [
    "allocate admission",
    "allocate append",
    "allocate chunk",
    "allocate copy",
    "allocate load",
    "allocate resume",
    "free finish",
    "free preempt",
  ];
  assert.deepEqual([...seen].sort(), said);
});

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
