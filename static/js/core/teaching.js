// Default attention head of a run, chosen once per log so that the display does not change by itself.

import { strongest } from "./attention.js";
import { memo } from "./folds.js";
import { measuredHeads } from "./roles.js";
import { attentionRow } from "./sequence_view.js";
import { isWhole, layersHere, widestIn } from "./wide_rows.js";

/** @import {TraceLog} from "./log.js" */

/** @typedef {{layer: number, head: number}} Head */

/** @type {(log: TraceLog) => {next: number, found: Head | null}} */
const decisionOf = memo(() => ({ next: 0, found: null }));

/**
 * Return the default layer and head, from the first record with arrays and a query with several keys. It is the head
 * measured at training, if its layer was recorded; else the one with the widest row; else the one with the largest
 * weight on a key other than its own and the first; else the first one. Before that record arrives, it is the measured
 * head or null.
 * @param {TraceLog} log
 * @returns {Head | null}
 */
export function teachingHead(log) {
  const measured = measuredHeads(log.header.model)[0] ?? null;
  const decision = decisionOf(log);
  for (; !decision.found && decision.next < log.arrivals.length; decision.next++) {
    const { record } = log.arrivals[decision.next];
    const hasChoice = log.records[record].batch?.some((entry) => entry.context_len > 1);
    if (hasChoice && isWhole(log, record)) decision.found = decide(log, record, measured);
  }
  return decision.found ?? measured;
}

/** @param {TraceLog} log @param {number} record @param {Head | null} measured @returns {Head | null} */
function decide(log, record, measured) {
  const layers = layersHere(log, record);
  if (!layers.length) return null;
  if (measured && layers.includes(measured.layer)) return measured;
  const wide = widestIn(log, record) ?? widestIn(log, record, 2);
  return wide ?? sharpestIn(log, record, layers) ?? { layer: layers[0], head: 0 };
}

/**
 * Return the head whose newest query puts the largest weight on a key other than its own and the first.
 * @param {TraceLog} log
 * @param {number} record
 * @param {number[]} layers
 * @returns {Head | null}
 */
function sharpestIn(log, record, layers) {
  /** @type {(Head & {weight: number}) | null} */
  let best = null;
  for (const { seq_id, context_len } of log.records[record].batch ?? [])
    for (const layer of layers)
      for (let head = 0; head < log.header.model.num_heads; head++) {
        const row = attentionRow(log, record, seq_id, layer, head, context_len - 1);
        const { position, weight } = row ? strongest(row) : { position: 0, weight: 0 };
        if (position > 0 && position < context_len - 1 && weight > (best?.weight ?? 0)) best = { layer, head, weight };
      }
  return best && { layer: best.layer, head: best.head };
}
