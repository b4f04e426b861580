// What happened to each block and each sequence, operation by operation: the log read once, by subject. Pure.

import { heldIn, RELEASED } from "./state.js";

const indexes = new WeakMap(); // log -> {length, blocks, sequences, tables}

/**
 * The operations on `block` up to record `index`, oldest first: [{record, at, op}], `at` the operation's place in its record.
 * A write stands here for each block that it filled, with `from` and `to` (slots of the block, `to` exclusive); a fork for
 * each block of the parent.
 */
export function blockHistory(log, block, index) {
  return upTo(indexOf(log).blocks.get(block), index);
}

/** The operations on sequence `seqId` up to record `index`, oldest first: [{record, at, op}]. */
export function sequenceHistory(log, seqId, index) {
  return upTo(indexOf(log).sequences.get(seqId), index);
}

function upTo(events = [], index) {
  let low = 0;
  let high = events.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (events[middle].record <= index) low = middle + 1;
    else high = middle;
  }
  return events.slice(0, low);
}

function indexOf(log) {
  let found = indexes.get(log);
  if (!found) {
    found = { length: 0, blocks: new Map(), sequences: new Map(), tables: new Map() };
    indexes.set(log, found);
  }
  for (; found.length < log.length; found.length++) add(found, log, found.length);
  return found;
}

function add(index, log, record) {
  (log.records[record].ops ?? []).forEach((op, at) => {
    const event = { record, at, op };
    if (op.seq_id !== undefined) push(index.sequences, op.seq_id, event);
    if (op.type === "fork") push(index.sequences, op.parent_seq_id, event);
    if (op.type === "write") return addWrite(index, log, event);
    if (op.type === "lookup") return;
    for (const block of blocksOf(op, index.tables)) push(index.blocks, block, event);
    follow(index.tables, op);
  });
}

function addWrite(index, log, event) {
  const { seq_id: seq, start, num_tokens: count } = event.op;
  const size = log.header.engine.block_size;
  const table = index.tables.get(seq) ?? [];
  for (let logical = Math.floor(start / size); logical * size < start + count; logical++) {
    const from = Math.max(start - logical * size, 0);
    const to = Math.min(start + count - logical * size, size);
    push(index.blocks, table[logical], { ...event, from, to });
  }
}

/** The blocks that an operation is about; those of a fork are its parent's, by the tables before it. */
export function blocksOf(op, tables = new Map()) {
  if (op.type === "copy") return [op.src, op.dst];
  if (op.type === "fork") return heldIn(tables.get(op.parent_seq_id) ?? []);
  if (op.type === "lookup") return op.block_ids;
  return op.block_id === undefined ? [] : [op.block_id];
}

function follow(tables, op) {
  const table = tables.get(op.seq_id) ?? [];
  if (op.type === "allocate" || op.type === "share") table[op.logical] = op.block_id;
  else if (op.type === "release") table[op.logical] = RELEASED;
  else if (op.type === "free") cutTail(table);
  else if (op.type === "fork") return tables.set(op.seq_id, (tables.get(op.parent_seq_id) ?? []).slice());
  else return tables;
  return tables.set(op.seq_id, table);
}

/** What the last `free` leaves: released entries go with the block behind them. */
export function cutTail(table) {
  table.pop();
  while (table.length && (table.at(-1) ?? RELEASED) === RELEASED) table.pop();
}

function push(map, key, event) {
  const events = map.get(key);
  if (events) events.push(event);
  else map.set(key, [event]);
}
