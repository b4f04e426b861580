// Decisions of a record, operation by operation. Similar adjacent operations of a sequence form one entry. Pure;
// i18n/operations.js renders the entries in words.

import { operationsWithReasons } from "./decisions.js";
import { blockGroups, groupOf, hasSiblings } from "./groups.js";
import { messagesOf } from "./messages.js";
import { kindOf, sequenceOf } from "./operation_kinds.js";
import { tracksOf } from "./tracks.js";

/** @import {MessageKey} from "./messages.js" */
/** @import {Header, Op, StepRecord} from "./trace.js" */

/**
 * @typedef {{header: Header, records: StepRecord[]}} Log
 * @typedef {object} Entry
 * @property {number} at index of the first operation in `ops`
 * @property {string} type
 * @property {number | null} seq its sequence; null: several or none
 * @property {number} group block group of its blocks; -1: none
 * @property {number[] | null} layers of that group, if a run has several
 * @property {MessageKey[]} parts texts of the entry
 * @property {MessageKey[]} later texts that depend on later records; empty until these arrive
 */

/**
 * Return the entries of record `index` in the order of their execution.
 * @param {Log} log
 * @param {number} index
 * @returns {Entry[]}
 */
export function operationsOf(log, index) {
  const record = log.records[index];
  const groups = blockGroups(log.header);
  const ops = operationsWithReasons(log.header, record);
  return grouped(ops, groups).map((places) => entryOf(log, record, ops, places, groups));
}

/**
 * Return the merged texts of those operations of record `index` that `wanted` selects; empty if there are none. They
 * must be of one type.
 * @param {Log} log
 * @param {number} index
 * @param {(op: Op, at: number) => boolean} wanted
 * @returns {MessageKey[]}
 */
export function partsWhere(log, index, wanted) {
  const record = log.records[index];
  const ops = operationsWithReasons(log.header, record);
  const places = [...ops.keys()].filter((at) => wanted(ops[at], at));
  return places.length ? partsAt(log, record, ops, places) : [];
}

/** @param {Log} log @param {StepRecord} record @param {Op[]} ops @param {number[]} places */
const partsAt = ({ header }, record, ops, places) =>
  messagesOf(
    places.map((at) => ops[at]),
    places.map((place) => ({ header, record, ops, place })),
  );

/**
 * @param {Log} log @param {StepRecord} record @param {Op[]} ops @param {number[]} places
 * @param {ReturnType<typeof blockGroups>} groups @returns {Entry}
 */
function entryOf(log, record, ops, places, groups) {
  const [at] = places;
  const op = ops[at];
  const group = groupOfOp(groups, op);
  const seqs = new Set(places.map((place) => sequenceOf(ops[place])));
  return {
    at,
    type: op.type,
    seq: seqs.size === 1 ? sequenceOf(op) : null,
    group,
    layers: hasSiblings(groups, group) ? groups[group].layers : null,
    parts: partsAt(log, record, ops, places),
    later: op.type === "preempt" ? costOf(log, record, op, at) : [],
  };
}

/** @param {ReturnType<typeof blockGroups>} groups @param {Op} op */
const groupOfOp = (groups, op) => groupOf(groups, "block_id" in op ? op.block_id : "src" in op ? op.src : -1);

/**
 * Group the indices of operations that share an entry: block operations of one type, sequence and block group, without
 * another type of that sequence between them.
 * @param {Op[]} ops
 * @param {ReturnType<typeof blockGroups>} groups
 * @returns {number[][]}
 */
function grouped(ops, groups) {
  /** @type {number[][]} */
  const found = [];
  /** @type {Map<string, number[]>} type, sequence and block group -> list that may still grow */
  const open = new Map();
  ops.forEach((op, at) => {
    const { merge } = kindOf(op.type);
    const prefix = `${op.type}/${sequenceOf(op) ?? ""}/`;
    const key = merge === "step" ? op.type : `${prefix}${groupOfOp(groups, op)}`;
    if (!merge)
      for (const other of open.keys()) if (!other.startsWith(prefix) && other.includes("/")) open.delete(other);
    const list = open.get(key);
    if (list) return void list.push(at);
    found.push([at]);
    if (merge === "step" || "block_id" in op || "cpu_block_id" in op) open.set(key, found[found.length - 1]);
  });
  return found;
}

/**
 * Return the cost of a preemption, once its sequence has resumed.
 * @param {Log} log
 * @param {StepRecord} record
 * @param {import("./trace.js").Preempt} op
 * @param {number} at
 * @returns {MessageKey[]}
 */
function costOf(log, record, op, at) {
  const track = tracksOf(log).byId.get(op.seq_id);
  const cost = track?.preemptions.find((one) => one.record === record.index && one.at === at);
  if (!cost || cost.resumed === null || cost.resumed_step === null) return [];
  const values = { record: cost.resumed + 1, steps: cost.resumed_step - cost.step, again: cost.again };
  return [[op.mode === "swap" ? "later.back" : "later.cost", values]];
}
