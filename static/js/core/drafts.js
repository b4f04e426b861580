// Drafts of a record: tokens that a step computed behind a sequence's last one, to be verified. Pure.

/**
 * @typedef {import("./trace.js").StepRecord} StepRecord
 * @typedef {{start: number, token_bytes: Uint8Array[], accepted: number}} Drafts `start`: position of the first
 */

/**
 * The drafts of sequence `seqId` in a record, or null. None is accepted where the record verified none.
 * @param {Pick<StepRecord, "ops" | "batch">} record @param {number} seqId @returns {Drafts | null}
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
 * The position after the last computed token of a record's sequence that is one of its tokens: rejected drafts are not.
 * @param {StepRecord} record @param {import("./trace.js").BatchEntry} entry
 */
export function endOf(record, entry) {
  const drafts = draftsIn(record, entry.seq_id);
  return drafts ? drafts.start + drafts.accepted : entry.start + entry.token_ids.length;
}

/**
 * The last token that a record chose for a sequence, or null: with drafts there may be several.
 * @param {StepRecord} record @param {number} seqId
 */
export const outputIn = (record, seqId) => record.outputs?.findLast((output) => output.seq_id === seqId) ?? null;
