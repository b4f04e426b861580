// Attention worked out from the log: where each row was computed, the softmax of a query, and how two runs compare.
// Pure.

import { sightOf } from "./groups.js";
import { slotOf } from "./metrics.js";
import { attentionRow } from "./sequence_view.js";
import { isElsewhere } from "./slot_origins.js";

/**
 * @typedef {import("./log.js").TraceLog} Log
 * @typedef {import("./log.js").Origin} Source where a row was computed
 * @typedef {import("./sequence_view.js").Row} Row
 * @typedef {{scaling: number, softcap: number | null, sink: number | null}} Terms
 * @typedef {{count: number, max: number, worst: (Record<string, unknown> & {kept: number, again: number}) | null}}
 *   Compared how many
 *   numbers were compared, the largest difference, and where it lies
 */

// ── Rows: every one belongs to the record that computed it ─────────────────────────────────────────────────────────

/**
 * @type {WeakMap<Log, Map<number, {index: number, next: number, records: number[]}>>} by sequence: kept because most
 *   looks go one
 * record on
 */
const computed = new WeakMap();

/**
 * For each position of `seqId`, the last record up to `index` in which it was computed; undefined where it was not.
 * @param {Log} log @param {number} seqId @param {number} index
 */
function recordsOf(log, seqId, index) {
  const spans = log.computed.get(seqId) ?? [];
  let known = computed.get(log);
  if (!known) computed.set(log, (known = new Map()));
  let kept = known.get(seqId);
  if (!kept || kept.index > index) known.set(seqId, (kept = { index: -1, next: 0, records: [] }));
  for (; kept.next < spans.length && spans[kept.next].record <= index; kept.next++) {
    const { record, start, end } = spans[kept.next];
    for (let position = start; position < end; position++) kept.records[position] = record;
  }
  kept.index = index;
  return kept.records;
}

/**
 * For each of the view's positions with a key, who computed its row: `{record, seq_id, position}`, or null when the
 * log does not know. A position that came from the prefix cache or from a fork was computed by another sequence: its
 * slot says by which, in the block group of the layer or, where that let it go, in another.
 * @param {import("./sequence_view.js").SequenceView} view @returns {(Source | null)[]}
 */
