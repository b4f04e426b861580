// Effects of operations on keys and values outside the pool: in the CPU store, in tiers or on another instance. Mirrors
// engine/trace/operation_effects.py: same rules, same errors.

import { loseInstance } from "./instances.js";
import { UNITS_PER_SLOT } from "./limits.js";
import { blockOf, expect, own, sequenceOf } from "./state_access.js";
import { contentAt, expectComputed, expectEntry, freeCpuBlockOf, queue, remove } from "./state_tables.js";

/** @import {Operations} from "./state_operations.js" */

/**
 * @typedef {"swap_out" | "swap_in" | "load" | "store" | "await" | "receive" | "arrive" | "transfer_failed" | "hold"
 *   | "send" | "expire" | "lost" | "drop"} Outside
 */

/** @type {Pick<Operations, Outside>} */
export const OUTSIDE = {
  swap_out(state, op, _index, _outputs, budget) {
    const sequence = sequenceOf(state, op.seq_id);
    const cpuBlock = state.cpu_blocks[op.cpu_block_id];
    expect(cpuBlock !== undefined, `no CPU block ${op.cpu_block_id}`);
    const content = contentAt(state, op, budget);
    expect(cpuBlock.seq_id === null, `CPU block ${op.cpu_block_id} is in use`);
    state.cpu_blocks[op.cpu_block_id] = {
      cpu_block_id: op.cpu_block_id,
      seq_id: op.seq_id,
      logical: op.logical,
      token_ids: content.slice(),
    };
    own(state, sequence, "cpu_block_table").push(op.cpu_block_id);
  },

  swap_in(state, op, _index, _outputs, budget) {
    const sequence = sequenceOf(state, op.seq_id);
    contentAt(state, op, budget);
    const content = state.cpu_blocks[op.cpu_block_id]?.token_ids;
    expect(content !== undefined, `no CPU block ${op.cpu_block_id}`);
    budget.spend(UNITS_PER_SLOT * content.length);
    freeCpuBlockOf(state, sequence, op.cpu_block_id);
    blockOf(state, op.block_id).token_ids = content;
  },

  load(state, op, _index, _outputs, budget) {
    const [sequence, size] = [sequenceOf(state, op.seq_id), state.block_size];
    expectEntry(state, op.seq_id, op.block_id, op.logical);
    const content = sequence.token_ids.slice(op.logical * size, (op.logical + 1) * size);
    expect(content.length === size, `sequence ${op.seq_id} has no full block ${op.logical}`);
    const block = blockOf(state, op.block_id);
    expect(block.token_ids.length === 0, `block ${op.block_id} has content already`);
    budget.spend(UNITS_PER_SLOT * size);
    block.token_ids = content;
  },

  store() {}, // the pool is unchanged

  await(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    remove(state.waiting, op.seq_id);
    state.receiving.push(op.seq_id);
    sequence.status = "receiving";
    expectComputed(sequence, op.num_cached_tokens);
    sequence.num_cached_tokens = sequence.num_computed_tokens = op.num_cached_tokens;
  },

  receive(state, op, _index, _outputs, budget) {
    const [sequence, size] = [sequenceOf(state, op.seq_id), state.block_size];
    expectEntry(state, op.seq_id, op.block_id, op.logical);
    const content = sequence.token_ids.slice(op.logical * size, op.logical * size + op.num_tokens);
    const exists = op.num_tokens >= 1 && op.num_tokens <= size && content.length === op.num_tokens;
    expect(exists, "the sequence has no such tokens");
    const block = blockOf(state, op.block_id);
    expect(block.token_ids.length === 0, `block ${op.block_id} has content already`);
    budget.spend(UNITS_PER_SLOT * op.num_tokens);
    block.token_ids = content;
  },

  arrive(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    remove(state.receiving, op.seq_id);
    queue(state, op.queue_position, op.seq_id);
    sequence.status = "waiting";
    expectComputed(sequence, sequence.num_computed_tokens + op.num_tokens);
    sequence.num_computed_tokens += op.num_tokens;
  },

  transfer_failed(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    remove(state.receiving.includes(op.seq_id) ? state.receiving : state.waiting, op.seq_id);
    queue(state, op.queue_position, op.seq_id);
    sequence.status = "waiting";
    sequence.num_computed_tokens = sequence.num_cached_tokens = 0;
  },

  hold(state, op) {
    const isDone = sequenceOf(state, op.seq_id).status === "finished";
    expect(isDone, `sequence ${op.seq_id} is not finished`);
    state.holding.push(op.seq_id);
  },

  send(state, op) {
    remove(state.holding, op.seq_id);
  },

  expire(state, op) {
    remove(state.holding, op.seq_id);
  },

  lost(state, _op, _index, _outputs, budget, instance) {
    loseInstance(state, instance, budget);
  },

  drop(state, op) {
    freeCpuBlockOf(state, sequenceOf(state, op.seq_id), op.cpu_block_id);
  },
};
