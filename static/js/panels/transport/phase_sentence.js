// Sentences of one sub-step with this run's numbers. Facts come only from the log; i18n/operations.js formats
// operations.

import { endOf, outputIn } from "../../core/drafts.js";
import { blockSize } from "../../core/geometry.js";
import { groupOf } from "../../core/groups.js";
import { ownAtCompute } from "../../core/instances.js";
import { labelText, loneLabel, tokenLabels } from "../../core/labels.js";
import { slotOf } from "../../core/metrics.js";
import { freesBlock } from "../../core/operation_kinds.js";
import { sizeOf } from "../../core/shape.js";
import {
  alsoBlocks,
  alsoSlot,
  blocksRead,
  briefly,
  chance,
  each,
  foundOutside,
  keysRead,
} from "../../i18n/sentence.js";
import { hasText, probabilityText } from "../../i18n/words.js";

/** @import {MessageKey} from "../../core/messages.js" */
/** @import {BatchEntry, Op} from "../../core/trace.js" */
/** @import {Register} from "../../i18n/operations.js" */

/**
 * @typedef {import("../../core/log.js").TraceLog} Log
 * @typedef {import("../../core/sequence_view.js").Row & {layer: number, head: number}} Attention
 * @typedef {object} SubStep a sub-step
 * @property {Register} register register of operation texts
 * @property {Log} log
 * @property {number} index
 * @property {import("../../core/trace.js").StepRecord} record
 * @property {Op[]} ops
 * @property {BatchEntry[]} batch
 * @property {BatchEntry | null} entry batch entry of the described sequence, or null if nothing was computed
 * @property {number} end position after the entry's last token
 * @property {number[]} table the sequence's block table in the layers with the longest attention span
 * @property {import("../../core/instances.js").Own} own groups and tables of the sequence's instance
 * @property {number} tokens number of tokens of the complete batch
 * @property {import("../../core/trace.js").ModelFacts} model
 * @property {Attention | null} attention
 * @typedef {SubStep & {entry: BatchEntry}} ComputedSubStep
 */

/** @type {Record<string, ((at: SubStep) => MessageKey[]) | ((at: ComputedSubStep) => MessageKey[])>} */
const DESCRIPTIONS = { schedule, allocate, qkv, write, attend, sample };

/**
 * Use the plain variant of each text, for beginners, if it exists.
 * @param {MessageKey[]} parts
 * @returns {MessageKey[]}
 */
const plainVariants = (parts) => parts.map(([key, values]) => [hasText(`${key}.plain`) ? `${key}.plain` : key, values]);

/**
 * Return `[[key, values], …]` for phase `phase` of record `index` (a step), about `shownSeq` where a sequence must be
 * chosen. `attention` is {keyStart, weights, layer, head} of the shown query, or null if it is not captured.
 * @param {Log} log @param {number} index @param {string} phase @param {number | null} shownSeq
 * @param {Attention | null} [attention] @param {Register} [register] "plain" or "short"
 * @returns {MessageKey[]}
 */
export function phaseSentencesOf(log, index, phase, shownSeq, attention = null, register = "short") {
  const record = log.records[index];
  const batch = record.batch ?? [];
  const entry = batch.find((e) => e.seq_id === shownSeq) ?? batch[0] ?? null;
  if (!entry && phase !== "schedule") return [["sentence.phase.nobody", {}]];
  const end = entry ? endOf(record, entry) : 0;
  const own = ownAtCompute(log, index, entry?.seq_id ?? -1);
  const table = own.tables[0] ?? []; // table of the layers with the longest attention span
  const tokens = batch.reduce((sum, e) => sum + e.token_ids.length, 0);
  // the case without an entry is handled above
  const describe = /** @type {(at: any) => MessageKey[]} */ (DESCRIPTIONS[phase]);
  const found = describe({
    register,
    log,
    index,
    record,
    ops: record.ops ?? [],
    batch,
    entry,
    end,
    table,
    own,
    tokens,
    model: log.header.model,
    attention,
  });
  return register === "plain" ? plainVariants(found) : found;
}

