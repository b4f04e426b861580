// Transfers between instances: producer, consumer, bytes, time and link of each. An incremental fold over the records.
// Pure.

import { folding } from "./folds.js";

/** @import {StepRecord} from "./trace.js" */

/**
 * @typedef {object} Move
 * @property {string} transfer
 * @property {number | null} from the sequence that computed it; null: not reported
 * @property {number | null} to the sequence that continues it
 * @property {number | null} lease seconds for which its blocks are held
 * @property {number | null} heldIn record of the `hold`
 * @property {number | null} receivedIn record of the `arrive`
 * @property {number} tokens received
 * @property {number} bytes
 * @property {number} seconds
 * @property {string} link name of the link
 * @typedef {{record: number, bytes: number, count: number}} Sum of the transfers up to a record
 */

class Moves {
  length = 0;
  /** @type {Map<string, Move>} by transfer */
  byName = new Map();
  /** @type {Map<number, Move>} by sequence: its transfer */
  bySeq = new Map();
  /** @type {Sum[]} ascending */
  sums = [];

  /** @param {StepRecord} record */
  append({ ops = [] }) {
    for (const op of ops) {
      if (op.type === "submit" && op.transfer) this.#join(op.transfer, op.seq_id, op.kv_role === "kv_producer");
      else if (op.type === "hold")
        Object.assign(this.#join(op.transfer, op.seq_id, true), { lease: op.lease, heldIn: this.length });
      else if (op.type === "arrive") {
        const move = this.#join(op.transfer, op.seq_id, false);
        Object.assign(move, { receivedIn: this.length, tokens: op.num_tokens, bytes: op.num_bytes, link: op.link });
        move.seconds = op.ended - op.began;
        const { bytes, count } = this.sums[this.sums.length - 1] ?? { bytes: 0, count: 0 };
        this.sums.push({ record: this.length, bytes: bytes + op.num_bytes, count: count + 1 });
      }
    }
    this.length += 1;
  }

  /** @param {string} transfer @param {number} seq @param {boolean} isProducer @returns {Move} */
  #join(transfer, seq, isProducer) {
    let move = this.byName.get(transfer);
    if (!move) {
      const unreceived = { receivedIn: null, tokens: 0, bytes: 0, seconds: 0, link: "" };
      move = { transfer, from: null, to: null, lease: null, heldIn: null, ...unreceived };
      this.byName.set(transfer, move);
    }
    if (isProducer) move.from = seq;
    else move.to = seq;
    this.bySeq.set(seq, move);
    return move;
  }
}

/** Return the transfers of a log up to its end. */
export const movesOf = folding(
  () => new Moves(),
  (moves, record) => moves.append(record),
);

/**
 * Return the total received up to and including record `index`.
 * @param {{records: StepRecord[]}} log
 * @param {number} index
 * @returns {Sum}
 */
export const movedUpTo = (log, index) =>
  movesOf(log).sums.findLast(({ record }) => record <= index) ?? { record: -1, bytes: 0, count: 0 };
