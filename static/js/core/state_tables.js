// Lookup and modification of blocks and block tables, shared by the operations. Mirrors engine/trace/tables.py.

import { groupOf, RELEASED } from "./groups.js";
import { placesOf } from "./instances.js";
import { UNITS_PER_SLOT } from "./limits.js";
import { blockOf, expect, own, sequenceOf } from "./state_access.js";

/** @import {Budget} from "./limits.js" */
/** @import {Sequence, State} from "./state_access.js" */
/** @import {Op} from "./trace.js" */

/** @typedef {{block_id: number, num_blocks: number}} Hole blocks [block_id, block_id + num_blocks) */

/**
 * Return the holes of a group's pool in order of position; adjacent free blocks form one hole.
 * @param {{ref_count: number}[]} blocks blocks of the run
 * @param {{first_block: number, num_blocks: number}} group
 */
export function holesOf(blocks, { first_block, num_blocks }) {
  /** @type {Hole[]} */
  const found = [];
  for (let id = first_block; id < first_block + num_blocks; id++) {
    if (blocks[id].ref_count > 0) continue;
    const last = found.at(-1);
    if (last && last.block_id + last.num_blocks === id) last.num_blocks += 1;
    else found.push({ block_id: id, num_blocks: 1 });
  }
  return found;
}

/**
 * Return the first hole with enough blocks; undefined if none is large enough.
 * @param {Hole[]} holes
 * @param {number} numBlocks
 */
export const firstFit = (holes, numBlocks) => holes.find((hole) => hole.num_blocks >= numBlocks);

/**
 * Return the fragmentation of a pool's free blocks: their number, and the size of the largest hole.
 * @param {Hole[]} holes
 */
export const fragmentation = (holes) => ({
  free: holes.reduce((sum, hole) => sum + hole.num_blocks, 0),
  largest: Math.max(0, ...holes.map((hole) => hole.num_blocks)),
});

/** Return the free queue of a block's group. @param {State} state @param {number} id */
export const queueOf = (state, id) => state.free_queues[groupOf(state.block_groups, id)];

/**
 * Return the mutable table of a sequence in a block's group.
 * @param {State} state
 * @param {number} seqId
 * @param {number} blockId
 * @returns {number[]}
 */
export function ownTable(state, seqId, blockId) {
  const group = groupOf(state.block_groups, blockId);
  expect(group >= 0, `no block ${blockId}`);
  return own(state, own(state, sequenceOf(state, seqId), "block_tables"), group);
}

/** @param {State} state @param {number} seqId @param {number} blockId @param {number} logical */
export function expectEntry(state, seqId, blockId, logical) {
  const group = groupOf(state.block_groups, blockId);
  expect(
    group >= 0 && sequenceOf(state, seqId).block_tables[group][logical] === blockId,
    `block ${blockId} is not at ${logical}`,
  );
}

/**
 * Put a block into the table of its group, and return the block it replaces. With `maySkip`, entries between the
 * table's end and `logical` become released: hits of a windowed group start at the window, a sequence returning from
 * the CPU store gets blocks for what is stored there, and loaded blocks go where a later query needs them.
 * @param {State} state
 * @param {Sequence} sequence
 * @param {number} logical
 * @param {number} blockId
 * @param {boolean} maySkip
 * @param {Budget} budget
 */
export function setTable(state, sequence, logical, blockId, maySkip, budget) {
  const table = ownTable(state, sequence.seq_id, blockId);
  const max = Math.max(sequence.token_ids.length, table.length); // a reservation may be longer than the sequence
  expect(logical >= 0 && logical <= max, `there is no logical block ${logical}`);
  if (maySkip && logical > table.length) {
    budget.spend(logical - table.length);
    while (table.length < logical) table.push(RELEASED);
  }
  expect(logical <= table.length, `logical block ${logical} would leave a hole in the table`);
  const replaced = table[logical] ?? RELEASED;
  table[logical] = blockId;
  return replaced === RELEASED ? null : replaced;
}

/**
 * Return the holes of a group's pool, and spend the cost of the search.
 * @param {State} state
 * @param {number} group
 * @param {Budget} budget
 */
function holesIn(state, group, budget) {
  budget.spend(state.block_groups[group].num_blocks);
  return holesOf(state.blocks, state.block_groups[group]);
}

/**
 * Move contiguous blocks to the head of their free queue, from which allocations take them in order.
 * @param {State} state
 * @param {Extract<Op, {type: "reserve"}>} op
 * @param {Budget} budget
 */
