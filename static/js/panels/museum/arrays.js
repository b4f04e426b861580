// Comparison of the captured arrays of two runs: different keys, attention to later keys, keys read from wrong
// positions, keys that are only rotated. Pure.

import { vectorAt } from "../../core/attention.js";
import { SAME } from "../../core/layer_differences.js";
import { originOf, sequenceViewAt } from "../../core/sequence_view.js";
import { kvHeadOf, kvHeadsOf } from "../../core/shape.js";
import { firstOf, recordAt } from "../../runs/steps.js";

/** @import {TraceLog} from "../../core/log.js" */

/**
 * @typedef {{record: number, seq_id: number, position: number}} KeyOrigin origin of a key
 *
 * Differences of the keys. Each of `layers` has a value per position: max |K − K′| over the KV heads and their
 * dimensions, or null if a lane has no captured key. `most` is the largest value, at `worst`.
 * @typedef {{
 *   layers: (number | null)[][],
 *   most: number,
 *   worst: {layer: number, position: number} | null,
 * }} KeyDifferences
 *
 * @typedef {{keyStart: number, weights: Float32Array}} Row attention weights of one query, from the key `keyStart` on
 * @typedef {Float32Array} Vector
 */

const MIN_WEIGHT = 1e-3; // smaller weights are not reported
const TOLERANCE = 0.01; // of recomputed weights, since captures are float16
const MIN_DEVIATION = 0.05; // of recomputed weights, to look for a shift

/** @type {(a: Vector, b: Vector) => number} */
const distance = (a, b) => a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i])), 0);
/** @type {(a: Vector, b: Vector) => number} */
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
/** @type {(a: Vector) => number} */
const norm = (a) => Math.sqrt(dot(a, a));

/**
 * Return the source of each key of `seqId` after `step` steps, by position.
 * @param {TraceLog} log @param {number} step @param {number} seqId
 * @returns {(KeyOrigin | null)[]}
 */
export function keySources(log, step, seqId) {
  const view = sequenceViewAt(log, recordAt(log, step), seqId, 0, 0);
  return view ? Array.from({ length: view.numFilled }, (_, position) => originOf(view, position)) : [];
}

/**
 * Compare the keys of `seqId` after `step` steps between the lanes.
 * @param {TraceLog[]} logs @param {number} step @param {number} seqId
 * @returns {KeyDifferences}
 */
export function keyDifferences(logs, step, seqId) {
  const sources = logs.map((log) => keySources(log, step, seqId));
  const { model } = logs[0].header;
  /** @type {KeyDifferences} */
  const found = { layers: [], most: 0, worst: null };
  for (let layer = 0; layer < model.num_layers; layer++) {
    const row = [];
    for (let position = 0; position < Math.max(...sources.map((one) => one.length)); position++) {
      let most = /** @type {number | null} */ (0);
      for (const head of kvHeadsOf(model, layer)) {
        const [a, b] = logs.map((log, i) => vectorAt(log, sources[i][position], layer, "k", head));
        most = a && b && most !== null ? Math.max(most, distance(a, b)) : null;
      }
      row.push(most);
      if (most !== null && most > Math.max(SAME, found.most))
        Object.assign(found, { most, worst: { layer, position } });
    }
    found.layers.push(row);
  }
  return found;
}

/**
 * Return the first difference of keys up to `step`, in the lowest layer of that step, as {step, seq_id, layer,
 * position, most}; or null.
 */
export const firstKeyDifference = firstOf((logs, at) => {
  const seqs = new Set(
    logs.flatMap((log) => log.records[recordAt(log, at)]?.batch?.map((entry) => entry.seq_id) ?? []),
  );
  for (const seqId of seqs) {
    for (const [layer, row] of keyDifferences(logs, at, seqId).layers.entries()) {
      const position = row.findIndex((value) => (value ?? 0) > SAME);
      if (position >= 0) return { step: at, seq_id: seqId, layer, position, most: row[position] ?? 0 };
    }
  }
  return null;
});

