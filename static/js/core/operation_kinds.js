// What a type of operation is to those that show it, beside its words: which events, marks and tones it has. A type
// that is not here is told all the same; it has no sign of its own. Pure.

/**
 * @typedef {import("./trace.js").Op} Op
 * @typedef {object} Kind
 * @property {string} [event] the kind of event that it is on the timeline (core/events.js)
 * @property {(op: any) => string | null} [mark] its mark on the scheduler's lane of its sequence (core/lanes.js); `op`
 *   is of the type
 *   that the entry is for, which a table by name cannot say
 * @property {"held" | "lost" | "done"} [tone] how its line in the list of decisions is set off
 * @property {boolean} [routine] it follows from what was decided
 * @property {boolean} [cause] what faults hide behind: the museum tells it even where both runs did it
 * @property {boolean} [turn] a turn in the life of its sequence
 * @property {"step" | "between"} [told] `step`: once for all sequences of a step; `between`: others may come between
 *   two of them
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
  allocate: { told: "between" },
  evict: { event: "evict", tone: "lost", told: "between" },
  share: { event: "hit" },
  fork: { event: "fork", mark: () => "fork", turn: true, cause: true },
  copy: { event: "copy", cause: true },
  cache: { routine: true },
  write: { routine: true, told: "step" },
  sample: { routine: true, told: "step" },
  draft: { event: "draft", cause: true },
  verify: { cause: true },
  take_back: { tone: "lost", cause: true },
  swap_out: { event: "swap" },
  swap_in: { event: "swap" },
  load: { event: "load", told: "between" },
  store: { told: "between" },
  await: { tone: "held", turn: true },
  receive: { event: "load", told: "between" },
  arrive: { mark: () => "arrive", turn: true },
  transfer_failed: { tone: "lost", turn: true, cause: true },
  hold: { turn: true },
  send: { turn: true },
  expire: { tone: "lost", turn: true },
  lost: { tone: "lost", cause: true },
  stored: { told: "between" },
  removed: { event: "evict", tone: "lost", told: "between" },
  known_since: { tone: "lost", turn: true, cause: true },
  forget: { cause: true, told: "step" },
  keep: { turn: true, cause: true },
  preempt: { event: "preempt", mark: () => "preempt", tone: "lost", turn: true, cause: true },
  finish: {
    event: "finish",
    mark: (op) => (op.reason === "stop" || op.reason === "length" ? "finish" : "abort"),
    tone: "done",
    turn: true,
  },
};

/** What is known of a type of operation. @param {string} type @returns {Kind} */
export const kindOf = (type) => OPERATION_KINDS[type] ?? {};

/**
 * Whether an operation lets a block go: it says where the block goes `to`, null where others hold it.
 * @param {Op} op @returns {op is Extract<Op, {to: "front" | "back" | null}>}
 */
export const givesBack = (op) => "to" in op;

/** The sequence that an operation is about; null: none. @param {Op} op */
export const sequenceOf = (op) => ("seq_id" in op ? (op.seq_id ?? null) : null);
