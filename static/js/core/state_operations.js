// Effects of operations on the state. Mirrors engine/trace/operation_effects.py: same rules, same errors.

import { groupOf, heldBy, isOfStates, RELEASED } from "./groups.js";
import { UNITS_PER_SLOT } from "./limits.js";
import { blockOf, expect, sequenceOf } from "./state_access.js";
import { OBSERVED } from "./state_observed.js";
import { OUTSIDE } from "./state_outside.js";
import {
  copySequence,
  expectComputed,
  expectEntry,
  expectFragmented,
  expectNew,
  ownTable,
  queue,
  queueOf,
  remove,
  removeOwner,
  reservePiece,
  sameBytes,
  setTable,
} from "./state_tables.js";
import { TOKENS } from "./state_tokens.js";

/** @import {State} from "./state_access.js" */
/** @import {Op} from "./trace.js" */

/** Number of last lookups that determine the hit rate. */
const RECENT_LOOKUPS = 100;

/**
 * @typedef {import("./state.js").RecordOutputs} Outputs
 * @typedef {{[K in Op["type"]]: (state: State, op: Extract<Op, {type: K}>, index: number, outputs: Outputs,
 *   budget: import("./limits.js").Budget, instance: number) => void}} Operations
 */

/** @type {Operations} a missing operation is a type error */
export const OPERATIONS = {
  // no effect on the state
  defer(state, op, _index, _outputs, budget) {
    if (op.reason === "fragmented") expectFragmented(state, op, budget);
  },

  reserve(state, op, _index, _outputs, budget) {
    reservePiece(state, op, budget);
  },

  submit(state, op, index, _outputs, _budget, instance) {
    expectNew(state, op.seq_id);
    const [numTokens, numTexts] = [op.prompt_token_ids.length, op.prompt_token_bytes.length];
    expect(numTokens === numTexts, `${numTokens} prompt tokens stand for ${numTexts} texts`);
    state.sequences.set(op.seq_id, {
      seq_id: op.seq_id,
      request_id: op.request_id,
      status: "waiting",
      transfer: op.transfer ?? null,
      instance,
      token_ids: Array.from(op.prompt_token_ids),
      token_bytes: Array.from(op.prompt_token_bytes),
      num_prompt_tokens: op.prompt_token_ids.length,
      num_computed_tokens: 0,
      num_cached_tokens: 0,
      block_tables: state.block_groups.map(() => []),
      num_preemptions: 0,
      max_tokens: op.max_tokens,
      priority: op.priority ?? 0,
      finish_reason: null,
      submitted_in: index,
      parent_seq_id: null,
      cumulative_logprob: 0,
      cpu_block_table: [],
      rank: null,
      score: null,
      chosen: [],
      forgotten: [],
      pinned: [],
    });
    queue(state, op.queue_position, op.seq_id);
  },

  admit(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    remove(state.waiting, op.seq_id);
    state.running.push(op.seq_id);
    sequence.status = "running";
    const computed = op.num_cached_tokens + (op.num_swapped_tokens ?? 0) + (op.num_external_tokens ?? 0);
    for (const count of [op.num_cached_tokens, computed]) expectComputed(sequence, count);
    sequence.num_cached_tokens = op.num_cached_tokens;
    sequence.num_computed_tokens = computed;
  },

  lookup(state, op) {
    const preempted = sequenceOf(state, op.seq_id).status === "preempted";
    if (!["hit", "miss", "too_short"].includes(op.verdict) || preempted) return;
    state.recent_lookups.push([op.num_tokens, op.num_hit_tokens]);
    if (state.recent_lookups.length > RECENT_LOOKUPS) state.recent_lookups.shift();
  },

  lookup_external(state, op) {
    sequenceOf(state, op.seq_id); // no effect on the state
  },

  requeue(state, op, _index, _outputs, budget) {
    budget.spend(op.block_ids.length);
    for (const id of op.block_ids.toReversed()) {
      blockOf(state, id);
      const free = queueOf(state, id);
      expect(free.includes(id), `block ${id} is not in the free queue`);
      remove(free, id);
      free.unshift(id);
    }
  },

  allocate(state, op, index, _outputs, budget) {
    const block = blockOf(state, op.block_id);
    const free = queueOf(state, op.block_id);
    expect(free[0] === op.block_id, `block ${op.block_id} is not the head of its free queue`);
    free.shift();
    expect(block.block_hash === null, `block ${op.block_id} still has its hash`);
    block.ref_count = 1;
    block.token_ids = [];
    block.logical = op.logical;
    block.allocated_by = op.seq_id;
    block.allocated_in = index;
    block.num_hits = 0;
    block.last_hit_in = null;
    const sequence = sequenceOf(state, op.seq_id);
    const maySkip =
      sequence.cpu_block_table.length > 0 ||
      op.reason === "load" ||
      op.reason === "receive" ||
      isOfStates(state.block_groups[groupOf(state.block_groups, op.block_id)]);
    const src = setTable(state, sequence, op.logical, op.block_id, maySkip, budget);
    return src === null ? null : { type: "copy", seq_id: op.seq_id, logical: op.logical, src, dst: op.block_id };
  },

  evict(state, op) {
    const block = blockOf(state, op.block_id);
    expect(sameBytes(block.block_hash, op.block_hash), `block ${op.block_id} does not have that hash`);
    block.block_hash = null;
    block.token_ids = [];
  },

  share(state, op, index, _outputs, budget) {
    const block = blockOf(state, op.block_id);
    expect(op.revived === (block.ref_count === 0), `block ${op.block_id} has ${block.ref_count} owners`);
    if (op.revived) remove(queueOf(state, op.block_id), op.block_id);
    block.ref_count += 1;
    block.num_hits += 1;
    block.last_hit_in = index;
    const replaced = setTable(state, sequenceOf(state, op.seq_id), op.logical, op.block_id, true, budget);
    expect(replaced === null, `block ${replaced} is at logical block ${op.logical} already`);
  },

  fork(state, op, index, _outputs, budget) {
    const parent = sequenceOf(state, op.parent_seq_id);
    expect(parent.status === "running", `sequence ${op.parent_seq_id} is ${parent.status}; only a running one forks`);
    expectNew(state, op.seq_id);
    const tables = parent.block_tables.reduce((sum, table) => sum + table.length, 0);
    budget.spend(2 * parent.token_ids.length + tables + parent.forgotten.length);
    const child = copySequence(parent);
    child.seq_id = op.seq_id;
    child.request_id = op.request_id;
    child.submitted_in = index;
    child.parent_seq_id = op.parent_seq_id;
    child.chosen = [];
    state.sequences.set(op.seq_id, child);
    state.running.push(op.seq_id);
    for (const id of heldBy(child)) blockOf(state, id).ref_count += 1;
  },

  copy(state, op, _index, _outputs, budget) {
    const src = blockOf(state, op.src);
    expectEntry(state, op.seq_id, op.dst, op.logical);
    expect(src.ref_count > 1, `block ${op.src} has ${src.ref_count} owners; only shared blocks are copied`);
    budget.spend(UNITS_PER_SLOT * src.token_ids.length);
    src.ref_count -= 1;
    blockOf(state, op.dst).token_ids = src.token_ids.slice();
  },

  cache(state, op) {
    blockOf(state, op.block_id).block_hash = op.block_hash;
  },

  adjust(state, op) {
    for (const id of op.seq_ids) sequenceOf(state, id).max_tokens = op.max_tokens;
  },

  free(state, op) {
    const table = ownTable(state, op.seq_id, op.block_id);
    expect(table.at(-1) === op.block_id, `block ${op.block_id} is not the last block of the table`);
    table.pop();
    while (table.at(-1) === RELEASED) table.pop();
    removeOwner(state, op.block_id, op.to ?? null);
  },

  release(state, op) {
    expectEntry(state, op.seq_id, op.block_id, op.logical);
    const table = ownTable(state, op.seq_id, op.block_id);
    expect(op.logical < table.length - 1, `logical block ${op.logical} is the last entry of the table`);
    table[op.logical] = RELEASED;
    removeOwner(state, op.block_id, op.to ?? null);
  },

  preempt(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    remove(state.running, op.seq_id);
    queue(state, op.queue_position, op.seq_id);
    sequence.status = "preempted";
    sequence.num_preemptions += 1;
    if (op.mode === "recompute") sequence.num_computed_tokens = 0;
  },

  ...TOKENS,
  ...OUTSIDE,
  ...OBSERVED,

  finish(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    const lists = [state.running, state.waiting, state.receiving];
    remove(lists.find((ids) => ids.includes(op.seq_id)) ?? state.waiting, op.seq_id);
    state.finished.push(op.seq_id);
    sequence.status = "finished";
    sequence.finish_reason = op.reason;
  },

  rank(state, op) {
    expect(op.seq_ids.length === op.scores.length, `${op.seq_ids.length} sequences have ${op.scores.length} scores`);
    op.seq_ids.forEach((id, rank) => {
      if (state.num_forgotten && !state.sequences.has(id)) return; // the request's first sequence may have been dropped
      sequenceOf(state, id).rank = rank;
      sequenceOf(state, id).score = op.scores[rank];
    });
  },
};
