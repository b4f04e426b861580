// KV cache compression, derived from the log: the keys that each head has dropped and why, the memory masked and freed,
// and the dropped key that a query would have weighted most. Mirrors engine/model/forgetting. Pure.

import { attentionTerms, softmaxOf } from "./attention.js";
import { RELEASED } from "./groups.js";
import { kvTerms } from "./metrics.js";
import { vectorOf } from "./sequence_view.js";
import { kvHeadOf, kvHeadsOf, kvShapeOf } from "./shape.js";

/** @import {TraceLog} from "./log.js" */
/** @import {SequenceView} from "./sequence_view.js" */
/** @import {Sequence} from "./state_access.js" */

/**
 * @typedef {{at: number, score: number, rank: number, lowest: number | null}} Dropped reason of a drop: `at` tokens
 * were computed, `lowest` is the lowest score retained
 */

/**
 * Return the KV heads that can drop keys: all heads of layers without a sliding window.
 * @param {import("./shape.js").Model} model
 * @returns {{layer: number, head: number}[]}
 */
export const forgettingHeads = (model) =>
  Array.from({ length: model.num_layers }, (_, layer) =>
    (model.sliding_windows[layer] ?? null) === null ? kvHeadsOf(model, layer).map((head) => ({ layer, head })) : [],
  ).flat();

/**
 * Return the keys that a KV head of a layer has dropped, by position.
 * @param {Sequence} sequence
 * @param {number} layer
 * @param {number} kvHead
 * @returns {Map<number, Dropped>}
 */
export const forgottenBy = (sequence, layer, kvHead) => indexOf(sequence).get(`${layer}/${kvHead}`) ?? NONE;

/** @type {Map<number, Dropped>} */
const NONE = new Map();
/**
 * @type {WeakMap<object, {length: number, heads: Map<string, Map<number, Dropped>>}>} by the sequence's growing list of
 * decisions
 */
const indexes = new WeakMap();

/** Return the keys dropped by a sequence's heads, by layer and head. @param {Sequence} sequence */
function indexOf({ forgotten }) {
  const known = indexes.get(forgotten) ?? { length: 0, heads: new Map() };
  indexes.set(forgotten, known);
  for (; known.length < forgotten.length; known.length++) {
    const one = forgotten[known.length];
    for (const [kvHead, positions] of one.positions.entries()) {
      const key = `${one.layer}/${kvHead}`;
      const found = known.heads.get(key) ?? new Map();
      known.heads.set(key, found);
      for (const [i, position] of positions.entries())
        found.set(position, {
          at: one.at,
          score: one.scores[kvHead][i],
          rank: one.ranks[kvHead][i],
          lowest: one.lowest_kept[kvHead] ?? null,
        });
    }
  }
  return known.heads;
}

/**
 * Filter `positions` to those visible to the query at `query`, that is, not dropped by its head by then.
 * @param {Sequence} sequence
 * @param {number} layer
 * @param {number} kvHead
 * @param {number} query
 * @param {number[]} positions
 */
export function notForgotten(sequence, layer, kvHead, query, positions) {
  if (!sequence.forgotten.length) return positions;
  const dropped = forgottenBy(sequence, layer, kvHead);
  return positions.filter((position) => (dropped.get(position)?.at ?? Infinity) > query);
}

/**
 * Return the memory of a sequence that is masked, that was freed, and that packing would free.
 *
 *     masked   dropped keys and values in blocks still held · bytes of one pair in one layer and KV head
 *     freed    blocks released because every head had dropped them · bytes of a block
 *     packing  each head's retained pairs moved to the front: blocks held − ⌈most retained of any head / block size⌉;
 *              moved: every pair in another position before. Calculated, not executed
 * @param {TraceLog} log @param {import("./state_access.js").State} state @param {Sequence} sequence
 */
export function memoryOf(log, state, sequence) {
  const size = state.block_size;
  const { model } = log.header;
  const found = {
    pairs: 0,
    maskedBytes: 0,
    freedBlocks: 0,
    freedBytes: 0,
    packedBlocks: 0,
    packedBytes: 0,
    moves: 0,
    movedBytes: 0,
  };
  const computed = sequence.num_computed_tokens;
  for (const [index, group] of log.groups.entries()) {
    const table = sequence.block_tables[index] ?? [];
    if (group.window !== null || !table.length) continue;
    const layers = group.layers.length ? group.layers : Array.from({ length: model.num_layers }, (_, i) => i);
    const { element_bytes, scale_bytes } = kvTerms(log.header, group);
    let most = 0;
    for (const layer of layers) {
      const { head_dim, v_head_dim } = kvShapeOf(model, layer);
      const pairBytes = (head_dim + v_head_dim) * element_bytes + 2 * scale_bytes;
      for (const head of kvHeadsOf(model, layer)) {
        const dropped = forgottenBy(sequence, layer, head);
        let [kept, masked, moves] = [0, 0, 0];
        for (let position = 0; position < computed; position++)
          if (!dropped.has(position)) {
            moves += position > kept ? 1 : 0; // its position changes when the retained keys are packed
            kept++;
          } else if (table[Math.floor(position / size)] !== RELEASED) masked++;
        found.pairs += masked;
        found.maskedBytes += masked * pairBytes;
        most = Math.max(most, kept);
        found.moves += moves;
        found.movedBytes += moves * pairBytes;
      }
    }
    const released = table.filter((id) => id === RELEASED).length;
    const packed = Math.max(0, table.length - released - Math.max(1, Math.ceil(most / size)));
    found.freedBlocks += released;
    found.freedBytes += released * size * group.kv_bytes_per_token;
    found.packedBlocks += packed;
    found.packedBytes += packed * size * group.kv_bytes_per_token;
  }
  return found;
}