export function rowSources(view) {
  const { log, index, numFilled } = view;
  const seqId = view.seq.seq_id;
  const records = recordsOf(log, seqId, index);
  /** @type {(Source | null)[]} */
  const sources = new Array(numFilled).fill(null);
  /** @type {number | null} */
  let later = null; // the record that computed the nearest position after this one: its table held this one's block
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
 * The row of a source in `layer` and query head `head`: {keyStart, weights, max}, or null when it is not here.
 * @param {Log} log @param {Source | null} source @param {number} layer @param {number} head
 */
export function rowOf(log, source, layer, head) {
  return source && attentionRow(log, source.record, source.seq_id, layer, head, source.position);
}

/**
 * One vector of a source: kind "q" (by query head), "k" or "v" (by KV head). Null when it is not here.
 * @param {Log} log @param {Source | null} source @param {number} layer @param {"q" | "k" | "v"} kind
 * @param {number} head
 */
export function vectorAt(log, source, layer, kind, head) {
  const arrays = source && log.layer(source.record, layer);
  if (!arrays) return null;
  const packed = log.packedIndex(source.record, source.seq_id, source.position);
  return packed < 0 ? null : arrays[kind].row(packed, head);
}

/**
 * Whether a row could still be fetched: its record has arrays that have not arrived.
 * @param {Log} log @param {Source | null} source @param {number} layer
 */
export function canFetch(log, source, layer) {
  return source !== null && log.captureMissing(source.record, layer);
}

/**
 * Where the largest weight of a row lies: {position, weight}.
 * @param {Row} row
 */
export function strongest(row) {
  let best = 0;
  for (let i = 1; i < row.weights.length; i++) if (row.weights[i] > row.weights[best]) best = i;
  return { position: row.keyStart + best, weight: row.weights[best] };
}

/**
 * What a row gives to keys after its query at `query`, which causal attention never does: {sum, position, weight} with
 * the largest such weight and its key; null when it gives them nothing.
 * @param {Row} row @param {number} query
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
 * The largest weights of `bins` neighbouring stretches of `width` keys each: what is left of a row in a small picture.
 * @param {Row} row @param {number} width @param {number} bins
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
 * The positions that the query at `query` sees in `layer`, ascending.
 * @param {Pick<import("./trace.js").Header, "model" | "engine">} header @param {number} layer @param {number} query
 */
export function visibleKeys(header, layer, query) {
  const { window, sinks } = sightOf(header, layer);
  const first = Math.max(0, query - window + 1);
  const seen = [];
  for (let position = 0; position < Math.min(sinks, first); position++) seen.push(position);
  for (let position = first; position <= query; position++) seen.push(position);
  return seen;
}

/**
 * What the model's attention computes with in this layer and head; null when the header does not say.
 * @param {import("./trace.js").ModelFacts} model @param {number} layer @param {number} head @returns {Terms | null}
 */
export function attentionTerms(model, layer, head) {
  const scaling = model.scalings?.[layer];
  if (scaling === undefined) return null;
  return { scaling, softcap: model.softcaps?.[layer] ?? null, sink: model.sinks?.[layer]?.[head] ?? null };
}

/**
 * The softmax of `query` over `keys` under `terms`: score = q · k · scaling, with a softcap c then c · tanh(score / c);
 * `exps` = exp(score − max), `weights` = exp / sum. A sink takes part in max and sum and has no key: `sink` is its
 * {score, exp, weight}, else null.
 * @param {ArrayLike<number>} query @param {ArrayLike<number>[]} keys @param {Terms} terms
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

/**
 * The largest difference so far: how many numbers were compared, and where it lies.
 * @returns {Compared}
 */
export const nothingCompared = () => ({ count: 0, max: 0, worst: null });

/**
 * Go on comparing: `put(a, b, where)` for every pair of numbers. `where` is called for the worst one only.
 * @param {Compared} found @param {ArrayLike<number>} kept @param {ArrayLike<number>} again
 * @param {(i: number) => Record<string, unknown>} where
 */
export function compareInto(found, kept, again, where) {
  for (let i = 0; i < kept.length; i++) {
    const difference = Math.abs(kept[i] - again[i]);
    // a number that is none (NaN) on either side is the worst there can be
    if (!(difference <= found.max)) {
      found.max = Number.isNaN(difference) ? Infinity : difference;
      found.worst = { ...where(i), kept: kept[i], again: again[i] };
    }
  }
  found.count += kept.length;
  return found;
}

/**
 * Compare what the log holds of one position with `whole`, the same layer computed all at once (arrays of a
 * LayerCapture): the rows of `heads`, K and V. `found` has `weights`, `k` and `v`, each as `nothingCompared` makes
 * them. Whether the row was here.
 * @param {{weights: Compared, k: Compared, v: Compared}} found @param {Log} log @param {Source} source
 * @param {number} position
 * @param {import("./trace.js").LayerCapture} whole @param {number[]} heads
 */
export function comparePosition(found, log, source, position, whole, heads) {
  const layer = whole.layer;
  const rows = whole.rows[0];
  let here = false;
  for (const head of heads) {
    const row = rowOf(log, source, layer, head);
    if (!row) continue;
    here = true;
    const again = rows.weights
      .row(rows.heads.indexOf(head), position)
      .subarray(row.keyStart, row.keyStart + row.weights.length);
    compareInto(found.weights, row.weights, again, (i) => ({ head, query: position, key: row.keyStart + i }));
  }
  for (const kind of /** @type {const} */ (["k", "v"])) {
    for (let head = 0; head < whole[kind].shape[1]; head++) {
      const vector = vectorAt(log, source, layer, kind, head);
      if (vector) compareInto(found[kind], vector, whole[kind].row(position, head), (i) => ({ head, position, i }));
    }
  }
  return here;
}