/** @param {ComputedSubStep} at */
const labels = (at) => tokenLabels(at.log.stateAt(at.index).sequences.get(at.entry.seq_id)?.token_bytes ?? []);
const SCHEDULES = new Set(["preempt", "admit", "defer", "draft"]);

/** @param {SubStep} at @returns {MessageKey[]} */
function schedule(at) {
  const { batch, tokens, log, register } = at;
  const found = each(
    log,
    at.index,
    (op) => SCHEDULES.has(op.type) || (op.type === "lookup" && op.verdict === "hit") || foundOutside(op),
    register,
  );
  if (!batch.length) return found.length ? found : [["sentence.idle", {}]];
  const decodes = batch.filter((e) => e.phase === "decode").length;
  const values = {
    n: tokens,
    budget: log.header.engine.max_num_batched_tokens,
    seqs: batch.length,
    decodes,
    prefills: batch.length - decodes,
  };
  const kind = decodes === batch.length ? "decodes" : decodes === 0 ? "prefills" : "mixed";
  return [[`sentence.phase.schedule.${kind}`, values], ...found];
}

/**
 * Describe the blocks allocated from the free queue, and the queue's length before and after.
 * @param {ComputedSubStep} at @returns {MessageKey[]}
 */
function allocate(at) {
  const { log, index, ops, entry, end, table, own, register } = at;
  const taken = ops.filter((op) => op.type === "allocate");
  /** @type {MessageKey[]} */
  const found = [];
  found.push(...briefly(log, index, (op) => op.type === "evict", register));
  log.groups.forEach((group, at) => {
    const inGroup = (/** @type {Op} */ op) => groupOf(log.groups, "block_id" in op ? op.block_id : -1) === at;
    const ids = taken.filter(inGroup).map((op) => op.block_id);
    if (!ids.length) return;
    const before = log.stateAt(index - 1).free_queues[at].length;
    const values = { n: ids.length, block_ids: ids, before, after: before + queueChange(ops.filter(inGroup)) };
    found.push(["sentence.phase.allocate", own.groups.length > 1 ? { ...values, within: group.layers } : values]);
  });
  for (const type of ["share", "swap_in", "load"])
    found.push(...briefly(log, index, (op) => op.type === type, register));
  found.push(...each(log, index, (op) => op.type === "copy", register));
  if (found.length) return found;
  const place = slotOf(table, blockSize(log.header), entry.start);
  if (!place) return [["sentence.phase.allocate_none_left", {}]];
  return [
    ["sentence.phase.allocate_nothing", { seq_id: entry.seq_id, block: place.block, slot: place.offset, to: end - 1 }],
  ];
}

/**
 * Return the change of the free queue's length up to the last operation that removed a block. Blocks freed by finished
 * sequences are returned later.
 * @param {Op[]} ops
 */
function queueChange(ops) {
  let change = 0;
  let atLastAllocation = 0;
  for (const op of ops) {
    if (freesBlock(op) && op.to) change += 1;
    if (op.type === "allocate" || (op.type === "share" && op.revived)) atLastAllocation = change -= 1;
  }
  return atLastAllocation;
}

/** @param {ComputedSubStep} at @returns {MessageKey[]} */
function qkv(at) {
  const { model, tokens, batch, entry, end } = at;
  const [kv, d] = [sizeOf(model, "num_kv_heads"), sizeOf(model, "head_dim")];
  const shape = { layers: model.num_layers, heads: model.num_heads, kv, d };
  if (tokens === 1)
    return [["sentence.phase.qkv_one", { ...shape, token: labelText(labels(at)[end - 1]), position: entry.start }]];
  return [["sentence.phase.qkv", { ...shape, n: tokens, seqs: batch.length }]];
}