/**
 * Return the weights of the query at `position`, computed in `record`, over all keys of the row, including later ones.
 * @param {TraceLog} log @param {number} record @param {number} seqId
 * @param {number} layer @param {number} head @param {number} position
 * @returns {Row | null}
 */
function fullRow(log, record, seqId, layer, head, position) {
  const rows = log
    .layer(record, layer)
    ?.rows.find(
      (r) =>
        r.seq_id === seqId &&
        r.heads.includes(head) &&
        position >= r.query_start &&
        position < r.query_start + r.weights.shape[1],
    );
  return rows
    ? { keyStart: rows.key_start, weights: rows.weights.row(rows.heads.indexOf(head), position - rows.query_start) }
    : null;
}

/**
 * Return the attention rows of `seqId` by query, up to the last row computed by `step`. Missing rows are null.
 * @param {TraceLog} log @param {number} step @param {number} seqId
 * @param {number} layer @param {number} head
 */
export function attentionRows(log, step, seqId, layer, head) {
  const index = recordAt(log, step);
  const count = index < 0 ? 0 : (log.stateAt(index).sequences.get(seqId)?.token_ids.length ?? 0);
  const records = Array.from({ length: count }, (_, query) => log.computedIn(seqId, query, index));
  const rows = records.map((record, query) => (record < 0 ? null : fullRow(log, record, seqId, layer, head, query)));
  return rows.slice(0, records.findLastIndex((record) => record >= 0) + 1);
}

/**
 * Return the layer and head whose attention rows differ most between the lanes; `most` is 0 if none differ.
 * @param {TraceLog[]} logs @param {number} step @param {number} seqId
 */
export function mostDifferentHead(logs, step, seqId) {
  const { num_layers, num_heads } = logs[0].header.model;
  let found = { layer: 0, head: 0, most: 0, query: 0, key: 0 };
  for (let layer = 0; layer < num_layers; layer++)
    for (let head = 0; head < num_heads; head++) {
      const [a, b] = logs.map((log) => attentionRows(log, step, seqId, layer, head));
      for (let query = 0; query < Math.min(a.length, b.length); query++) {
        const [first, other] = [a[query], b[query]];
        if (!first || !other || first.keyStart !== other.keyStart) continue;
        for (let i = 0; i < Math.min(first.weights.length, other.weights.length); i++) {
          const most = Math.abs(first.weights[i] - other.weights[i]);
          if (most > Math.max(SAME, found.most)) found = { layer, head, most, query, key: first.keyStart + i };
        }
      }
    }
  return found;
}

/**
 * Return the largest weight that a query computed in the log's `step`-th step gives to a later key, or null.
 * @param {TraceLog} log @param {number} step
 */
export function aboveDiagonal(log, step) {
  const index = recordAt(log, step);
  const { num_layers, num_heads } = log.header.model;
  /** @type {{seq_id: number, layer: number, head: number, query: number, key: number, weight: number} | null} */
  let found = null;
  for (const { seq_id, start, token_ids } of log.records[index]?.batch ?? [])
    for (let layer = 0; layer < num_layers; layer++)
      for (let head = 0; head < num_heads; head++)
        for (let query = start; query < start + token_ids.length; query++) {
          const row = fullRow(log, index, seq_id, layer, head, query);
          for (let key = query + 1; row && key < row.keyStart + row.weights.length; key++) {
            const weight = row.weights[key - row.keyStart];
            if (weight > Math.max(MIN_WEIGHT, found?.weight ?? 0)) found = { seq_id, layer, head, query, key, weight };
          }
        }
  return found;
}

/**
 * Test whether the weights of the newest query of `seqId` belong to keys one position away. Recompute them from the
 * captured q and k of the log's `step`-th step, and compare softmax(q · K[j + by] · scaling) with the weight of key j,
 * over the keys that both have. Returns {by, layer, head, query, fits, unmoved}: the largest deviations with and
 * without the shift, for the head with the largest deviation without it. Returns null if no shift explains the weights.
 * @param {TraceLog} log @param {number} step @param {number} seqId
 */
