// Sentences on a record for newcomers: events first, in plain words. They use the same values as those for experts
// (sentence.js).

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
 * @property {boolean} isOnly whether it is the only sequence and needs no name
 */

/** Types of operations that are reported one by one. */
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
const TOGETHER = ["removed", "stored", "swap_in", "load", "receive"]; // reported next, one text per type
const AFTER = new Set(["arrive", "await", "finish", "hold", "rank"]); // reported after the computation, one by one
const AFTER_TOGETHER = ["fork", "release", "evict", "store"]; // the same, one text per type

/**
 * Return the texts of record `index` with their values, on the shown sequence if they must choose one. `onlyOne`: the
 * page shows no other sequence, so that steps need no name.
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
  const hasEvents = found.length > 0;
  const waits = (/** @type {Op} */ op) => op.type === "defer" && op.seq_id === shownSeq && !followsPreemption(op);
  found.push(...each(log, index, waits, "plain")); // explains why the stage of a waiting sequence is empty
  if (entry) found.push(...computed(log, index, entry, hasEvents, onlyOne));
  for (const type of AFTER_TOGETHER) found.push(...briefly(log, index, (op) => op.type === type, "plain"));
  found.push(...each(log, index, (op) => AFTER.has(op.type) || (!waits(op) && startsWait(log, index, op)), "plain"));
  if (batch.length > 1 && !hasEvents) found.push(["sentence.plain.others", { n: batch.length - 1 }]);
  return found.length ? found : [[record.seen ? "sentence.seen" : "sentence.idle", {}]];
}

/** @param {Op} op */
const isHit = (op) => op.type === "lookup" && op.verdict === "hit";

/**
 * Return whether a deferral follows from a preemption in the same step, which has its own text.
 * @param {import("../core/trace.js").Defer} op
 */
const followsPreemption = (op) => op.reason === "step_preempted";

/**
 * Return whether `op` starts a wait, or changes its reason since the previous record of its instance.
 * @param {Log} log
 * @param {number} index
 * @param {Op} op
 */
function startsWait(log, index, op) {
  if (op.type !== "defer" || followsPreemption(op)) return false;
  const before = recordBefore(log, index);
  return !log.records[before]?.ops?.some(
    (one) => one.type === "defer" && one.seq_id === op.seq_id && one.reason === op.reason,
  );
}

/**
 * Return the texts on the computation of a sequence and its result. `brief`: omit the explanation of an ordinary step
 * if there are other events.
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
  const isOnly = onlyOne || state.sequences.size === 1;
  const at = { log, index, record: log.records[index], entry, seq, groups, table: tables[0] ?? [], end, isOnly };
  const chosen = nextToken(at);
  if (log.header.engine.strategy === "none" && entry.samples)
    return [...chosen, part("sentence.plain.none", { n: entry.token_ids.length })];
  if (entry.phase === "prefill") return [prefill(at), ...chosen];
  return brief ? chosen : [...chosen, ...decode(at)];
}

/** @param {string} key @param {Record<string, any>} values @returns {MessageKey} */
const part = (key, values) => [key, values];

/** Return the text on the chosen token; empty until the prompt is processed. @param {At} at @returns {MessageKey[]} */
function nextToken({ log, record, seq, end, isOnly }) {
  const output = outputIn(record, seq.seq_id);
  if (!output) return [];
  const token = labelText(tokenLabels(seq.token_bytes)[end] ?? loneLabel(output.token_bytes));
  const values = { token, p: chance(log, output), seq_id: seq.seq_id };
  return [[isOnly ? "sentence.plain.next" : "sentence.plain.next_of", values]];
}

/** @param {At} at @returns {MessageKey} */
function prefill({ log, record, entry, seq, table, end, isOnly }) {
  const size = log.stateAt(record.index).block_size;
  const block_ids = table.slice(Math.floor(entry.start / size), Math.ceil(end / size));
  const values = { n: entry.token_ids.length, seq_id: entry.seq_id, blocks: block_ids.length, block_ids };
  const { num_prompt_tokens: total } = seq;
  if (!entry.samples) {
    const budget = log.header.engine.max_num_batched_tokens;
    return ["sentence.plain.chunk", { ...values, done: Math.min(end, total), total, budget }];
  }
  if (seq.num_preemptions > 0) return ["sentence.plain.resumed", values];
  const isCached = (/** @type {Op} */ op) => isHit(op) || op.type === "load";
  if ((record.ops ?? []).some((op) => isCached(op) && "seq_id" in op && op.seq_id === entry.seq_id))
    return ["sentence.plain.rest", values];
  if (entry.start > 0) return ["sentence.plain.last_chunk", values];
  return [isOnly ? "sentence.plain.prefill" : "sentence.plain.prefill_of", values];
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
  const isNewBlock = (record.ops ?? []).some(
    (op) => op.type === "allocate" && op.seq_id === entry.seq_id && op.block_id === place?.block,
  );
  // has its own text
  const isCopy = (record.ops ?? []).some((op) => op.type === "copy" && op.dst === place?.block);
  const others = groups.slice(1).map(({ layers }) => {
    const keys = keysRead(log, end, layers, entry.seq_id);
    return part("group.also_keys", { layers, keys, blocks: blocksRead(log, end, layers, entry.seq_id) });
  });
  return [part(isNewBlock && !isCopy ? "sentence.plain.decode_new" : "sentence.plain.decode", values), ...others];
}
