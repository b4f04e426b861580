// Draft tokens of a record: speculative tokens computed after a sequence's last one, to be verified. Pure.

import { folding } from "./folds.js";

/** @import {StepRecord} from "./trace.js" */

/** @typedef {{start: number, token_bytes: Uint8Array[], accepted: number}} Drafts `start`: position of the first */

/**
 * Return the drafts of sequence `seqId` in a record, or null. `accepted` is 0 if the record verified none.
 * @param {Pick<StepRecord, "ops" | "batch">} record
 * @param {number} seqId
 * @returns {Drafts | null}
 */
export function draftsIn({ ops = [], batch = [] }, seqId) {
  const draft = ops.find((op) => op.type === "draft" && op.seq_id === seqId);
  const entry = batch.find((one) => one.seq_id === seqId);
  if (draft?.type !== "draft" || !entry) return null;
  const verified = ops.find((op) => op.type === "verify" && op.seq_id === seqId);
  const accepted = verified?.type === "verify" ? verified.num_accepted : 0;
  return { start: entry.start + 1, token_bytes: draft.token_bytes, accepted };
}

/**
 * Return the position after the last valid token that a record computed for a sequence, excluding rejected drafts.
 * @param {StepRecord} record
 * @param {import("./trace.js").BatchEntry} entry
 */
export function endOf(record, entry) {
  const drafts = draftsIn(record, entry.seq_id);
  return drafts ? drafts.start + drafts.accepted : entry.start + entry.token_ids.length;
}

/**
 * Return the last token that a record chose for a sequence, or null. With drafts there may be several.
 * @param {StepRecord} record
 * @param {number} seqId
 */
export const outputIn = (record, seqId) => record.outputs?.findLast((output) => output.seq_id === seqId) ?? null;

/** @typedef {{length: number, records: StepRecord[]}} Log */
/** @typedef {{record: number, drafted: number, accepted: number}} Verified */

/** Return the verifications of each sequence. */
const verifiedIn = folding(
  /** @type {(log: Log) => Map<number, Verified[]>} */ (() => new Map()),
  (verified, { ops = [] }, record) => {
    for (const op of ops) {
      if (op.type !== "verify") continue;
      const one = { record, drafted: op.num_drafted, accepted: op.num_accepted };
      const known = verified.get(op.seq_id);
      if (known) known.push(one);
      else verified.set(op.seq_id, [one]);
    }
  },
);

/**
 * Return the number of drafted and accepted tokens of `seqId` up to record `index`, and of steps that verified them.
 * @param {Log} log
 * @param {number} seqId
 * @param {number} index
 */
export function draftTotals(log, seqId, index) {
  const seen = (verifiedIn(log).get(seqId) ?? []).filter(({ record }) => record <= index);
  const sum = (/** @type {"drafted" | "accepted"} */ name) => seen.reduce((total, one) => total + one[name], 0);
  return { drafted: sum("drafted"), accepted: sum("accepted"), steps: seen.length };
}