export function reservePiece(state, { seq_id, block_id, num_blocks, hole_blocks }, budget) {
  const group = groupOf(state.block_groups, block_id);
  expect(group >= 0, `no block ${block_id}`);
  const fit = firstFit(holesIn(state, group, budget), num_blocks);
  expect(
    num_blocks > 0 && fit?.block_id === block_id && fit?.num_blocks === hole_blocks,
    `the first hole for ${num_blocks} blocks is not one of ${hole_blocks} at block ${block_id}`,
  );
  expect(sequenceOf(state, seq_id).block_tables[group].length === 0, `sequence ${seq_id} has blocks already`);
  const inPiece = (/** @type {number} */ id) => id >= block_id && id < block_id + num_blocks;
  const piece = Array.from({ length: num_blocks }, (_, i) => block_id + i);
  state.free_queues[group] = [...piece, ...state.free_queues[group].filter((id) => !inPiece(id))];
}

/**
 * Check that enough blocks are free, but no hole is large enough.
 * @param {State} state
 * @param {Extract<Op, {type: "defer"}>} op
 * @param {Budget} budget
 */
export function expectFragmented(state, { needed, available, num_free }, budget) {
  const { largest, free } = fragmentation(holesIn(state, 0, budget));
  expect(
    available === largest && num_free === free,
    `the largest hole has ${largest} blocks and ${free} are free, not ${available} and ${num_free}`,
  );
  expect(largest < needed && needed <= free, `${needed} blocks in one piece are not refused for being in pieces`);
}

/** @param {State} state @param {number} id @param {"front" | "back" | null} to */
export function removeOwner(state, id, to) {
  const block = blockOf(state, id);
  block.ref_count -= 1;
  expect((to === null) === block.ref_count > 0, `block ${id} has ${block.ref_count} owners left`);
  if (block.block_hash === null && block.ref_count === 0) block.token_ids = [];
  if (to === "front") queueOf(state, id).unshift(id);
  else if (to === "back") queueOf(state, id).push(id);
}

/**
 * Return the content of a block that is swapped out to the CPU store, or overwritten from it.
 * @param {State} state
 * @param {{seq_id: number, block_id: number, logical: number}} op
 * @param {Budget} budget
 */
export function contentAt(state, op, budget) {
  expectEntry(state, op.seq_id, op.block_id, op.logical);
  const content = blockOf(state, op.block_id).token_ids;
  budget.spend(UNITS_PER_SLOT * content.length);
  return content;
}

/** @param {number} id @returns {import("./state_access.js").CpuBlock} */
export function freeCpuBlock(id) {
  return { cpu_block_id: id, seq_id: null, logical: null, token_ids: [] };
}

/** @param {State} state @param {Sequence} sequence @param {number} id */
export function freeCpuBlockOf(state, sequence, id) {
  expect(sequence.cpu_block_table[0] === id, `CPU block ${id} is not the sequence's first`);
  own(state, sequence, "cpu_block_table").shift();
  state.cpu_blocks[id] = freeCpuBlock(id);
}

/** @param {Sequence} sequence @param {number} count */
export function expectComputed(sequence, count) {
  const numTokens = sequence.token_ids.length;
  expect(count >= 0 && count <= numTokens, `${count} of ${numTokens} tokens cannot be computed`);
}

/**
 * Insert into the waiting queue, at `position` among the sequences of its instance.
 * @param {State} state
 * @param {number} position
 * @param {number} id
 */
export function queue(state, position, id) {
  const places = placesOf(state, state.waiting, sequenceOf(state, id).instance);
  expect(position >= 0 && position <= places.length, `the waiting queue has no position ${position}`);
  state.waiting.splice(places[position] ?? state.waiting.length, 0, id);
}

/** @param {number[]} list @param {number} id */
export function remove(list, id) {
  const at = list.indexOf(id);
  expect(at >= 0, `${id} is not in the list`);
  list.splice(at, 1);
}

/** @param {State} state @param {number} id */
export const expectNew = (state, id) => expect(!state.sequences.has(id), `sequence ${id} exists already`);

/** @param {Sequence} sequence @returns {Sequence} */
export function copySequence(sequence) {
  return {
    ...sequence,
    token_ids: sequence.token_ids.slice(),
    token_bytes: sequence.token_bytes.slice(),
    block_tables: sequence.block_tables.map((table) => table.slice()),
    cpu_block_table: sequence.cpu_block_table.slice(),
    chosen: sequence.chosen.slice(), // the pairs are immutable
    forgotten: sequence.forgotten.slice(),
    pinned: sequence.pinned.slice(),
  };
}

/** @param {Uint8Array | null} a @param {Uint8Array | null} b */
export function sameBytes(a, b) {
  if (a === null || b === null) return a === b;
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}
