// Index of a run's events: records by kind, so that timeline and jumps stay fast for long logs. Pure.

import { folding } from "./folds.js";
import { kindOf } from "./operation_kinds.js";
import { lowest } from "./search.js";

/** @import {StepRecord} from "./trace.js" */

/** @typedef {{length: number, records: StepRecord[]}} Log */

/** Kinds of events, in the order of the menu. For the kind `token` of a sequence see `tokensOf`. */
export const KINDS = ["submit", "prefill", "hit", "fork", "copy", "preempt", "swap", "load", "evict", "finish"];

/** Return the kinds of events in one record, as a set. @param {StepRecord} record @returns {Set<string>} */
function marksOf(record) {
  const marks = new Set();
  for (const op of record.ops ?? []) {
    const { event } = kindOf(op.type);
    if (event) marks.add(event);
  }
  if ((record.batch ?? []).some((entry) => entry.phase === "prefill")) marks.add("prefill");
  return marks;
}

/**
 * Return the records of each kind, ascending: a Map of kind -> [record index, …]. It grows with the log; do not modify
 * it.
 * @param {Log} log
 */
export function marksIn(log) {
  return indexOf(log).kinds;
}

/**
 * Return the records in which a token of sequence `seqId` was chosen, ascending.
 * @param {Log} log
 * @param {number | null} seqId
 */
export function tokensOf(log, seqId) {
  return seqId === null ? [] : (indexOf(log).tokens.get(seqId) ?? []);
}

/**
 * Return the first record whose `step` is `step`, or null if the log has none.
 * @param {Log | null} log null: no log
 * @param {number} step
 */
export function recordOfStep(log, step) {
  if (!log) return null;
  const at = lowest(log.length, (i) => log.records[i].step >= step);
  return at < log.length && log.records[at].step === step ? at : null;
}

/**
 * Return the nearest record after (`direction` +1) or before (−1) `index` in ascending `records`, or null.
 * @param {number[]} records
 * @param {number} index
 * @param {number} direction
 * @returns {number | null}
 */
export function nearest(records, index, direction) {
  if (direction > 0) return records[lowest(records.length, (i) => records[i] > index)] ?? null;
  return records[lowest(records.length, (i) => records[i] >= index) - 1] ?? null;
}

/**
 * Return the nearest record with an event of any kind.
 * @param {Log} log
 * @param {number} index
 * @param {number} direction
 */
export function nearestOfAny(log, index, direction) {
  const found = KINDS.flatMap((kind) => nearest(marksIn(log).get(kind) ?? [], index, direction) ?? []);
  if (!found.length) return null;
  return direction > 0 ? Math.min(...found) : Math.max(...found);
}

/**
 * Cluster `records` on a line: runs of positions less than `gap` apart merge into one `[first, last]`. `place(i)` is
 * the position of record i and must not decrease.
 * @param {number[]} records
 * @param {(record: number) => number} place
 * @param {number} gap
 * @returns {[first: number, last: number][]}
 */
export function clusters(records, place, gap) {
  /** @type {[number, number][]} */
  const found = [];
  /** @type {[number, number] | null} */
  let last = null;
  for (const record of records) {
    const at = place(record);
    if (last && at - last[1] < gap) last[1] = at;
    else found.push((last = [at, at]));
  }
  return found;
}

const indexOf = folding(
  /** @type {(log: Log) => {kinds: Map<string, number[]>, tokens: Map<number, number[]>}} */ (
    () => ({ kinds: new Map(KINDS.map((kind) => [kind, []])), tokens: new Map() })
  ),
  (index, record, at) => {
    for (const kind of marksOf(record)) index.kinds.get(kind)?.push(at);
    for (const seqId of new Set((record.outputs ?? []).map((output) => output.seq_id))) {
      const tokens = index.tokens.get(seqId);
      if (tokens) tokens.push(at);
      else index.tokens.set(seqId, [at]);
    }
  },
);
