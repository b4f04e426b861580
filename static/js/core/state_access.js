// Types of a state, and access to its blocks, sequences and lists with copy-on-write. Pure.
//
// A copy of a state owns none of its blocks and sequences until an operation changes one: `blockOf` and `sequenceOf`
// return a mutable copy, `own` a mutable list of it. Copies are therefore cheap for large pools and long sequences.

import { memo } from "./folds.js";

/** @import {Group} from "./groups.js" */

/**
 * @typedef {object} Block
 * @property {number} block_id
 * @property {number} ref_count
 * @property {Uint8Array | null} block_hash
 * @property {number[]} token_ids
 * @property {number | null} logical
 * @property {number | null} allocated_by
 * @property {number | null} allocated_in
 * @property {number} num_hits
 * @property {number | null} last_hit_in
 * @typedef {object} CpuBlock
 * @property {number} cpu_block_id
 * @property {number | null} seq_id
 * @property {number | null} logical
 * @property {number[]} token_ids
 * @typedef {object} OutsideBlock one content outside the pool of a monitored server; empty if `block_hash` is null
 * @property {number} place
 * @property {number} instance current one
 * @property {string} medium
 * @property {Uint8Array | null} block_hash
 * @property {number[]} token_ids
 * @typedef {"waiting" | "receiving" | "running" | "preempted" | "finished"} Status
 * @typedef {object} Sequence
 * @property {number} seq_id
 * @property {string} request_id
 * @property {Status} status
 * @property {number[]} token_ids
 * @property {Uint8Array[]} token_bytes
 * @property {number} num_prompt_tokens
 * @property {number} num_computed_tokens
 * @property {number} num_cached_tokens
 * @property {number[][]} block_tables one per block group
 * @property {number} num_preemptions
 * @property {number} max_tokens
 * @property {number} priority
 * @property {import("./trace.js").Finish["reason"] | null} finish_reason
 * @property {number} submitted_in
 * @property {number | null} parent_seq_id
 * @property {number} cumulative_logprob
 * @property {number[]} cpu_block_table
 * @property {number | null} rank
 * @property {number | null} score
 * @property {string | null} transfer name of the transfer of its keys and values between instances
 * @property {number} instance current one
 * @property {[position: number, token_id: number][]} chosen
 * @property {import("./trace.js").Forget[]} forgotten
 * @property {number[]} pinned
 * @typedef {object} State
 * @property {number} index of the last record; -1: none
 * @property {number} step
 * @property {number} block_size
 * @property {Group[]} block_groups
 * @property {Block[]} blocks
 * @property {number[][]} free_queues one per block group
 * @property {number[]} waiting
 * @property {number[]} running
 * @property {number[]} receiving sequences that wait for blocks of another instance
 * @property {number[]} holding finished sequences whose blocks are held for another instance
 * @property {number[]} finished without dropped ones
 * @property {number | null} finished_kept maximum of `finished` at the start of a record, not counting `holding`; null:
 * unlimited
 * @property {number} num_forgotten finished sequences that were dropped
 * @property {Map<number, Sequence>} sequences
 * @property {CpuBlock[]} cpu_blocks
 * @property {OutsideBlock[]} outside contents outside a monitored server's pools, by place
 * @property {[num_tokens: number, num_hit_tokens: number][]} recent_lookups
 */

/** Return an empty block. @param {number} id @returns {Block} */
export const emptyBlock = (id) => ({
  block_id: id,
  ref_count: 0,
  block_hash: null,
  token_ids: [],
  logical: null,
  allocated_by: null,
  allocated_in: null,
  num_hits: 0,
  last_hit_in: null,
});

/** Return the set of blocks, sequences and lists that only `state` holds. @type {(state: State) => Set<unknown>} */
export const owned = memo(() => new Set());

/**
 * Return sequence `id` as this state's own mutable copy. Its lists stay shared until `own` copies them.
 * @param {State} state
 * @param {number} id
 * @returns {Sequence}
 */
export function sequenceOf(state, id) {
  const sequence = state.sequences.get(id);
  expect(sequence !== undefined, `no sequence ${id}`);
  if (owned(state).has(sequence)) return sequence;
  const changed = { ...sequence };
  owned(state).add(changed);
  state.sequences.set(id, changed);
  return changed;
}

/**
 * Return block `id` as this state's own mutable copy. Its `token_ids` stay shared until `own` copies them.
 * @param {State} state
 * @param {number} id
 * @returns {Block}
 */
export function blockOf(state, id) {
  const block = state.blocks[id];
  expect(block !== undefined, `no block ${id}`);
  if (owned(state).has(block)) return block;
  const changed = { ...block };
  owned(state).add(changed);
  state.blocks[id] = changed;
  return changed;
}

/**
 * Return the list `key` of an object owned by this state, as a mutable copy.
 * @template {object} H
 * @template {keyof H} K
 * @param {State} state
 * @param {H} holder
 * @param {K} key
 * @returns {H[K]}
 */
export function own(state, holder, key) {
  const list = /** @type {any} a list of any type */ (holder[key]);
  if (owned(state).has(list)) return list;
  const changed = list.slice();
  owned(state).add(changed);
  holder[key] = changed;
  return changed;
}

/** @param {unknown} condition @param {string} message @returns {asserts condition} */
export function expect(condition, message) {
  if (!condition) throw new Error(message);
}
