// View of one sequence after one record: its tokens, block tables, newest query and attention row.

import { hashKey } from "./cached_contents.js";
import { draftsIn, endOf, outputIn } from "./drafts.js";
import { memo } from "./folds.js";
import { groupOfLayer, isOfStates, RELEASED } from "./groups.js";
import { tokenLabels } from "./labels.js";
import { slotOf } from "./metrics.js";
import { kvHeadOf } from "./shape.js";
import { isElsewhere } from "./slot_origins.js";

/** @import {TraceLog} from "./log.js" */
/** @import {Origin} from "./slot_origins.js" */

/**
 * @typedef {NonNullable<ReturnType<typeof sequenceViewAt>>} SequenceView
 * @typedef {{keyStart: number, weights: Float32Array, max: number}} Row attention weights from the key at `keyStart` on
 */

/**
 * Return the view of sequence `seqId` after record `index`, for `layer` and query head `head`; null if there is no such
 * sequence. `numFilled`: positions with K and V, at the moment of the forward pass if the record computed the sequence.
 * `released`: it finished and freed its blocks. `query`: position of the last token computed in the record,
 * excluding rejected drafts. `tables`: its block tables, `table` that of the layer's block `group`.
 * @param {TraceLog} log
 * @param {number} index
 * @param {number} seqId
 * @param {number} layer
 * @param {number} head
 */
export function sequenceViewAt(log, index, seqId, layer, head) {
  if (index < 0) return null;
  const state = log.stateAt(index);
  const seq = state.sequences.get(seqId);
  if (!seq) return null;
  const record = log.records[index];
  const entry = record.batch?.find((e) => e.seq_id === seqId) ?? null;
  const tables = log.tablesAtCompute(index, seqId) ?? seq.block_tables;
  const group = groupOfLayer(log.groups, layer, seq.instance);
  const numFilled = entry ? entry.start + entry.token_ids.length : seq.num_computed_tokens;
  const kvHead = kvHeadOf(log.header.model, layer, head);
  const drafts = draftsIn(record, seqId);
  const query = entry ? endOf(record, entry) - 1 : null;
  return {
    log,
    index,
    record,
    state,
    seq,
    entry,
    tables,
    table: tables[group] ?? [],
    group,
    layer,
    head,
    kvHead,
    labels: tokenLabels(seq.token_bytes),
    numFilled,
    released: !entry && seq.status === "finished",
    query,
    output: outputIn(record, seqId),
    drafts,
    blockSize: state.block_size,
    attention: query === null ? null : attentionRow(log, index, seqId, layer, head, query),
  };
}

/**
 * Return the weights of the query at `position`, computed in record `index`: `{keyStart, weights, max}` over the
 * visible keys, or null if they were not captured or have not arrived. Captures are rectangular: the row ends at the
 * query's own key, or at a later key with nonzero captured weight. Causal attention has no such key, but the row shows
 * what was recorded.
 * @param {TraceLog} log
 * @param {number} index
 * @param {number} seqId
 * @param {number} layer
 * @param {number} head
 * @param {number} position
 * @returns {Row | null}
 */
export function attentionRow(log, index, seqId, layer, head, position) {
  const rows = rowsWith(log.layer(index, layer), seqId, head, position);
  if (!rows) return null;
  const row = rows.weights.row(rows.heads.indexOf(head), position - rows.query_start);
  let end = row.length;
  while (end > position - rows.key_start + 1 && row[end - 1] === 0) end--;
  const weights = row.subarray(0, end);
  let max = 0;
  for (const weight of weights) if (weight > max) max = weight;
  return { keyStart: rows.key_start, weights, max };
}

/**
 * @param {import("./trace.js").LayerCapture | null} layer @param {number} seqId @param {number} head
 * @param {number} position
 */
function rowsWith(layer, seqId, head, position) {
  return layer?.rows.find(
    (r) =>
      r.seq_id === seqId &&
      r.heads.includes(head) &&
      position >= r.query_start &&
      position < r.query_start + r.weights.shape[1],
  );
}

/**
 * Return whether the block of `position` was released in the shown layer's block group while the sequence runs.
 * @param {SequenceView} view
 * @param {number} position
 */
export const isReleased = (view, position) => view.table[Math.floor(position / view.blockSize)] === RELEASED;

/**
 * Return where K and V of `position` were computed: {record, seq_id, position}, or null if no block holds them.
 * @param {SequenceView} view
 * @param {number} position
 * @returns {Origin | null}
 */
export function originOf(view, position) {
  if (position >= view.numFilled) return null;
  if (view.entry && position >= view.entry.start) return { record: view.index, seq_id: view.seq.seq_id, position };
  const place = slotOf(view.table, view.blockSize, position);
  return place ? view.log.slotOrigin(place.slot, view.index) : null;
}

/** Return whether the view's record computed the content. @param {SequenceView} view @param {Origin} origin */
export const isFresh = (view, origin) => origin.record === view.index && !origin.loaded;

/**
 * Return one vector of `position`: kind "k" or "v" from the cache, "q" only for tokens computed in this record. A
 * Float32Array, null if it does not exist, or `undefined` if its capture is not loaded.
 * @param {SequenceView} view
 * @param {"q" | "k" | "v"} kind
 * @param {number} position
 */
export function vectorOf(view, kind, position) {
  let origin = originOf(view, position);
  if (kind === "q" && origin && !isFresh(view, origin)) origin = null;
  if (!origin) return null;
  if (isElsewhere(origin)) return undefined;
  const arrays = view.log.layer(origin.record, view.layer);
  if (!arrays) return undefined;
  const packed = view.log.packedIndex(origin.record, origin.seq_id, origin.position);
  if (packed < 0) return null;
  return arrays[kind].row(packed, kind === "q" ? view.head : view.kvHead);
}

// ── Stored states of a sequence: the current one, and those that a prefix hit can start from ─────────────────────────

/**
 * @typedef {{position: number, block: number, isNewest: boolean}} StoredState position after which the state was
 * stored, and its block
 */

/**
 * Return the states of a sequence in order, the newest last; empty for models without states. A state is stored where a
 * block of states has the hash of the keys up to there, whether or not the sequence still holds it.
 */
export const storedStates = memo(findStates);

/** @param {SequenceView} view @returns {StoredState[]} */
function findStates({ log, state, seq, tables, table, blockSize: size, numFilled }) {
  const at = log.groups.findIndex((group) => isOfStates(group) && group.instance === seq.instance);
  const own = tables[at];
  if (!own?.length) return [];
  const { first_block: first, num_blocks: count } = log.groups[at];
  /** @type {Map<string, number>} */
  const byHash = new Map();
  for (const { block_id, block_hash } of state.blocks.slice(first, first + count))
    if (block_hash !== null) byHash.set(hashKey(block_hash), block_id);
  /** @type {StoredState[]} */
  const stored = [];
  for (let logical = 0; (logical + 1) * size < numFilled; logical++) {
    const hash = state.blocks[table[logical]]?.block_hash ?? null;
    const block = own[logical] >= 0 ? own[logical] : hash && byHash.get(hashKey(hash));
    if (typeof block === "number") stored.push({ position: (logical + 1) * size - 1, block, isNewest: false });
  }
  const newest = own[Math.ceil(numFilled / size) - 1] ?? -1;
  if (newest >= 0) stored.push({ position: numFilled - 1, block: newest, isNewest: true });
  return stored;
}
