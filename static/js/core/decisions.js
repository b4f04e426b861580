// Reasons of operations. Newer logs contain them; for older ones they are inferred from neighbouring operations. Pure.

import { draftsIn } from "./drafts.js";

/** @import {Allocate, Free, Header, Op, StepRecord} from "./trace.js" */

/** @type {WeakMap<StepRecord, Op[]>} */
const known = new WeakMap();

/**
 * Return the operations of `record`, adding the reasons of `allocate` and `free` that logs from before 2026-11-22 lack.
 * @param {Header} header
 * @param {StepRecord} record
 * @returns {Op[]}
 */
export function operationsWithReasons(header, record) {
  const ops = record.ops ?? [];
  if (!ops.some((op) => (op.type === "allocate" || op.type === "free") && !op.reason)) return ops;
  let found = known.get(record);
  if (!found) known.set(record, (found = ops.map((op, at) => withReason(header, record, op, at))));
  return found;
}

/** @param {Header} header @param {StepRecord} record @param {Op} op @param {number} at @returns {Op} */
function withReason(header, record, op, at) {
  if (op.type === "allocate" && !op.reason) return { ...op, reason: reasonToAllocate(header, record, op, at) };
  if (op.type === "free" && !op.reason) return { ...op, reason: reasonToFree(record, op, at) };
  return op;
}

/**
 * Infer the reason of an `allocate` from the other operations and the batch of its record; null if unknown.
 * @param {Header} header
 * @param {StepRecord} record
 * @param {Allocate} op
 * @param {number} at
 * @returns {Allocate["reason"]}
 */
function reasonToAllocate(header, { ops = [], batch = [] }, { seq_id: seq, block_id: block, logical }, at) {
  const next = ops[at + 1];
  if (next?.type === "copy" && next.dst === block) return "copy";
  if (ops.some((op) => op.type === "swap_in" && op.seq_id === seq && op.block_id === block)) return "swap_in";
  if (ops.some((op) => op.type === "load" && op.seq_id === seq && op.block_id === block)) return "load";
  const entry = batch.find((e) => e.seq_id === seq);
  if (!entry) return null;
  const drafts = draftsIn({ ops, batch }, seq);
  if (drafts && logical * Number(header.engine.block_size) >= drafts.start) return "draft";
  for (const op of ops) if (op.type === "admit" && op.seq_id === seq) return op.resumed ? "resume" : "admission";
  if (header.engine.strategy === "none") return "recompute";
  return entry.phase === "decode" ? "append" : "chunk";
}

/**
 * Infer the reason of a `free` from the sequence's following operations; null if unknown.
 * @param {StepRecord} record
 * @param {Free} free
 * @param {number} at
 * @returns {Free["reason"]}
 */
function reasonToFree({ ops = [] }, free, at) {
  for (const op of ops.slice(at + 1)) {
    if (!("seq_id" in op) || op.seq_id !== free.seq_id) continue;
    if (op.type === "preempt") return op.mode === "swap" ? "swap" : "preempt";
    if (op.type === "finish" || op.type === "discard" || op.type === "take_back") return op.type;
  }
  return null;
}

/**
 * Return the eviction that made room for the `allocate` of `block` at index `at` of `ops`, or null if the block was
 * empty.
 * @param {Op[]} ops
 * @param {number} at
 * @param {number} block
 */
export function evictionBefore(ops, at, block) {
  for (let i = at - 1; i >= 0; i--) {
    const op = ops[i];
    if (op.type === "evict" && op.block_id === block) return op;
    if (op.type === "allocate" && op.block_id === block) return null;
  }
  return null;
}
