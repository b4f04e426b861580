// Sentences on the operations of a record, with their numbers, for experts (plain_sentence.js is for newcomers). They
// use only the log; i18n/operations.js renders them.

import { visibleKeys } from "../core/attention.js";
import { endOf, outputIn } from "../core/drafts.js";
import { notForgotten } from "../core/forgetting.js";
import { blockSize } from "../core/geometry.js";
import { heldIn, policyOf } from "../core/groups.js";
import { ownAtCompute } from "../core/instances.js";
import { labelText, loneLabel, tokenLabels } from "../core/labels.js";
import { slotOf } from "../core/metrics.js";
import { partsWhere } from "../core/operations.js";
import { kvHeadsOf } from "../core/shape.js";
import { inRegister } from "./operations.js";
import { probabilityText } from "./words.js";

/** @import {Own} from "../core/instances.js" */
/** @import {MessageKey} from "../core/messages.js" */
/** @import {BatchEntry, Op, StepRecord} from "../core/trace.js" */
/** @import {Register} from "./operations.js" */

/** @typedef {import("../core/log.js").TraceLog} Log */

// reported before the computation, one by one
const RARE = new Set([
  "lost",
  "transfer_failed",
  "send",
  "expire",
  "preempt",
  "fork",
  "copy",
  "draft",
  "verify",
  "take_back",
  "choose",
  "adjust",
  "known_since",
]);
// before it, one text per type
const OF_BLOCKS = ["removed", "stored", "evict", "swap_in", "load", "receive"];
const OF_BLOCKS_LAST = ["release", "store"]; // after it, one text per type
const LAST = new Set(["arrive", "await", "defer", "finish", "hold", "rank"]); // after it, one by one

/**
 * Return the texts of record `index` with their values, the shown sequence first. `inWords` renders them.
 * @param {Log} log
 * @param {number} index
 * @param {number | null} shownSeq
 * @returns {MessageKey[]}
 */
export function sentencesOf(log, index, shownSeq) {
  if (index < 0) return [[log.length ? "sentence.before" : "sentence.start", {}]];
  const record = log.records[index];
  const batch = record.batch ?? [];
  const entry = batch.find((e) => e.seq_id === shownSeq) ?? batch[0];
  const found = each(log, index, (op) => op.type === "submit");
  found.push(...each(log, index, (op) => RARE.has(op.type)));
  found.push(...each(log, index, foundOutside));
  for (const type of OF_BLOCKS) found.push(...briefly(log, index, (op) => op.type === type));
  if (entry) found.push(...entrySentences(log, index, record, entry));
  for (const type of OF_BLOCKS_LAST) found.push(...briefly(log, index, (op) => op.type === type));
  found.push(...each(log, index, (op) => LAST.has(op.type)));
  if (batch.length > 1) found.push(["sentence.others", { n: batch.length - 1 }]);
  return found.length ? found : [[record.seen ? "sentence.seen" : "sentence.idle", {}]];
}

/** Return whether a lookup outside the pool had a match, loaded or not. @param {Op} op */
export const foundOutside = (op) => op.type === "lookup_external" && op.verdict !== "miss";

/**
 * Return the texts of the operations that `wanted` selects, one by one.
 * @param {Log} log
 * @param {number} index
 * @param {(op: Op) => boolean} wanted
 * @param {Register} [register]
 * @returns {MessageKey[]}
 */
export const each = (log, index, wanted, register = "short") =>
  (log.records[index].ops ?? []).flatMap((op, place) =>
    wanted(op) ? briefly(log, index, (_, at) => at === place, register) : [],
  );

/**
 * Return the merged text of the operations that `wanted` selects, which must be of one type.
 * @param {Log} log
 * @param {number} index
 * @param {(op: Op, at: number) => boolean} wanted
 * @param {Register} [register]
 * @returns {MessageKey[]}
 */
export const briefly = (log, index, wanted, register = "short") => inRegister(partsWhere(log, index, wanted), register);

/**
 * @param {Log} log
 * @param {number} index
 * @param {StepRecord} record
 * @param {BatchEntry} entry
 * @returns {MessageKey[]}
 */
function entrySentences(log, index, record, entry) {
  const state = log.stateAt(index);
  const seq = state.sequences.get(entry.seq_id);
  if (!seq) return [];
  const size = state.block_size;
  const own = ownAtCompute(log, index, entry.seq_id);
  const table = own.tables[0] ?? []; // in the layers that retain most
  const count = entry.token_ids.length;
  const end = endOf(record, entry);
  /** @type {MessageKey[]} */
  const sentences = [];
  const lookup = briefly(log, index, (op) => op.type === "lookup" && op.seq_id === entry.seq_id);
  const hit = lookup.some(([key]) => key.startsWith("op.lookup.verdict.hit"));
  if (hit) sentences.push(...lookup);
  if (log.header.engine.strategy === "none" && entry.samples) {
    sentences.push(["sentence.decode_none", { step: record.step, n: count, seq_id: entry.seq_id }]);
  } else if (entry.phase === "prefill") {
    const ids = table.slice(Math.floor(entry.start / size), Math.ceil(end / size));
    const resumed = seq.num_preemptions > 0;
    const key = !entry.samples ? "sentence.chunk" : resumed ? "sentence.resumed" : "sentence.prefill";
    const values = { step: record.step, n: count, seq_id: entry.seq_id, from: entry.start, to: end - 1 };
    sentences.push([key, { ...values, blocks: ids.length, block_ids: ids }], ...alsoBlocks(log, own, entry.start, end));
  } else {
    const place = slotOf(table, size, end - 1);
    const keys = keysRead(log, end, null, entry.seq_id);
    sentences.push([
      "sentence.decode",
      {
        step: record.step,
        token: labelText(tokenLabels(seq.token_bytes)[end - 1]),
        keys,
        blocks: blocksRead(log, end, null, entry.seq_id),
        block: place?.block ?? "–",
        slot: place?.offset ?? "–",
      },
    ]);
    for (const [group, place] of otherSlots(log, own, end - 1)) {
      const groupKeys = keysRead(log, end, group.layers, entry.seq_id);
      sentences.push([
        "group.also_decode",
        {
          layers: group.layers,
          keys: groupKeys,
          blocks: blocksRead(log, end, group.layers, entry.seq_id),
          block: place.block,
          slot: place.offset,
        },
      ]);
    }
  }
  if (!hit && log.header.engine.strategy === "paged") sentences.push(...lookup);
  const output = outputIn(record, entry.seq_id);
  if (output) {
    const isOwn = (/** @type {Op} */ op) => "seq_id" in op && op.seq_id === entry.seq_id;
    const last = record.ops?.some((op) => op.type === "finish" && isOwn(op));
    const token = labelText(tokenLabels(seq.token_bytes)[end] ?? loneLabel(output.token_bytes));
    sentences.push([last ? "sentence.sampled_last" : "sentence.sampled", { token, p: chance(log, output) }]);
    const sampled = briefly(log, index, (op) => op.type === "sample" && isOwn(op));
    sentences.push(...sampled.filter(([key]) => key.startsWith("op.sample.settled")));
  }
  return sentences;
}

