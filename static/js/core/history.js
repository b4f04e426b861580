// What happened to each block and each sequence, operation by operation: the log read once, by subject. Pure.

import { groupOf, heldIn, RELEASED } from "./groups.js";

const indexes = new WeakMap(); // log -> {length, blocks, sequences, tables}; tables: those of the log's end, by sequence and group

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
    follow(index.tables, op, log.groups);
  });
}

function addWrite(index, log, event) {
  const { seq_id: seq, start, num_tokens: count } = event.op;
  const size = log.header.engine.block_size;
  for (const table of index.tables.get(seq) ?? [])
    for (let logical = Math.floor(start / size); logical * size < start + count; logical++) {
      const from = Math.max(start - logical * size, 0);
      const to = Math.min(start + count - logical * size, size);
      push(index.blocks, table[logical], { ...event, from, to });
    }
}

/** The blocks that an operation is about; those of a fork are its parent's, by the tables before it. */
export function blocksOf(op, tables = new Map()) {
  if (op.type === "copy") return [op.src, op.dst];
  if (op.type === "fork") return (tables.get(op.parent_seq_id) ?? []).flatMap(heldIn);
  if (op.type === "lookup") return op.block_ids;
  return op.block_id === undefined ? [] : [op.block_id];
}

function follow(tables, op, groups) {
  if (op.type === "fork")
    return tables.set(
      op.seq_id,
      (tables.get(op.parent_seq_id) ?? []).map((table) => table.slice()),
    );
  if (op.block_id === undefined || op.seq_id === undefined) return tables;
  if (!tables.has(op.seq_id))
    tables.set(
      op.seq_id,
      groups.map(() => []),
    );
  followTable(tables.get(op.seq_id)[groupOf(groups, op.block_id)], op);
  return tables;
}

/** What an operation on a block does to the table (of the block's group) that it stands in. */
export function followTable(table, op) {
  if (op.type === "allocate" || op.type === "share") {
    while (table.length < op.logical) table.push(RELEASED); // hits of a windowed group begin at the window
    table[op.logical] = op.block_id;
  } else if (op.type === "release") table[op.logical] = RELEASED;
  else if (op.type === "free") cutTail(table);
}

/** What the last `free` leaves: released entries go with the block behind them. */
function cutTail(table) {
  table.pop();
  while (table.at(-1) === RELEASED) table.pop();
}

function push(map, key, event) {
  const events = map.get(key);
  if (events) events.push(event);
  else map.set(key, [event]);
}
