// Where a recording is opened: at the record that tells most of what a KV cache does. Pure.

import { marksIn } from "./events.js";
import { phaseOf } from "./metrics.js";
import { attentionRow } from "./sequence_view.js";

/** @typedef {import("./log.js").TraceLog} Log */

const LOOKED_AT = 24; // decode steps whose attention rows are looked at
const KEYS = 8; // that a row must have to be called broad
const BROAD = 0.5; // its largest weight, at most

/**
 * The first record of the kinds that need no arrays: the first preemption, else the first load from outside the pool,
 * else the first hit in the prefix cache; null when the log has none.
 * @param {Log} log
 */
export function tellingEvent(log) {
  const marks = marksIn(log);
  return marks.get("preempt")?.[0] ?? marks.get("load")?.[0] ?? marks.get("hit")?.[0] ?? null;
}

/**
 * The first decode steps, among which the one with a broad row is looked for.
 * @param {Log} log
 */
export function firstDecodes(log) {
  const found = [];
  for (const record of log.records) {
    if (found.length === LOOKED_AT) break;
    if (record.kind === "step" && phaseOf(record) === "decode") found.push(record.index);
  }
  return found;
}

/**
 * The record at which a recording is opened: that of `tellingEvent`; else its first decode step whose query, in `layer`
 * and `head`, spreads its attention: over 8 keys or more, none with more than half of it; else its first decode step
 * (also where no arrays are here that would say how it spreads), else its last record. -1: the log is empty.
 * @param {Log} log @param {number} layer @param {number} head
 */
export function tellingRecord(log, layer, head) {
  const decodes = firstDecodes(log);
  const broad = decodes.find((index) => {
    const [{ seq_id, context_len }] = log.records[index].batch ?? [];
    const row = attentionRow(log, index, seq_id, layer, head, context_len - 1);
    return row !== null && row.weights.length >= KEYS && row.max <= BROAD;
  });
  return tellingEvent(log) ?? broad ?? decodes[0] ?? log.length - 1;
}
