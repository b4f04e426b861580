// Block tables and filled slots during a record: operations are applied to copies, not to the state. Pure.

import { groupOf, heldIn, isOfStates } from "../../core/groups.js";
import { updateTable } from "../../core/history.js";

/** @import {Op} from "../../core/trace.js" */
/** @import {State} from "../../state/store.js" */

/** @typedef {[first: number, end: number]} Slots of a block; `end` is exclusive */

export class Shadow {
  /** @type {Map<number, number[][]>} tables of each sequence, one per block group */
  #tables = new Map();
  /** @type {Map<number, number>} filled slots by block id, if changed by an operation */
  #filled = new Map();

  /** @param {State} state state before the record */
  constructor(state) {
    this.state = state;
  }

  /** Return the blocks that an operation refers to. @param {Op} op @returns {number[]} */
  touched(op) {
    if (op.type === "copy") return [op.src, op.dst];
    if (op.type === "fork") return this.#tablesOf(op.parent_seq_id).flatMap(heldIn);
    if (op.type !== "write") return "block_id" in op ? [op.block_id] : [];
    const size = this.state.block_size;
    return this.#tablesOf(op.seq_id).flatMap((table) =>
      heldIn(table.slice(Math.floor(op.start / size), Math.ceil((op.start + op.num_tokens) / size))),
    );
  }

  /** Return the slots of `block` that an operation fills. @param {Op} op @param {number} block @returns {Slots} */
  slots(op, block) {
    const size = this.state.block_size;
    /** @param {number} n */
    const within = (n) => Math.max(0, Math.min(size, n));
    if (op.type === "copy") return [0, block === op.dst ? this.#count(op.src) : 0];
    if (op.type === "load") return [0, size];
    if (op.type === "receive") return [0, op.num_tokens];
    if (op.type === "swap_in") return [0, this.state.cpu_blocks[op.cpu_block_id].token_ids.length];
    if (op.type !== "write" || isOfStates(this.#groupOf(block))) return [0, 0];
    const first = this.#table(op.seq_id, block).indexOf(block) * size;
    return [within(op.start - first), within(op.start + op.num_tokens - first)];
  }

  /** Apply an operation. @param {Op} op */
  apply(op) {
    if (op.type === "fork")
      this.#tables.set(
        op.seq_id,
        this.#tablesOf(op.parent_seq_id).map((table) => table.slice()),
      );
    else if ("block_id" in op && "seq_id" in op && typeof op.seq_id === "number")
      updateTable(this.#table(op.seq_id, op.block_id), op);
    if (op.type === "allocate") this.#filled.set(op.block_id, 0);
    else if (op.type === "copy") this.#filled.set(op.dst, this.#count(op.src));
  }

  /** Return the tables of sequence `id`, one per block group. @param {number} id */
  #tablesOf(id) {
    const existing = this.#tables.get(id);
    if (existing) return existing;
    const { sequences, block_groups: groups } = this.state;
    const tables = sequences.get(id)?.block_tables.map((table) => table.slice()) ?? groups.map(() => []);
    this.#tables.set(id, tables);
    return tables;
  }

  /** Return the table of sequence `id` for the group of `block`. @param {number} id @param {number} block */
  #table(id, block) {
    return this.#tablesOf(id)[groupOf(this.state.block_groups, block)];
  }

  /** @param {number} block */
  #groupOf(block) {
    const { block_groups: groups } = this.state;
    return groups[groupOf(groups, block)];
  }

  /** @param {number} block */
  #count(block) {
    return this.#filled.get(block) ?? this.state.blocks[block].token_ids.length;
  }
}
