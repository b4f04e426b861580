// Attention output of a query: the sum of weight · V over its keys, computed from captured weights and values, and
// compared with the output that the engine captured. Pure.

import { attentionRow, originOf, sequenceViewAt, vectorOf } from "./sequence_view.js";
import { isElsewhere } from "./slot_origins.js";

/** @import {SequenceView} from "./sequence_view.js" */

/**
 * `positions`: positions of the row's keys, in order; `values`: their V; `recorded`: the captured output, or null;
 * `largest`: max |recorded − sum|.
 * @typedef {{
 *   positions: number[], weights: Float32Array, values: Float32Array[], sum: Float64Array,
 *   recorded: Float32Array | null, largest: number | null,
 * }} AttentionOutput
 */

/**
 * Return Σ weight · value over the first `count` keys; a fractional `count` includes a fraction of the next key.
 * @param {ArrayLike<number>} weights
 * @param {ArrayLike<number>[]} values
 * @param {number} [count]
 */
export function weightedSum(weights, values, count = weights.length) {
  const sum = new Float64Array(values[0]?.length ?? 0);
  for (let i = 0; i < Math.min(weights.length, Math.ceil(count)); i++) {
    const share = weights[i] * Math.min(1, count - i);
    for (let d = 0; d < sum.length; d++) sum[d] += share * values[i][d];
  }
  return sum;
}

/**
 * Return the view of the record that computed the query at `position`, and the query's position there. Null if the log
 * does not contain it.
 * @param {SequenceView} view
 * @param {number} position
 * @returns {{view: SequenceView, query: number} | null}
 */
export function queryAt(view, position) {
  if (position === view.query) return { view, query: position };
  const origin = originOf(view, position);
  if (!origin || isElsewhere(origin)) return null;
  const source = sequenceViewAt(view.log, origin.record, origin.seq_id, view.layer, view.head);
  return source ? { view: source, query: origin.position } : null;
}

/**
 * Return the output of a query that the view's record computed. `missing`: positions whose V can be fetched but is not
 * loaded.
 * @param {SequenceView} view
 * @param {number | null} [query]
 * @returns {{missing: number[], output: AttentionOutput | null} | null} null if there is no query or its row is not
 * loaded
 */
export function outputOf(view, query = view.query) {
  const { log, index, layer, head } = view;
  const row = query === null ? null : attentionRow(log, index, view.seq.seq_id, layer, head, query);
  if (query === null || !row) return null;
  const { weights } = row;
  const positions = Array.from(weights, (_, i) => row.keyStart + i);
  const found = positions.map((position, i) => (weights[i] === 0 ? null : vectorOf(view, "v", position)));
  const missing = positions.filter((_, i) => weights[i] !== 0 && !found[i]);
  if (missing.length) return { missing, output: null };
  const width = found.find(Boolean)?.length ?? 0;
  const values = found.map((value) => value ?? new Float32Array(width)); // zero weight contributes nothing
  const sum = weightedSum(weights, values);
  const packed = log.packedIndex(index, view.seq.seq_id, query);
  const recorded = packed < 0 ? null : (log.layer(index, layer)?.out?.row(packed, head) ?? null);
  const largest = recorded && sum.reduce((max, value, d) => Math.max(max, Math.abs(value - recorded[d])), 0);
  return { missing, output: { positions, weights, values, sum, recorded, largest } };
}

/**
 * Select the keys for a picture of at most `maxRows` rows: `shown` are those with the largest weights, in text order;
 * `rest` share one row.
 * @param {AttentionOutput} output
 * @param {number} maxRows
 * @returns {{shown: number[], rest: number[]}} indices of `positions`
 */
export function rowsFor({ weights }, maxRows) {
  const order = [...weights.keys()].filter((i) => weights[i] > 0).sort((a, b) => weights[b] - weights[a]);
  const count = order.length <= maxRows ? order.length : Math.max(1, maxRows - 1);
  const up = (/** @type {number} */ a, /** @type {number} */ b) => a - b;
  return { shown: order.slice(0, count).sort(up), rest: order.slice(count).sort(up) };
}