export function shiftedKeys(log, step, seqId) {
  const index = recordAt(log, step);
  const entry = log.records[index]?.batch?.find((e) => e.seq_id === seqId);
  const { num_layers, num_heads, scalings = [], softcaps = [], sinks = [] } = log.header.model;
  if (!entry) return null;
  const query = entry.context_len - 1;
  const sources = keySources(log, step, seqId);
  /** @type {{by: number, layer: number, head: number, query: number, fits: number, unmoved: number} | null} */
  let found = null;
  for (let layer = 0; layer < num_layers; layer++) {
    if (scalings[layer] === undefined || softcaps[layer] || sinks[layer]) continue;
    for (let head = 0; head < num_heads; head++) {
      const row = fullRow(log, index, seqId, layer, head, query);
      const q = vectorAt(log, { record: index, seq_id: seqId, position: query }, layer, "q", head);
      if (!row || row.keyStart !== 0 || !q) continue;
      const kvHead = kvHeadOf(log.header.model, layer, head);
      const keys = sources.flatMap((source) => vectorAt(log, source, layer, "k", kvHead) ?? []);
      if (keys.length < 3 || keys.length < sources.length) continue;
      const scores = keys.map((k) => dot(q, k) * scalings[layer]);
      const unmoved = deviation(row.weights, scores, 0);
      if (unmoved < Math.max(MIN_DEVIATION, found?.unmoved ?? 0)) continue;
      for (const by of [-1, 1]) {
        const fits = deviation(row.weights, scores, by);
        if (fits < TOLERANCE) found = { by, layer, head, query, fits, unmoved };
      }
    }
  }
  return found;
}

/**
 * Return the largest |weight − softmax(scores shifted by `by`)| over the keys that have a neighbour at `by`, both
 * normalized over these keys.
 * @param {Vector} weights @param {number[]} scores @param {number} by
 */
function deviation(weights, scores, by) {
  const keys = scores.map((_, j) => j).filter((j) => scores[j + by] !== undefined && j < weights.length);
  const highest = Math.max(...keys.map((j) => scores[j + by]));
  const powers = keys.map((j) => Math.exp(scores[j + by] - highest));
  const [sum, mass] = [powers.reduce((a, b) => a + b, 0), keys.reduce((a, j) => a + weights[j], 0)];
  return Math.max(...keys.map((j, i) => Math.abs(weights[j] / mass - powers[i] / sum)));
}

/**
 * Return the first position whose first-layer keys, computed by `seqId` itself in both lanes, have equal norms in every
 * head but different directions, which only a different rotation explains: {position, length, cosine} of the KV head
 * with the largest angle. Returns null if there is none.
 * @param {TraceLog[]} logs @param {number} step @param {number} seqId
 */
export function rotatedKey(logs, step, seqId) {
  const sources = logs.map((log) => keySources(log, step, seqId));
  for (let position = 0; position < Math.min(...sources.map((one) => one.length)); position++) {
    if (sources.some((one) => one[position]?.seq_id !== seqId || one[position]?.position !== position)) continue;
    /** @type {{position: number, length: number, cosine: number} | null} */
    let rotated = null;
    for (const head of kvHeadsOf(logs[0].header.model, 0)) {
      const [a, b] = logs.map((log, i) => vectorAt(log, sources[i][position], 0, "k", head));
      if (!a || !b || Math.abs(norm(a) - norm(b)) > TOLERANCE * norm(a)) {
        rotated = null;
        break;
      }
      const cosine = dot(a, b) / (norm(a) * norm(b));
      if (cosine < 1 - TOLERANCE && cosine < (rotated?.cosine ?? 1)) rotated = { position, length: norm(a), cosine };
    }
    if (rotated) return rotated;
  }
  return null;
}
