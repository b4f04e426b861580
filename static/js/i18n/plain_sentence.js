// Sentences of a record for newcomers: its news first, in words that need no others. Uses the same facts as
// sentence.js, which is for experts.

import { endOf, outputIn } from "../core/drafts.js";
import { ownAtCompute, recordBefore } from "../core/instances.js";
import { labelText, loneLabel, tokenLabels } from "../core/labels.js";
import { slotOf } from "../core/metrics.js";
import { blocksRead, briefly, chance, each, foundOutside, keysRead } from "./sentence.js";

/** @import {MessageKey} from "../core/messages.js" */
/** @import {BatchEntry, Op} from "../core/trace.js" */

/**
 * @typedef {import("../core/log.js").TraceLog} Log
 * @typedef {NonNullable<ReturnType<Log["tail"]["sequences"]["get"]>>} Sequence
 * @typedef {object} At subject of a sentence
 * @property {Log} log
 * @property {number} index
 * @property {import("../core/trace.js").StepRecord} record
 * @property {BatchEntry} entry
 * @property {Sequence} seq
 * @property {import("../core/groups.js").Group[]} groups of its instance
 * @property {number[]} table its block table in the layers that retain most
 * @property {number} end position after its last token
 * @property {boolean} alone whether it is the only sequence and needs no name
 */

/** Each is reported separately. */
const EVENTS = new Set([
  "lost",
  "transfer_failed",
  "send",
  "expire",
  "submit",
  "preempt",
  "copy",
  "draft",
  "verify",
  "take_back",
  "choose",
  "adjust",
  "known_since",
]);
const TOGETHER = ["removed", "stored", "swap_in", "load", "receive"]; // also reported, all of a type together
const AFTER = new Set(["arrive", "await", "finish", "hold", "rank"]); // reported after the computation
const AFTER_TOGETHER = ["fork", "release", "evict", "store"];

/**
 * Return the texts of record `index` with their values, about the shown sequence if one must be chosen. `onlyOne`: the
 * page shows no other sequence, so its steps need no name.
 * @param {Log} log
 * @param {number} index
 * @param {number | null} shownSeq
 * @param {boolean} [onlyOne]
 * @returns {MessageKey[]}
 */
export function plainSentencesOf(log, index, shownSeq, onlyOne = false) {
  if (index < 0) return [[log.length ? "sentence.before" : "sentence.start.plain", {}]];
  const record = log.records[index];
  const batch = record.batch ?? [];
  const entry = batch.find((one) => one.seq_id === shownSeq) ?? batch[0];
  const found = each(log, index, (op) => EVENTS.has(op.type), "plain");
  found.push(...each(log, index, isHit, "plain"), ...each(log, index, foundOutside, "plain"));
  for (const type of TOGETHER) found.push(...briefly(log, index, (op) => op.type === type, "plain"));
  const news = found.length > 0;
  const waits = (/** @type {Op} */ op) => op.type === "defer" && op.seq_id === shownSeq && !gaveWay(op);
  found.push(...each(log, index, waits, "plain")); // explains why the stage of a waiting sequence is empty
  if (entry) found.push(...computed(log, index, entry, news, onlyOne));
  for (const type of AFTER_TOGETHER) found.push(...briefly(log, index, (op) => op.type === type, "plain"));
  found.push(...each(log, index, (op) => AFTER.has(op.type) || (!waits(op) && beginsToWait(log, index, op)), "plain"));
  if (batch.length > 1 && !news) found.push(["sentence.plain.others", { n: batch.length - 1 }]);
  return found.length ? found : [[record.seen ? "sentence.seen" : "sentence.idle", {}]];
}

/** @param {Op} op */
const isHit = (op) => op.type === "lookup" && op.verdict === "hit";

/**
 * Return whether a deferral follows from a preemption in the same step, which is reported already.
 * @param {import("../core/trace.js").Defer} op
 */
const gaveWay = (op) => op.reason === "step_preempted";

/**
 * Return whether `op` starts a wait, or changes its reason since the previous record of its instance.
 * @param {Log} log
 * @param {number} index
 * @param {Op} op
 */
