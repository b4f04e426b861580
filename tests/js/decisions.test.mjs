// Why a block was allocated or freed: the log says it, and what older logs leave to be guessed is guessed as it is said.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { allocationReason, freeReason } from "../../static/js/core/decisions.js";
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
      const older = {
        ...record,
        ops: record.ops.map((op) => ({
          ...op,
          reason: op.type === "allocate" || op.type === "free" ? null : op.reason,
        })),
      };
      for (const [at, { type, reason }] of record.ops.entries()) {
        if (type !== "allocate" && type !== "free") continue;
        seen.add(`${type} ${reason}`);
        if (type === "free") assert.deepEqual([freeReason(record, at), freeReason(older, at)], [reason, reason]);
        else {
          assert.equal(allocationReason(log.header, record, at).why, reason);
          assert.deepEqual(allocationReason(log.header, older, at), allocationReason(log.header, record, at));
        }
      }
    }
  const said = [
    "allocate admission",
    "allocate append",
    "allocate copy",
    "allocate resume",
    "free finish",
    "free preempt",
  ];
  assert.deepEqual([...seen].sort(), said);
});

test("what the log says is not overruled by what stands beside it", () => {
  const header = { engine: { strategy: "paged", block_size: 4 } };
  const ops = [{ type: "allocate", seq_id: 0, block_id: 0, logical: 1, reason: "append" }];
  const batch = [{ seq_id: 0, phase: "prefill", start: 4, token_ids: [1], context_len: 5 }];
  assert.deepEqual(allocationReason(header, { ops, batch }, 0), { why: "append", position: 4 });
  assert.equal(allocationReason(header, { ops: [{ ...ops[0], reason: null }], batch }, 0).why, "chunk");
  const free = { type: "free", seq_id: 0, block_id: 0, to: "front" };
  const preempt = { type: "preempt", seq_id: 0, mode: "recompute" };
  assert.equal(freeReason({ ops: [{ ...free, reason: "discard" }, preempt] }, 0), "discard");
  assert.equal(freeReason({ ops: [free, preempt] }, 0), "preempt");
});
