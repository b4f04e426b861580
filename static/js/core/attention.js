// Attention derived from the log: origin of each row, softmax of a query, and comparison of two runs. Pure.

import { attentionSpan } from "./groups.js";
import { slotOf } from "./metrics.js";
import { attentionRow } from "./sequence_view.js";
import { isElsewhere } from "./slot_origins.js";

/** @import {Row} from "./sequence_view.js" */

/**
 * @typedef {import("./log.js").TraceLog} Log
 * @typedef {import("./slot_origins.js").Origin} KeyOrigin where a row was computed
 * @typedef {{scaling: number, softcap: number | null, sink: number | null}} Terms
 * @typedef {Record<string, unknown> & {recorded: number, recomputed: number}} Worst place and values of a difference
 * @typedef {{count: number, max: number, worst: Worst | null}} Compared number of compared pairs, and their largest
 *   difference
 */

// ── Rows, each belonging to the record that computed it ──────────────────────────────────────────────────────────────

/**
 * @type {WeakMap<Log, Map<number, {index: number, next: number, records: number[]}>>} by sequence; cached since most
 * lookups advance by one record
 */
const computed = new WeakMap();

/**
 * Return the last record up to `index` that computed each position of `seqId`; undefined where there is none.
 * @param {Log} log
 * @param {number} seqId
 * @param {number} index
 */
function recordsOf(log, seqId, index) {
  const spans = log.computed.get(seqId) ?? [];
  let known = computed.get(log);
  if (!known) computed.set(log, (known = new Map()));
  let cached = known.get(seqId);
  if (!cached || cached.index > index) known.set(seqId, (cached = { index: -1, next: 0, records: [] }));
  for (; cached.next < spans.length && spans[cached.next].record <= index; cached.next++) {
    const { record, start, end } = spans[cached.next];
    for (let position = start; position < end; position++) cached.records[position] = record;
  }
  cached.index = index;
  return cached.records;
}

/**
 * Return the source of the row of each of the view's positions with a key: `{record, seq_id, position}`, or null if the
 * log does not contain it. Positions from the prefix cache or a fork were computed by another sequence, which is found
 * by their slot: in the layer's block group, or in another one if that group released the block.
 * @param {import("./sequence_view.js").SequenceView} view
 * @returns {(KeyOrigin | null)[]}
 */
export function rowSources(view) {
  const { log, index, numFilled } = view;
  const seqId = view.seq.seq_id;
  const records = recordsOf(log, seqId, index);
  /** @type {(KeyOrigin | null)[]} */
  const sources = new Array(numFilled).fill(null);
  /** @type {number | null} */
  let later = null; // record of the nearest computed position after this one: its table contained this one's block
  for (let position = numFilled - 1; position >= 0; position--) {
    const record = records[position];
    if (record !== undefined) {
      later = record;
      sources[position] = { record, seq_id: seqId, position };
    } else {
      const tables = later === null ? view.tables : (log.tablesAtCompute(later, seqId) ?? []);
      const place = [tables[view.group], ...tables]
        .map((table) => slotOf(table, view.blockSize, position))
        .find(Boolean);
      const origin = place ? log.slotOrigin(place.slot, later ?? index) : null;
      sources[position] = isElsewhere(origin) ? null : origin;
    }
  }
  return sources;
}

/**
 * Return the row of a source in `layer` and query head `head`: {keyStart, weights, max}, or null if it is not loaded.
 * @param {Log} log
 * @param {KeyOrigin | null} source
 * @param {number} layer
 * @param {number} head
 */
export function rowOf(log, source, layer, head) {
  return source && attentionRow(log, source.record, source.seq_id, layer, head, source.position);
}

/**
 * Return one vector of a source: kind "q" (by query head), "k" or "v" (by KV head). Null if it is not loaded.
 * @param {Log} log
 * @param {KeyOrigin | null} source
 * @param {number} layer
 * @param {"q" | "k" | "v"} kind
 * @param {number} head
 */
export function vectorAt(log, source, layer, kind, head) {
  const arrays = source && log.layer(source.record, layer);
  if (!arrays) return null;
  const packed = log.packedIndex(source.record, source.seq_id, source.position);
  return packed < 0 ? null : arrays[kind].row(packed, head);
}

/**
 * Return whether a row can still be fetched: its record has arrays that have not arrived.
 * @param {Log} log
 * @param {KeyOrigin | null} source
 * @param {number} layer
 */
export function canFetch(log, source, layer) {
  return source !== null && log.captureMissing(source.record, layer);
}

/** Return the largest weight of a row: {position, weight}. @param {Row} row */
export function strongest(row) {
  let best = 0;
  for (let i = 1; i < row.weights.length; i++) if (row.weights[i] > row.weights[best]) best = i;
  return { position: row.keyStart + best, weight: row.weights[best] };
}

/**
 * Return the weight that a row gives to keys after its query at `query`, which must be 0 in causal attention: {sum,
 * position, weight} with the largest such weight and its key; null if there is none.
 * @param {Row} row
 * @param {number} query
 */
export function laterWeights(row, query) {
  const found = { sum: 0, position: -1, weight: 0 };
  for (let i = Math.max(0, query + 1 - row.keyStart); i < row.weights.length; i++) {
    found.sum += row.weights[i];
    if (row.weights[i] > found.weight) Object.assign(found, { position: row.keyStart + i, weight: row.weights[i] });
  }
  return found.weight > 0 ? found : null;
}

