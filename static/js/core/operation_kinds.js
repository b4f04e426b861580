// Display properties of operation types, except their texts: events, marks and tones. Unknown types are shown
// without these. Pure.

/** @import {Op} from "./trace.js" */

/**
 * @typedef {object} Kind
 * @property {string} [event] kind of its event on the timeline (core/events.js)
 * @property {(op: any) => string | null} [mark] its mark on the track of its sequence (core/tracks.js); `op` has the
 * type of the entry, which a table by name cannot express
 * @property {"held" | "lost" | "done"} [tone] emphasis of its line in the list of decisions
 * @property {boolean} [routine] whether it only follows from earlier decisions
 * @property {boolean} [cause] whether it may reveal a fault: the museum shows it even if both runs have it
 * @property {boolean} [turn] whether it changes the status of its sequence
 * @property {"step" | "between"} [merge] `step`: merged over all sequences of a step; `between`: merged across other
 * operations
 */

/** @type {Record<string, Kind>} by `type` */
export const OPERATION_KINDS = {
  submit: { event: "submit", mark: () => "submit", turn: true },
  lookup: { mark: (op) => (op.num_hit_tokens > 0 ? "hit" : null), cause: true },
  lookup_external: { mark: (op) => (op.verdict === "load" ? "load" : null), cause: true },
  admit: { turn: true },
  defer: { mark: () => "defer", tone: "held" },
  reserve: { cause: true },
  requeue: { routine: true },
  allocate: { merge: "between" },
  evict: { event: "evict", tone: "lost", merge: "between" },
  share: { event: "hit" },
  fork: { event: "fork", mark: () => "fork", turn: true, cause: true },
  copy: { event: "copy", cause: true },
  cache: { routine: true },
  write: { routine: true, merge: "step" },
  sample: { routine: true, merge: "step" },
  draft: { event: "draft", cause: true },
  verify: { cause: true },
  take_back: { tone: "lost", cause: true },
  swap_out: { event: "swap" },
  swap_in: { event: "swap" },
  load: { event: "load", merge: "between" },
  store: { merge: "between" },
  await: { tone: "held", turn: true },
  receive: { event: "load", merge: "between" },
  arrive: { mark: () => "arrive", turn: true },
  transfer_failed: { tone: "lost", turn: true, cause: true },
  hold: { turn: true },
  send: { turn: true },
  expire: { tone: "lost", turn: true },
  lost: { tone: "lost", cause: true },
  stored: { merge: "between" },
  removed: { event: "evict", tone: "lost", merge: "between" },
  known_since: { tone: "lost", turn: true, cause: true },
  forget: { cause: true, merge: "step" },
  keep: { turn: true, cause: true },
  preempt: { event: "preempt", mark: () => "preempt", tone: "lost", turn: true, cause: true },
  finish: {
    event: "finish",
    mark: (op) => (op.reason === "stop" || op.reason === "length" ? "finish" : "abort"),
    tone: "done",
    turn: true,
  },
};

/** Return the properties of an operation type. @param {string} type @returns {Kind} */
export const kindOf = (type) => OPERATION_KINDS[type] ?? {};

/**
 * Return whether an operation frees a block: its `to` is the end of the free queue, or null if other sequences hold the
 * block.
 * @param {Op} op
 * @returns {op is Extract<Op, {to: "front" | "back" | null}>}
 */
export const freesBlock = (op) => "to" in op;

/** Return the sequence that an operation concerns; null: none. @param {Op} op */
export const sequenceOf = (op) => ("seq_id" in op ? (op.seq_id ?? null) : null);