/** @param {ComputedSubStep} at @returns {MessageKey[]} */
function write(at) {
  const { log, entry, end, table, own } = at;
  const layers = own.groups[0].layers.length;
  const size = blockSize(log.header);
  /** @type {MessageKey[]} */
  const found = [];
  const place = slotOf(table, size, end - 1);
  const count = end - entry.start;
  if (!place) return [["sentence.phase.write_nowhere", {}]];
  if (count === 1) {
    found.push([
      "sentence.phase.write_one",
      { position: entry.start, block: place.block, offset: place.offset, slot: place.slot, size, layers },
    ]);
    found.push(...alsoSlot(log, own, entry.start));
  } else {
    const ids = table.slice(Math.floor(entry.start / size), Math.ceil(end / size));
    found.push([
      "sentence.phase.write",
      { seq_id: entry.seq_id, from: entry.start, to: end - 1, n: count, blocks: ids.length, block_ids: ids, layers },
    ]);
    found.push(...alsoBlocks(log, own, entry.start, end));
  }
  const others = at.tokens - entry.token_ids.length;
  if (others) found.push(["sentence.phase.write_others", { n: others }]);
  return [...found, ...briefly(log, at.index, (op) => op.type === "cache", at.register)];
}

/** @param {ComputedSubStep} at @returns {MessageKey[]} */
function attend(at) {
  const { log, entry, end, model, own, attention } = at;
  const count = end - entry.start;
  /** @type {MessageKey[]} */
  const found = [];
  if (count === 1) {
    const keys = keysRead(log, end, null, entry.seq_id);
    const [first, ...others] = own.groups;
    const values = {
      token: labelText(labels(at)[end - 1]),
      keys,
      blocks: blocksRead(log, end, null, entry.seq_id),
      layers: first.layers.length,
      heads: model.num_heads,
    };
    found.push(["sentence.phase.attend_one", values]);
    for (const { layers } of others) {
      const [keys, blocks] = [keysRead, blocksRead].map((count) => count(log, end, layers, entry.seq_id));
      found.push(["group.also_keys", { layers, keys, blocks }]);
    }
  } else {
    let pairs = 0;
    for (let position = entry.start; position < end; position++)
      pairs += keysRead(log, position + 1, null, entry.seq_id);
    found.push([
      "sentence.phase.attend",
      {
        n: count,
        seq_id: entry.seq_id,
        pairs,
        to: end - 1,
        layers: own.groups[0].layers.length,
        heads: model.num_heads,
      },
    ]);
  }
  if (attention?.weights.length) {
    let largest = 0;
    attention.weights.forEach((weight, i) => weight > attention.weights[largest] && (largest = i));
    const position = attention.keyStart + largest;
    const values = {
      layer: attention.layer,
      head: attention.head,
      token: labelText(labels(at)[position]),
      position,
      p: probabilityText(attention.weights[largest]),
    };
    found.push(["sentence.phase.attend_most", values]);
  }
  return found;
}

/** @param {ComputedSubStep} at @returns {MessageKey[]} */
function sample(at) {
  const { record, ops, entry, end } = at;
  const output = outputIn(record, entry.seq_id);
  /** @type {MessageKey[]} */
  const found = [];
  if (!output)
    found.push([
      "sentence.phase.sample_none",
      { seq_id: entry.seq_id, n: end, total: at.log.stateAt(at.index).sequences.get(entry.seq_id)?.num_prompt_tokens },
    ]);
  else {
    const last = ops.some((op) => op.type === "finish" && op.seq_id === entry.seq_id);
    const token = labelText(labels(at)[end] ?? loneLabel(output.token_bytes));
    found.push([last ? "sentence.sampled_last" : "sentence.sampled", { token, p: chance(at.log, output) }]);
    const other = output.top?.find((candidate) => candidate.token_id !== output.token_id);
    if (other)
      found.push([
        "sentence.phase.runner_up",
        { token: labelText(loneLabel(other.token_bytes)), p: probabilityText(Math.exp(other.logprob)) },
      ]);
  }
  const numOthers = (record.outputs ?? []).filter((one) => one.seq_id !== entry.seq_id).length;
  if (numOthers > 0) found.push(["sentence.phase.sample_others", { n: numOthers }]);
  found.push(...briefly(at.log, at.index, (op) => op.type === "store", at.register));
  found.push(...each(at.log, at.index, (op) => op.type === "verify" || op.type === "take_back", at.register));
  return [...found, ...each(at.log, at.index, (op) => op.type === "finish", at.register)];
}