/**
 * Return the largest weight in each of `bins` adjacent ranges of `width` keys, for a downsampled picture of the row.
 * @param {Row} row
 * @param {number} width
 * @param {number} bins
 */
export function pooled(row, width, bins) {
  const found = new Float32Array(bins);
  for (let i = 0; i < row.weights.length; i++) {
    const bin = Math.floor((row.keyStart + i) / width);
    if (row.weights[i] > found[bin]) found[bin] = row.weights[i];
  }
  return found;
}

// ── Softmax: the numbers behind one row ────────────────────────────────────────────────────────────────────────────

/**
 * Return the positions that the query at `query` attends to in `layer`, ascending.
 * @param {Pick<import("./trace.js").Header, "model" | "engine">} header
 * @param {number} layer
 * @param {number} query
 */
export function visibleKeys(header, layer, query) {
  const { window, sinks } = attentionSpan(header, layer);
  const first = Math.max(0, query - window + 1);
  const visible = [];
  for (let position = 0; position < Math.min(sinks, first); position++) visible.push(position);
  for (let position = first; position <= query; position++) visible.push(position);
  return visible;
}

/**
 * Return the parameters of the model's attention in this layer and head; null if the header lacks them.
 * @param {import("./trace.js").ModelFacts} model
 * @param {number} layer
 * @param {number} head
 * @returns {Terms | null}
 */
export function attentionTerms(model, layer, head) {
  const scaling = model.scalings?.[layer];
  if (scaling === undefined) return null;
  return { scaling, softcap: model.softcaps?.[layer] ?? null, sink: model.sinks?.[layer]?.[head] ?? null };
}

/**
 * Return the softmax of `query` over `keys` under `terms`: score = q · k · scaling, with a softcap c then c ·
 * tanh(score / c); `exps` = exp(score − max), `weights` = exp / sum. A sink contributes to max and sum without a key:
 * `sink` is its {score, exp, weight}, else null.
 * @param {ArrayLike<number>} query
 * @param {ArrayLike<number>[]} keys
 * @param {Terms} terms
 */
export function softmaxOf(query, keys, { scaling, softcap, sink }) {
  const scores = keys.map((key) => {
    let product = 0;
    for (let i = 0; i < key.length; i++) product += query[i] * key[i];
    const score = product * scaling;
    return softcap === null ? score : softcap * Math.tanh(score / softcap);
  });
  let max = sink ?? -Infinity;
  for (const score of scores) if (score > max) max = score;
  const exps = scores.map((score) => Math.exp(score - max));
  const sinkExp = sink === null ? 0 : Math.exp(sink - max);
  const sum = exps.reduce((total, value) => total + value, sinkExp);
  return {
    scores,
    max,
    exps,
    sum,
    weights: exps.map((value) => value / sum),
    sink: sink === null ? null : { score: sink, exp: sinkExp, weight: sinkExp / sum },
  };
}

// ── Two runs compared, number by number ────────────────────────────────────────────────────────────────────────────

/** Return an empty comparison. @returns {Compared} */
export const nothingCompared = () => ({ count: 0, max: 0, worst: null });

/**
 * Add the pairs of numbers of two arrays to a comparison. `where` is called only for a new maximum.
 * @param {Compared} found
 * @param {ArrayLike<number>} recorded
 * @param {ArrayLike<number>} recomputed
 * @param {(i: number) => Record<string, unknown>} where
 */
export function compareInto(found, recorded, recomputed, where) {
  for (let i = 0; i < recorded.length; i++) {
    const difference = Math.abs(recorded[i] - recomputed[i]);
    // NaN on either side counts as an infinite difference
    if (!(difference <= found.max)) {
      found.max = Number.isNaN(difference) ? Infinity : difference;
      found.worst = { ...where(i), recorded: recorded[i], recomputed: recomputed[i] };
    }
  }
  found.count += recorded.length;
  return found;
}

/**
 * Compare one position in the log with `reference`, the same layer computed in a single pass (arrays of a
 * LayerCapture): the rows of `heads`, K and V. `found` has `weights`, `k` and `v`, created by `nothingCompared`.
 * Returns whether a row was loaded.
 * @param {{weights: Compared, k: Compared, v: Compared}} found
 * @param {Log} log
 * @param {KeyOrigin} source
 * @param {number} position
 * @param {import("./trace.js").LayerCapture} reference
 * @param {number[]} heads
 */
export function comparePosition(found, log, source, position, reference, heads) {
  const layer = reference.layer;
  const rows = reference.rows[0];
  let isLoaded = false;
  for (const head of heads) {
    const row = rowOf(log, source, layer, head);
    if (!row) continue;
    isLoaded = true;
    const recomputed = rows.weights
      .row(rows.heads.indexOf(head), position)
      .subarray(row.keyStart, row.keyStart + row.weights.length);
    compareInto(found.weights, row.weights, recomputed, (i) => ({ head, query: position, key: row.keyStart + i }));
  }
  for (const kind of /** @type {const} */ (["k", "v"])) {
    for (let head = 0; head < reference[kind].shape[1]; head++) {
      const vector = vectorAt(log, source, layer, kind, head);
      if (vector) compareInto(found[kind], vector, reference[kind].row(position, head), (i) => ({ head, position, i }));
    }
  }
  return isLoaded;
}
