// Origin of each slot's content: an incremental fold over the operations of a run.

import { hashKey } from "./cached_contents.js";
import { groupOf } from "./groups.js";
import { sameBytes } from "./state_tables.js";

/** @import {State} from "./state_access.js" */
/** @import {Op} from "./trace.js" */

/**
 * @typedef {object} Origin computation of a slot's content; if another run computed it, the sequence it was `loaded`
 * for
 * @property {number} record
 * @property {number} seq_id
 * @property {number} position
 * @property {Loaded} [loaded] if it came from outside the pool
 * @typedef {{record: number, medium: "cpu" | "disk" | "instance", here: boolean, from?: number}} Loaded time and
 * source; `here`: this log contains its computation; `from`: its block in another instance of this log
 * @typedef {Origin & {at: number}} Arrival `at`: the record in which the slot got it
 */

/** Return whether another run computed it, so that no record here has its arrays. @param {Origin | null} origin */
export const isElsewhere = (origin) => origin?.loaded?.here === false;

export class SlotOrigins {
  /** @type {Map<number, Arrival[]>} by slot, ascending in `at` */
  #history = new Map();
  /** @type {Map<number, (Arrival | undefined)[]>} by CPU block, for each of its slots */
  #swapped = new Map();
  /** @type {Map<string, Arrival[]>} by key of a content stored outside the pool, for each slot */
  #stored = new Map();

  /** @param {import("./groups.js").Group[]} groups */
  constructor(groups) {
    this.groups = groups;
  }

  /**
   * Return the origin of the content of `slot` after record `index`, or null.
   * @param {number} slot
   * @param {number} index
   */
  of(slot, index) {
    return this.#history.get(slot)?.findLast((arrival) => arrival.at <= index) ?? null;
  }

  /**
   * Process an operation of record `index` that was applied to `state`.
   * @param {Op} op
   * @param {State} state
   * @param {number} index
   */
  process(op, state, index) {
    const size = state.block_size;
    const last = (/** @type {number} */ block) =>
      state.blocks[block].token_ids.map((_, slot) => this.#last(block * size + slot));
    if (op.type === "write") {
      for (const table of (state.sequences.get(op.seq_id)?.block_tables ?? []).filter(({ length }) => length > 0))
        for (let position = op.start; position < op.start + op.num_tokens; position++) {
          const slot = table[Math.floor(position / size)] * size + (position % size);
          this.#add(slot, { at: index, record: index, seq_id: op.seq_id, position });
        }
    } else if (op.type === "copy") this.#arrive(op.dst * size, last(op.src), index);
    else if (op.type === "swap_out") this.#swapped.set(op.cpu_block_id, last(op.block_id));
    else if (op.type === "swap_in") this.#arrive(op.block_id * size, this.#swapped.get(op.cpu_block_id) ?? [], index);
    else if (op.type === "receive") this.#receive(op, size, index);
    else if (op.type === "load") {
      const stored = this.#stored.get(this.#keyOf(op));
      const loaded = { record: index, medium: op.medium, here: stored !== undefined };
      for (let slot = 0; slot < size; slot++) {
        const unknown = { record: index, seq_id: op.seq_id, position: op.logical * size + slot };
        this.#add(op.block_id * size + slot, { ...(stored?.[slot] ?? unknown), at: index, loaded });
      }
    }
  }

  /**
   * Process a block received from another instance. If the log contains that instance, the origin is that of its block.
   * @param {import("./trace.js").Receive} op
   * @param {number} size slots of a block
   * @param {number} index
   */
  #receive({ seq_id, logical, block_id, from_block_id: from, num_tokens }, size, index) {
    const isInLog =
      this.groups[groupOf(this.groups, from)]?.instance !== this.groups[groupOf(this.groups, block_id)].instance;
    for (let slot = 0; slot < num_tokens; slot++) {
      const source = isInLog ? this.#last(from * size + slot) : undefined;
      const loaded = { record: index, medium: /** @type {const} */ ("instance"), here: source !== undefined };
      this.#add(block_id * size + slot, {
        ...(source ?? { record: index, seq_id, position: logical * size + slot }),
        at: index,
        loaded: source ? { ...loaded, from } : loaded,
      });
    }
  }

  /**
   * Process the stores of an applied record, while `state` still has their origins.
   * @param {import("./trace.js").StepRecord} record
   * @param {State} state
   */
  processStores({ ops = [] }, { blocks, block_size: size }) {
    for (const op of ops) {
      if (op.type !== "store" || !sameBytes(blocks[op.block_id]?.block_hash ?? null, op.block_hash)) continue;
      const arrivals = Array.from({ length: size }, (_, slot) => this.#last(op.block_id * size + slot));
      const known = arrivals.filter((arrival) => arrival !== undefined && arrival.loaded?.here !== false);
      if (known.length === size) this.#stored.set(this.#keyOf(op), /** @type {Arrival[]} */ (known));
    }
  }

  /**
   * Return the key of stored content: its hash and group of layers.
   * @param {{block_id: number, block_hash: Uint8Array}} op
   */
  #keyOf(op) {
    return `${groupOf(this.groups, op.block_id)}/${hashKey(op.block_hash)}`;
  }

  /** @param {number} slot */
  #last(slot) {
    return this.#history.get(slot)?.at(-1);
  }

  /** @param {number} first slot of a block @param {(Arrival | undefined)[]} arrivals @param {number} at */
  #arrive(first, arrivals, at) {
    arrivals.forEach((arrival, slot) => arrival && this.#add(first + slot, { ...arrival, at }));
  }

  /** @param {number} slot @param {Arrival} arrival */
  #add(slot, arrival) {
    const history = this.#history.get(slot);
    if (history) history.push(arrival);
    else this.#history.set(slot, [arrival]);
  }
}