function beginsToWait(log, index, op) {
  if (op.type !== "defer" || gaveWay(op)) return false;
  const before = recordBefore(log, index);
  return !log.records[before]?.ops?.some(
    (one) => one.type === "defer" && one.seq_id === op.seq_id && one.reason === op.reason,
  );
}

/**
 * Return the computation of a sequence and its results; `brief`: leave out the explanation of an ordinary step beside
 * other news.
 * @param {Log} log
 * @param {number} index
 * @param {BatchEntry} entry
 * @param {boolean} brief
 * @param {boolean} onlyOne
 * @returns {MessageKey[]}
 */
function computed(log, index, entry, brief, onlyOne) {
  const state = log.stateAt(index);
  const seq = state.sequences.get(entry.seq_id);
  if (!seq) return [];
  const { groups, tables } = ownAtCompute(log, index, entry.seq_id);
  const end = endOf(log.records[index], entry);
  const alone = onlyOne || state.sequences.size === 1;
  const at = { log, index, record: log.records[index], entry, seq, groups, table: tables[0] ?? [], end, alone };
  const chosen = next(at);
  if (log.header.engine.strategy === "none" && entry.samples)
    return [...chosen, part("sentence.plain.none", { n: entry.token_ids.length })];
  if (entry.phase === "prefill") return [prefill(at), ...chosen];
  return brief ? chosen : [...chosen, ...decode(at)];
}

/** @param {string} key @param {Record<string, any>} values @returns {MessageKey} */
const part = (key, values) => [key, values];

/** Return the chosen token; empty until the whole prompt is processed. @param {At} at @returns {MessageKey[]} */
function next({ log, record, seq, end, alone }) {
  const output = outputIn(record, seq.seq_id);
  if (!output) return [];
  const token = labelText(tokenLabels(seq.token_bytes)[end] ?? loneLabel(output.token_bytes));
  const values = { token, p: chance(log, output), seq_id: seq.seq_id };
  return [[alone ? "sentence.plain.next" : "sentence.plain.next_of", values]];
}

/** @param {At} at @returns {MessageKey} */
function prefill({ log, record, entry, seq, table, end, alone }) {
  const size = log.stateAt(record.index).block_size;
  const block_ids = table.slice(Math.floor(entry.start / size), Math.ceil(end / size));
  const values = { n: entry.token_ids.length, seq_id: entry.seq_id, blocks: block_ids.length, block_ids };
  const { num_prompt_tokens: total } = seq;
  if (!entry.samples) {
    const budget = log.header.engine.max_num_batched_tokens;
    return ["sentence.plain.chunk", { ...values, done: Math.min(end, total), total, budget }];
  }
  if (seq.num_preemptions > 0) return ["sentence.plain.resumed", values];
  const isThere = (/** @type {Op} */ op) => isHit(op) || op.type === "load";
  if ((record.ops ?? []).some((op) => isThere(op) && "seq_id" in op && op.seq_id === entry.seq_id))
    return ["sentence.plain.rest", values];
  if (entry.start > 0) return ["sentence.plain.last_chunk", values];
  return [alone ? "sentence.plain.prefill" : "sentence.plain.prefill_of", values];
}

/** @param {At} at @returns {MessageKey[]} */
function decode({ log, record, entry, seq, groups, table, end }) {
  const place = slotOf(table, log.stateAt(record.index).block_size, end - 1);
  const values = {
    token: labelText(tokenLabels(seq.token_bytes)[end - 1]),
    keys: keysRead(log, end, null, entry.seq_id),
    blocks: blocksRead(log, end, null, entry.seq_id),
    block: place?.block ?? "–",
  };
  const taken = (record.ops ?? []).some(
    (op) => op.type === "allocate" && op.seq_id === entry.seq_id && op.block_id === place?.block,
  );
  // reported by its own operation
  const copied = (record.ops ?? []).some((op) => op.type === "copy" && op.dst === place?.block);
  const others = groups.slice(1).map(({ layers }) => {
    const keys = keysRead(log, end, layers, entry.seq_id);
    return part("group.also_keys", { layers, keys, blocks: blocksRead(log, end, layers, entry.seq_id) });
  });
  return [part(taken && !copied ? "sentence.plain.decode_new" : "sentence.plain.decode", values), ...others];
}
