// History of each block and each sequence, operation by operation: the log indexed by subject. Pure.

import { folding } from "./folds.js";
import { blockSize } from "./geometry.js";
import { groupOf, heldIn, RELEASED } from "./groups.js";
import { freesBlock, sequenceOf } from "./operation_kinds.js";
import { lowest } from "./search.js";

/** @import {Op} from "./trace.js" */

/**
 * @typedef {import("./log.js").TraceLog} Log
 * @typedef {{record: number, at: number, op: Op, from?: number, to?: number}} Event `at`: index of the operation in its
 * record
 * @typedef {Map<number, number[][]>} Tables by sequence and block group
 * @typedef {{blocks: Map<number, Event[]>, sequences: Map<number, Event[]>, tables: Tables}} Index
 * `tables`: those at the log's end
 */

/**
 * Return the operations on `block` up to record `index`, oldest first: [{record, at, op}], `at` the index in its
 * record. A write has one entry per block it filled, with `from` and `to` (slots of the block, `to` exclusive); a fork
 * one per block of the parent.
 * @param {Log} log
 * @param {number} block
 * @param {number} index
 */
export function blockHistory(log, block, index) {
  return upTo(indexOf(log).blocks.get(block), index);
}

/**
 * Return the operations on sequence `seqId` up to record `index`, oldest first: [{record, at, op}].
 * @param {Log} log
 * @param {number} seqId
 * @param {number} index
 */
export function sequenceHistory(log, seqId, index) {
  return upTo(indexOf(log).sequences.get(seqId), index);
}

/**
 * Return the last of `events` that is an operation of `type`.
 * @template {Op["type"]} T
 * @param {Event[]} events
 * @param {T} type
 * @returns {(Event & {op: Extract<Op, {type: T}>}) | undefined}
 */
export const lastOf = (events, type) =>
  /** @type {any} the predicate checks the type */ (events.findLast((event) => event.op.type === type));

/** @param {Event[] | undefined} events @param {number} index */
const upTo = (events = [], index) =>
  events.slice(
    0,
    lowest(events.length, (i) => events[i].record > index),
  );

const indexOf = folding(
  /** @type {(log: Log) => Index} */ (() => ({ blocks: new Map(), sequences: new Map(), tables: new Map() })),
  (index, _, record, log) => add(index, log, record),
);

/** @param {Index} index @param {Log} log @param {number} record */
function add(index, log, record) {
  (log.records[record].ops ?? []).forEach((op, at) => {
    /** @type {Event} */
    const event = { record, at, op };
    const seq = sequenceOf(op);
    if (seq !== null) push(index.sequences, seq, event);
    if (op.type === "fork") push(index.sequences, op.parent_seq_id, event);
    if (op.type === "write") return addWrite(index, log, event, op);
    if (op.type === "lookup") return;
    if (op.type === "lost") return addLoss(index, log, event, log.records[record].instance ?? 0);
    for (const block of blocksOf(op, index.tables)) push(index.blocks, block, event);
    updateTables(index.tables, op, log.groups);
  });
}

/** @param {Index} index @param {Log} log @param {Event} event @param {import("./trace.js").Write} op */
function addWrite(index, log, event, { seq_id: seq, start, num_tokens: count }) {
  const size = blockSize(log.header);
  for (const table of (index.tables.get(seq) ?? []).filter(({ length }) => length > 0)) // in its instance's groups
    for (let logical = Math.floor(start / size); logical * size < start + count; logical++) {
      const from = Math.max(start - logical * size, 0);
      const to = Math.min(start + count - logical * size, size);
      push(index.blocks, table[logical], { ...event, from, to });
    }
}

/**
 * Apply the loss of an instance: each of its blocks becomes empty and free.
 * @param {Index} index
 * @param {Log} log
 * @param {Event} event
 * @param {number} instance
 */
function addLoss(index, log, event, instance) {
  for (const group of log.groups.filter((one) => one.instance === instance))
    for (let block = group.first_block; block < group.first_block + group.num_blocks; block++)
      if (index.blocks.has(block)) push(index.blocks, block, event);
}

/**
 * Return the blocks that an operation concerns; for a fork, those in its parent's `tables` before the operation.
 * @param {Op} op
 * @param {Tables} [tables]
 * @returns {number[]}
 */
export function blocksOf(op, tables = new Map()) {
  if (op.type === "copy") return [op.src, op.dst];
  if (op.type === "fork") return (tables.get(op.parent_seq_id) ?? []).flatMap(heldIn);
  if (op.type === "lookup") return op.block_ids;
  return "block_id" in op ? [op.block_id] : [];
}

/** @param {Tables} tables @param {Op} op @param {import("./groups.js").Group[]} groups */
function updateTables(tables, op, groups) {
  if (op.type === "fork")
    return tables.set(
      op.seq_id,
      (tables.get(op.parent_seq_id) ?? []).map((table) => table.slice()),
    );
  if (!("block_id" in op) || !("seq_id" in op) || op.type === "evict") return tables;
  let own = tables.get(op.seq_id);
  if (!own) tables.set(op.seq_id, (own = groups.map(() => [])));
  updateTable(own[groupOf(groups, op.block_id)], op);
  return tables;
}

/**
 * Apply a block operation to the table of the block's group: an operation with a logical index sets or releases that
 * entry; a `free`, which has none, removes the last entry.
 * @param {number[]} table
 * @param {Op} op
 */
export function updateTable(table, op) {
  if (!("block_id" in op)) return;
  if (freesBlock(op) && !("logical" in op)) cutTail(table);
  else if ("logical" in op) {
    while (table.length < op.logical) table.push(RELEASED); // hits of a windowed group start at the window
    table[op.logical] = freesBlock(op) ? RELEASED : op.block_id;
  }
}

/** Remove the last entry and released entries before it, after a `free`. @param {number[]} table */
function cutTail(table) {
  table.pop();
  while (table.at(-1) === RELEASED) table.pop();
}

/** @param {Map<number, Event[]>} map @param {number} key @param {Event} event */
function push(map, key, event) {
  const events = map.get(key);
  if (events) events.push(event);
  else map.set(key, [event]);
}
