// Instructive attention rows: those spread over many keys, of which some stand out. Pure.

import { memo } from "./folds.js";
import { attentionRow } from "./sequence_view.js";

/** @import {TraceLog} from "./log.js" */

/** Minimum number of keys of an instructive row. */
export const MIN_KEYS = 6;
const [MIN_PEAK, MAX_PEAK] = [0.15, 0.5]; // range of the largest weight of an instructive row

/**
 * Return the recorded row of a query with the widest spread whose maximum is in that range; `spread`: its entropy in
 * nats. Null if there is none.
 * @param {TraceLog} log
 * @param {number} index
 * @param {number} seq
 * @param {number} query
 */
export function widestRow(log, index, seq, query) {
  /** @type {{layer: number, head: number, weights: Float32Array, spread: number} | null} */
  let best = null;
  for (const layer of layersHere(log, index))
    for (let head = 0; head < log.header.model.num_heads; head++) {
      const row = attentionRow(log, index, seq, layer, head, query);
      if (!row || row.keyStart !== 0 || row.max < MIN_PEAK || row.max > MAX_PEAK) continue;
      const spread = entropy(row.weights);
      if (!best || spread > best.spread) best = { layer, head, weights: row.weights, spread };
    }
  return best;
}

/** @type {(log: TraceLog) => {next: number, found: {layer: number, head: number} | null}} */
const searchOf = memo(() => ({ next: 0, found: null }));

/**
 * Return the layer and head with the widest row in the first record with such a row; constant per log. Null
 * while there is none.
 * @param {TraceLog} log
 * @returns {{layer: number, head: number} | null}
 */
export function widestHead(log) {
  const search = searchOf(log);
  for (; !search.found && search.next < log.arrivals.length; search.next++) {
    const { record } = log.arrivals[search.next];
    if (isWhole(log, record)) search.found = widestIn(log, record);
  }
  return search.found;
}

/** Return whether all arrays of a record are loaded. @param {TraceLog} log @param {number} record */
export function isWhole(log, record) {
  if (log.capture(record)) return true;
  for (let layer = 0; layer < log.header.model.num_layers; layer++)
    if (!log.layer(record, layer) && !log.captureGone.has(`${record}/${layer}`)) return false;
  return true;
}

/**
 * Return the layers of a record whose arrays are loaded.
 * @param {TraceLog} log
 * @param {number} record
 * @returns {number[]}
 */
export const layersHere = (log, record) =>
  log.capture(record)?.layers.map((one) => one.layer) ??
  Array.from({ length: log.header.model.num_layers }, (_, layer) => layer).filter((layer) => log.layer(record, layer));

/**
 * Return the layer and head with the widest row in one record, among its queries with at least `minKeys` keys.
 * @param {TraceLog} log
 * @param {number} record
 * @param {number} [minKeys]
 */
export function widestIn(log, record, minKeys = MIN_KEYS) {
  for (const { context_len, seq_id } of log.records[record].batch ?? []) {
    const row = context_len >= minKeys ? widestRow(log, record, seq_id, context_len - 1) : null;
    if (row) return { layer: row.layer, head: row.head };
  }
  return null;
}

/** @param {Float32Array} weights */
const entropy = (weights) => -weights.reduce((sum, w) => sum + (w > 0 ? w * Math.log(w) : 0), 0);