/**
 * Return the block groups after the first that have a slot for `position`.
 * @param {Log} log
 * @param {Own} own
 * @param {number} position
 * @returns {[group: import("../core/groups.js").Group, place: import("../core/metrics.js").Slot][]}
 */
function otherSlots(log, { groups, tables }, position) {
  const places = tables.map((table) => slotOf(table, blockSize(log.header), position));
  return places.flatMap((place, at) => (at && place ? [[groups[at], place]] : []));
}

/**
 * Return the texts on where the block groups after the first store `position`.
 * @param {Log} log
 * @param {Own} own
 * @param {number} position
 * @returns {MessageKey[]}
 */
export function alsoSlot(log, own, position) {
  return otherSlots(log, own, position).map(([{ layers }, place]) => [
    "group.also",
    { layers, block: place.block, slot: place.offset },
  ]);
}

/**
 * Return the texts on which blocks of the block groups after the first store the positions [start, end).
 * @param {Log} log
 * @param {Own} own
 * @param {number} start
 * @param {number} end
 * @returns {MessageKey[]}
 */
export function alsoBlocks(log, { groups, tables }, start, end) {
  const size = blockSize(log.header);
  const parts = tables.map((table) => heldIn(table.slice(Math.floor(start / size), Math.ceil(end / size))));
  return parts.flatMap((ids, group) =>
    group ? [["group.also_blocks", { layers: groups[group].layers, n: ids.length, block_ids: ids }]] : [],
  );
}

/**
 * Return the number of keys read by a query with `context` tokens up to and including itself, in the layer of `layers`
 * (null: all) with the widest span. If heads of its sequence `seqId` dropped keys, the head with the most keys
 * counts.
 * @param {Log} log
 * @param {number} context
 * @param {number[] | null} [layers]
 * @param {number} [seqId]
 */
export function keysRead(log, context, layers = null, seqId = -1) {
  const { model, engine } = log.header;
  const counts = (layers ?? [...model.sliding_windows.keys()]).map((layer) => {
    const own = model.sliding_windows[layer] ?? Infinity;
    const { window, sinks } = policyOf(engine, layer);
    const within = Math.min(context, own <= window ? own : window + sinks);
    return Math.min(
      within,
      ...headsOf(log, layer, context, seqId)
        .map((positions) => positions.length)
        .slice(0, 1),
    );
  });
  return Math.max(...counts);
}

/**
 * Return the keys that each KV head of a layer still has up to a query; empty if none were dropped.
 * @param {Log} log
 * @param {number} layer
 * @param {number} context
 * @param {number} seqId
 */
function headsOf(log, layer, context, seqId) {
  const sequence = seqId < 0 ? null : log.tail.sequences.get(seqId);
  if (!sequence?.forgotten.length) return [];
  const all = visibleKeys(log.header, layer, context - 1);
  return kvHeadsOf(log.header.model, layer).map((head) => notForgotten(sequence, layer, head, context - 1, all));
}

/**
 * Return the number of logical blocks that contain the keys of all heads: those of the window and of sinks.
 * @param {Log} log
 * @param {number} context
 * @param {number[] | null} [layers]
 * @param {number} [seqId]
 */
export function blocksRead(log, context, layers = null, seqId = -1) {
  const all = layers ?? [...log.header.model.sliding_windows.keys()];
  const farthest = all.reduce((best, layer) =>
    keysRead(log, context, [layer], seqId) > keysRead(log, context, [best], seqId) ? layer : best,
  );
  const heads = headsOf(log, farthest, context, seqId);
  const positions = heads.length ? heads.flat() : visibleKeys(log.header, farthest, context - 1);
  return new Set(positions.map((position) => Math.floor(position / blockSize(log.header)))).size;
}

/**
 * Return the probability of a chosen token; "–" for private, simulated and monitored runs.
 * @param {Log} log
 * @param {import("../core/trace.js").Output} output
 */
export const chance = ({ header }, output) =>
  header.engine.private === true || lacksProbabilities(header) ? "–" : probabilityText(Math.exp(output.logprob));

/** @param {Log["header"]} header */
const lacksProbabilities = ({ simulated, watched }) => Boolean(simulated || watched);
