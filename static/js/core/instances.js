// Several instances in one log: the instance of sequences, blocks and queue entries. Mirrors engine/trace/instances.py:
// same rules, same errors. Pure.

import { groupOf, isOfStates } from "./groups.js";
import { emptyBlock, expect, own, sequenceOf } from "./state_access.js";

/** @import {Group} from "./groups.js" */
/** @import {State} from "./state_access.js" */

/** Return the number of instances with pools. @param {readonly Group[]} groups */
export const instanceCount = (groups) => (groups.at(-1)?.instance ?? 0) + 1;

/** Return the indices of one instance's groups of layers. @param {readonly Group[]} groups @param {number} instance */
export function ownGroups(groups, instance) {
  return [...groups.keys()].filter((index) => groups[index].instance === instance);
}

/**
 * Return the name of an instance; "" if the log has only one.
 * @param {import("./trace.js").Header} header
 * @param {number} at
 */
export const instanceName = ({ instances }, at) => ((instances?.length ?? 0) > 1 ? (instances?.[at]?.name ?? "") : "");

/**
 * Return the previous record of the same instance before record `index`; -1: none.
 * @param {{records: import("./trace.js").StepRecord[]}} log
 * @param {number} index
 */
export function recordBefore({ records }, index) {
  const instance = records[index]?.instance ?? 0;
  let before = index - 1;
  while (before >= 0 && (records[before].instance ?? 0) !== instance) before -= 1;
  return before;
}

/**
 * Return the number of sequences that are unfinished, or whose blocks another instance may still fetch.
 * @param {State} state
 */
export const unfinished = ({ waiting, receiving, running, holding }) =>
  waiting.length + receiving.length + running.length + holding.length;

/**
 * Return the groups of layers of a sequence's instance, and its table in each when record `index` computed it; no
 * tables if it did not.
 * @typedef {{groups: Group[], tables: number[][]}} Own
 * @param {import("./log.js").TraceLog} log
 * @param {number} index
 * @param {number} seqId
 * @returns {Own}
 */
export function ownAtCompute(log, index, seqId) {
  const all = ownGroups(log.groups, log.stateAt(index).sequences.get(seqId)?.instance ?? 0);
  const places = all.filter((place) => !isOfStates(log.groups[place]));
  const tables = log.tablesAtCompute(index, seqId);
  return {
    groups: places.map((place) => log.groups[place]),
    tables: tables ? places.map((place) => tables[place]) : [],
  };
}

/**
 * Return the indices of the instance's sequences in a queue.
 * @param {State} state
 * @param {readonly number[]} queue
 * @param {number} instance
 */
export function placesOf(state, queue, instance) {
  const places = [];
  for (const [place, id] of queue.entries()) if (state.sequences.get(id)?.instance === instance) places.push(place);
  return places;
}

/**
 * Throw if an operation concerns a sequence or block of another instance than its record.
 * @param {State} state
 * @param {number} instance
 * @param {import("./trace.js").Op} op
 */
export function expectOwn(state, instance, op) {
  const fields = /** @type {Record<string, unknown>} */ (/** @type {unknown} */ (op));
  for (const name of ["seq_id", "parent_seq_id"]) {
    const found = state.sequences.get(/** @type {number} */ (fields[name]));
    const isOwn = !found || op.type === "submit" || found.instance === instance;
    expect(isOwn, `sequence ${fields[name]} is of another instance`);
  }
  if (op.type === "adjust" || op.type === "rank")
    for (const id of op.seq_ids)
      expect(state.sequences.get(id)?.instance === instance, `sequence ${id} is of another instance`);
  for (const name of ["block_id", "src", "dst"]) {
    const id = fields[name];
    if (typeof id !== "number") continue;
    const group = groupOf(state.block_groups, id);
    expect(group >= 0 && state.blocks[id] !== undefined, `there is no block ${id}`);
    expect(state.block_groups[group].instance === instance, `block ${id} is of another instance`);
  }
  const cpu = fields.cpu_block_id;
  if (typeof cpu === "number") {
    const { block_groups: groups, cpu_blocks: blocks } = state;
    const group = groups[Math.floor((cpu * groups.length) / Math.max(blocks.length, 1))];
    expect(group?.instance === instance, `CPU block ${cpu} is of another instance`);
  }
}

/**
 * Apply the loss of an instance: its sequences end and its pool is reset.
 * @param {State} state
 * @param {number} instance
 * @param {import("./limits.js").Budget} budget
 */
export function loseInstance(state, instance, budget) {
  const isOwn = (/** @type {number} */ id) => state.sequences.get(id)?.instance === instance;
  for (const name of /** @type {const} */ (["running", "waiting", "receiving"])) {
    const lost = state[name].filter(isOwn);
    state[name] = state[name].filter((id) => !isOwn(id));
    state.finished.push(...lost);
    for (const id of lost) {
      const sequence = clearTables(state, id);
      sequence.status = "finished";
      sequence.finish_reason = "abort";
      sequence.cpu_block_table = [];
    }
  }
  for (const id of state.holding.filter(isOwn)) clearTables(state, id);
  state.holding = state.holding.filter((id) => !isOwn(id));
  const perGroup = state.cpu_blocks.length / state.block_groups.length;
  for (const index of ownGroups(state.block_groups, instance)) {
    const { first_block: first, num_blocks: count } = state.block_groups[index];
    budget.spend(count);
    for (let id = first; id < first + count; id++) state.blocks[id] = emptyBlock(id);
    state.free_queues[index] = Array.from({ length: count }, (_, i) => first + i);
    for (let id = index * perGroup; id < (index + 1) * perGroup; id++)
      state.cpu_blocks[id] = { cpu_block_id: id, seq_id: null, logical: null, token_ids: [] };
  }
}

/** @param {State} state @param {number} id */
function clearTables(state, id) {
  const sequence = sequenceOf(state, id);
  sequence.block_tables = sequence.block_tables.map(() => []);
  return sequence;
}

/**
 * Return the mutable block tables of a sequence in its instance's groups; it has no blocks in others.
 * @param {State} state
 * @param {import("./state_access.js").Sequence} sequence
 * @returns {number[][]}
 */
export function ownTables(state, sequence) {
  if (instanceCount(state.block_groups) === 1) return sequence.block_tables;
  const tables = own(state, sequence, "block_tables");
  return ownGroups(state.block_groups, sequence.instance).map((group) => tables[group]);
}
