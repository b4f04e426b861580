// Record at which a recording is first shown: the most informative one about the KV cache. Pure.

import { marksIn } from "./events.js";
import { phaseOf } from "./metrics.js";
import { attentionRow } from "./sequence_view.js";

/** @typedef {import("./log.js").TraceLog} Log */

const LOOKED_AT = 24; // decode steps whose attention rows are examined
const KEYS = 8; // minimum number of keys of a broad row
const BROAD = 0.5; // maximum of its largest weight

/**
 * Return the first informative record that needs no arrays: the first preemption, else the first load from outside the
 * pool, else the first prefix cache hit; null if there is none.
 * @param {Log} log
 */
export function initialEvent(log) {
  const marks = marksIn(log);
  return marks.get("preempt")?.[0] ?? marks.get("load")?.[0] ?? marks.get("hit")?.[0] ?? null;
}

/** Return the first decode steps, which are searched for a broad row. @param {Log} log */
export function firstDecodes(log) {
  const found = [];
  for (const record of log.records) {
    if (found.length === LOOKED_AT) break;
    if (record.kind === "step" && phaseOf(record) === "decode") found.push(record.index);
  }
  return found;
}

/**
 * Return the record at which a recording is first shown: that of `tellingEvent`; else the first decode step with a
 * broad row in `layer` and `head`: 8 keys or more, none with more than half of the weight; else the first decode step
 * (also if its arrays are not loaded), else the last record. -1 for an empty log.
 * @param {Log} log
 * @param {number} layer
 * @param {number} head
 */
export function initialRecord(log, layer, head) {
  const decodes = firstDecodes(log);
  const broad = decodes.find((index) => {
    const [{ seq_id, context_len }] = log.records[index].batch ?? [];
    const row = attentionRow(log, index, seq_id, layer, head, context_len - 1);
    return row !== null && row.weights.length >= KEYS && row.max <= BROAD;
  });
  return initialEvent(log) ?? broad ?? decodes[0] ?? log.length - 1;
}