/**
 * Return the dropped key to which the view's query would have given the most weight with the full cache: for each head
 * the softmax over all keys, from the captured query and keys. `heads` counts the heads computed: those of all layers
 * whose arrays are loaded, or only of the view's layer if all exceed MAX_NUMBERS. Null if nothing is dropped
 * or no arrays are loaded.
 * @param {SequenceView} view
 * @returns {{position: number, weight: number, layer: number, head: number, kvHead: number, heads: number} | null}
 */
export function heaviestForgotten(view) {
  const { model } = view.log.header;
  const layers = [...new Set(forgettingHeads(model).map(({ layer }) => layer))];
  const numbers = layers.length * model.num_heads * kvShapeOf(model, view.layer).head_dim * ((view.query ?? 0) + 1);
  let [best, heads] = [/** @type {ReturnType<typeof heaviestOf>} */ (null), 0];
  for (const layer of numbers <= MAX_NUMBERS ? layers : layers.filter((one) => one === view.layer))
    for (let head = 0; head < model.num_heads; head++) {
      const found = heaviestOf({ ...view, layer, head, kvHead: kvHeadOf(model, layer, head) });
      if (found) heads += 1;
      if (found && found.weight > (best?.weight ?? -1)) best = found;
    }
  return best && { ...best, heads };
}

const MAX_NUMBERS = 1 << 22; // products computed per update

/**
 * Return the heaviest dropped key of the view's own head; null if nothing is dropped or its arrays are missing.
 * @param {SequenceView} view
 */
function heaviestOf(view) {
  const { seq, layer, head, kvHead, query } = view;
  const terms = attentionTerms(view.log.header.model, layer, head);
  if (query === null || !terms) return null;
  const dropped = [...forgottenBy(seq, layer, kvHead)]
    .filter(([, { at }]) => at <= query)
    .map(([position]) => position);
  const own = dropped.length ? vectorOf(view, "q", query) : null;
  if (!own) return null;
  /** @type {ArrayLike<number>[]} */
  const keys = [];
  for (let position = 0; position <= query; position++) {
    const key = keyOf(view, position);
    if (!key) return null;
    keys.push(key);
  }
  const { weights } = softmaxOf(own, keys, terms);
  const position = dropped.reduce((best, one) => (weights[one] > weights[best] ? one : best));
  return { position, weight: weights[position], layer, head, kvHead };
}

/**
 * Return the key of a position as it was computed, even if its block has been freed since.
 * @param {SequenceView} view
 * @param {number} position
 */
function keyOf(view, position) {
  const spans = view.log.computed.get(view.seq.seq_id) ?? [];
  const span = spans.findLast(({ record, start, end }) => record <= view.index && start <= position && position < end);
  const arrays = span && view.log.layer(span.record, view.layer);
  const packed = span ? view.log.packedIndex(span.record, view.seq.seq_id, position) : -1;
  return arrays && packed >= 0 ? arrays.k.row(packed, view.kvHead) : (vectorOf(view, "k", position) ?? null);
}

/**
 * Return the scores of a sequence in a layer at its last decision up to record `index` with loaded arrays: [Hkv, C],
 * NaN for keys dropped earlier. Null if there are none.
 * @param {TraceLog} log
 * @param {number} index
 * @param {number} seqId
 * @param {number} layer
 */
export function scoresOf(log, index, seqId, layer) {
  for (let at = index; at >= 0; at--)
    if (log.records[at].ops?.some((op) => op.type === "forget" && op.seq_id === seqId && op.layer === layer))
      return log.capture(at)?.scores?.find((one) => one.seq_id === seqId && one.layer === layer)?.scores ?? null;
  return null;
}

/**
 * Return the loss of a sequence's outputs up to record `index` against the full cache; null if they were not compared.
 * @param {TraceLog} log
 * @param {number} index
 * @param {number} seqId
 */
export function qualityOf(log, index, seqId) {
  const sum = { outputs: 0, divergence: 0, logprob: 0, fullLogprob: 0, changed: 0, lastChange: -1 };
  for (let at = 0; at <= index; at++)
    for (const output of log.records[at].outputs ?? [])
      if (output.seq_id === seqId && output.full) {
        sum.outputs += 1;
        sum.divergence += output.full.divergence;
        sum.logprob += output.logprob;
        sum.fullLogprob += output.full.logprob;
        if (output.full.own_token_id !== output.full.token_id) [sum.changed, sum.lastChange] = [sum.changed + 1, at];
      }
  return sum.outputs ? sum : null;
}
