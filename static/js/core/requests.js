// Per-sequence figures for analysis, the slowest steps, and the most preempted sequences. engine/trace/explain.py
// computes the same figures; a test compares them. Pure.

import { latestTime, stepSeconds, timesOf } from "./metrics.js";
import { RequestParts, requestOf } from "./request_parts.js";
import { phaseSeconds } from "./request_phases.js";
import { allTimelines, lostTokens, timelineOf } from "./timeline.js";
import { tracksOf } from "./tracks.js";

/** @import {StepRecord} from "./trace.js" */

/** A step is slow if it takes more than this multiple of the run's median step. */
const SLOW = 2;
/** A prefix counts as recently evicted up to this many seconds before the lookup. */
export const MINUTE = 60;
const MAX_LISTED = 5; // slowest steps, and most preempted sequences

/**
 * @typedef {import("./trace.js").Finish["reason"] | "waiting" | "receiving" | "running" | "preempted"} End
 * @typedef {object} Row of one sequence; for a request on several instances, of all its parts
 * @property {number} seq the last part
 * @property {number[]} parts sequences of the request
 * @property {string} request
 * @property {string | null} client null: not in the log
 * @property {number} lane seconds of waiting for the client's turn before the submission
 * @property {number} prompt number of tokens
 * @property {number} output number of tokens, including those that a fork has from its parent
 * @property {number} hit tokens found at its first admission, in the pool or outside
 * @property {number | null} queue seconds, see `timesOf`
 * @property {number | null} ttft seconds
 * @property {number | null} tpot seconds
 * @property {number} prefill seconds of steps that computed its prompt, or recomputed after a preemption
 * @property {number} decode seconds of steps that each computed one of its tokens
 * @property {number} moving seconds of waiting for blocks computed by another instance
 * @property {number} moved bytes of these blocks
 * @property {number} away seconds between its preemptions and readmissions
 * @property {number} begin submission, seconds of engine time
 * @property {number} until its end, or the log's
 * @property {number | null} missed seconds, on the records' clock, from the eviction of the block at which its hit
 * ended to its lookup; null: not evicted, or longer ago than the engine remembers
 * @property {number} preempted number of preemptions
 * @property {number} lost tokens recomputed after preemptions
 * @property {number} slow number of slow steps that computed it
 * @property {End} end finish reason, else its status
 * @typedef {{record: number, step: number, seconds: number, prefill: number, decode: number, seqs: number}} SlowStep
 * @typedef {{records: StepRecord[], header?: import("./trace.js").Header}} Log
 * @typedef {Pick<Row, "seq" | "parts" | "request" | "client" | "lane" | "prompt" | "hit" | "missed" | "moved"
 *   | "preempted" | "end">} Counted
 */

/** Counts derived from operations alone; grows with the log. */
class Counts {
  length = 0;
  /** @type {Map<number, Counted>} by sequence; parts of a request share an entry */
  bySeq = new Map();
  /** @type {WeakSet<Counted>} admitted at least once */
  #admitted = new WeakSet();
  /** @type {number[]} records that are steps */
  steps = [];
  /** @type {number[]} duration of each step */
  seconds = [];
  /** @type {number[]} end of each record, in seconds since the trace began */
  #at = [];

  /** @param {Log} log */
  constructor(log) {
    this.log = log;
    this.parts = new RequestParts(log);
  }

  /** @param {StepRecord} record */
  append(record) {
    this.#at.push(record.timing.at);
    for (const op of record.ops ?? []) this.#read(op, record.instance ?? 0);
    if (record.kind === "step") {
      this.steps.push(this.length);
      this.seconds.push(stepSeconds(record));
    }
    this.length += 1;
  }

  /**
   * Return the seconds since the eviction of the block at which a lookup ended; null if the log shows no eviction.
   * @param {import("./trace.js").Lookup} op
   */
  #sinceEviction({ reason, evicted_in: evicted }) {
    const evictedAt = reason === "evicted" && evicted !== null && evicted !== undefined ? this.#at[evicted] : undefined;
    return evictedAt === undefined ? null : Math.max(0, this.#at[this.#at.length - 1] - evictedAt);
  }

  /** @param {import("./trace.js").Op} op @param {number} instance */
  #read(op, instance) {
    const { before, lost } = this.parts.read(op, instance);
    for (const seq of lost) this.#setEnd(seq, "abort");
    if (op.type === "submit") this.#submit(op, before);
    else if (op.type === "fork") {
      const parent = this.bySeq.get(op.parent_seq_id);
      const child = parent && { ...parent, seq: op.seq_id, parts: [op.seq_id], preempted: 0 };
      if (child) this.bySeq.set(op.seq_id, child);
      if (child && this.#admitted.has(parent)) this.#admitted.add(child);
    }
    const row = "seq_id" in op ? this.bySeq.get(Number(op.seq_id)) : undefined;
    if (!row) return;
    if (op.type === "lookup" && !this.#admitted.has(row)) row.missed = this.#sinceEviction(op);
    else if (op.type === "await") row.end = "receiving";
    else if (op.type === "arrive") {
      row.end = "waiting";
      row.moved += op.num_bytes;
    } else if (op.type === "transfer_failed") row.end = "waiting";
    else if (op.type === "admit") {
      if (!this.#admitted.has(row)) row.hit = op.num_cached_tokens + (op.num_external_tokens ?? 0);
      this.#admitted.add(row);
      row.end = "running";
    } else if (op.type === "preempt") {
      row.preempted += 1;
      row.end = "preempted";
    } else if (op.type === "finish") this.#setEnd(op.seq_id, op.reason);
  }

  /** @param {number} seq @param {End} end */
  #setEnd(seq, end) {
    const row = this.bySeq.get(seq);
    if (row?.seq === seq) row.end = end;
  }

  /** @param {import("./trace.js").Submit} op @param {number | null} before the part that it continues */
  #submit(op, before) {
    const known = before === null ? undefined : this.bySeq.get(before);
    if (known) {
      known.parts.push(op.seq_id);
      this.bySeq.set(op.seq_id, known);
      known.seq = op.seq_id;
      known.end = "waiting";
      return;
    }
    const { prompt_token_ids: prompt, client = null, waited: lane = 0 } = op;
    const request = requestOf(this.log, op);
    const common = { request, client, lane, prompt: prompt.length, hit: 0, missed: null, moved: 0, preempted: 0 };
    this.bySeq.set(op.seq_id, { seq: op.seq_id, parts: [op.seq_id], ...common, end: "waiting" });
  }
}

/**
 * `seconds`: of all steps; for several instances, from the first record to the last.
 * @typedef {{
 *   counts: Counts, length: number, rows: Row[], slowest: SlowStep[], numSlow: number, median: number, seconds: number
 * }} Figures
 */
/** @type {WeakMap<Log, Figures>} */
const known = new WeakMap();

const REBUILD_GROWTH = 1.1; // of an arriving log since its figures were built

/**
 * Return the figures of a log up to its end. They are rebuilt when the log has grown; while a long one is `arriving`,
 * when it has grown by a tenth.
 * @param {Log} log
 * @param {boolean} [arriving]
 * @returns {Readonly<Pick<Figures, "rows" | "slowest" | "numSlow" | "median" | "seconds">>}
 */
export function requestFigures(log, arriving = false) {
  let found = known.get(log);
  if (found && found.length === log.records.length) return found;
  if (found && arriving && log.records.length < REBUILD_GROWTH * found.length) return found;
  const counts = found?.counts ?? new Counts(log);
  while (counts.length < log.records.length) counts.append(log.records[counts.length]);
  const { steps, seconds } = counts;
  const median = medianOf(seconds);
  const slow = steps.filter((_, i) => seconds[i] > SLOW * median);
  const slowSteps = new Map();
  for (const record of slow)
    for (const { seq_id: seq } of log.records[record].batch ?? []) slowSteps.set(seq, (slowSteps.get(seq) ?? 0) + 1);
  const last = log.records.length - 1;
  found = {
    counts,
    length: counts.length,
    rows: allTimelines(log).flatMap((timeline) => {
      const row = counts.bySeq.get(timeline.seq);
      if (row?.seq !== timeline.seq) return []; // an earlier part of the request
      const { queue, ttft, tpot, num_output_tokens: output } = timesOf(log, timeline.seq, last);
      const phases = phaseSeconds(log, tracksOfParts(log, row.parts));
      const { prefill, decode, receiving: moving, preempted: away, begin, until } = phases;
      const sum = (/** @type {(seq: number) => number} */ of) => row.parts.reduce((total, seq) => total + of(seq), 0);
      const lost = sum((seq) => lostTokens(timelineOf(log, seq)));
      const slow = sum((seq) => slowSteps.get(seq) ?? 0);
      const times = { queue, ttft, tpot, prefill, moving, decode, away, begin, until };
      return [{ ...row, parts: row.parts.slice(), output, ...times, lost, slow }];
    }),
    slowest: largest(seconds).map((i) => slowStep(log.records[steps[i]], seconds[i])),
    numSlow: slow.length,
    median,
    seconds: counts.parts.isShared ? latestTime(log) : seconds.reduce((sum, one) => sum + one, 0),
  };
  known.set(log, found);
  return found;
}

/** Return the tracks of a request's parts, in order. @param {Log} log @param {readonly number[]} parts */
export const tracksOfParts = (log, parts) => parts.flatMap((seq) => tracksOf(log).byId.get(seq) ?? []);

/** @param {StepRecord} record @param {number} seconds @returns {SlowStep} */
function slowStep({ index, step, batch = [] }, seconds) {
  const found = { record: index, step, seconds, prefill: 0, decode: 0, seqs: batch.length };
  for (const entry of batch) found[entry.phase] += entry.token_ids.length;
  return found;
}

/** @param {number[]} values */
function medianOf(values) {
  const sorted = Float64Array.from(values).sort(); // sorts numbers, many times faster than with a comparator
  const middle = sorted.length >> 1;
  if (!sorted.length) return 0;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * Return the indices of the few largest values, descending; the earlier of equal ones first.
 * @param {number[]} values
 */
function largest(values) {
  /** @type {number[]} */
  const found = [];
  values.forEach((value, i) => {
    if (found.length === MAX_LISTED && value <= values[found[MAX_LISTED - 1]]) return;
    const place = found.findIndex((other) => value > values[other]);
    found.splice(place < 0 ? found.length : place, 0, i);
    if (found.length > MAX_LISTED) found.pop();
  });
  return found;
}

/**
 * Return the sequences with the most preemptions, then those with the most recomputed tokens.
 * @param {readonly Row[]} rows
 */
export const mostPreempted = (rows) =>
  rows
    .filter((row) => row.preempted > 0)
    .sort((a, b) => b.preempted - a.preempted || b.lost - a.lost || a.seq - b.seq)
    .slice(0, MAX_LISTED);

/** @typedef {Pick<Row, "seq" | "request" | "client" | "preempted" | "missed">} Findable fields in logs of any length */

/**
 * Row filters, by name.
 * @satisfies {Record<string, (row: Findable) => boolean>}
 */
export const ONLY = {
  preempted: (/** @type {Findable} */ row) => row.preempted > 1,
  missed: (/** @type {Findable} */ row) => row.missed !== null && row.missed <= MINUTE,
};

/** @typedef {keyof typeof ONLY} Only */
/**
 * Column of text or numbers; unknown values are null.
 * @template R
 * @typedef {{[K in keyof R]: R[K] extends string | number | null ? K : never}[keyof R]} Sorting
 */

/**
 * Return the rows whose request name contains `text` (a number also matches the sequence with that number), ordered by
 * a column, ascending or `down`; unknown values come last. `client` and `only` filter the rows if given.
 * @template {Findable} R
 * @param {readonly R[]} rows
 * @param {string} text
 * @param {Sorting<R>} column
 * @param {boolean} down
 * @param {{only?: Only | null, client?: string | null}} [more]
 */
export function foundRows(rows, text, column, down, { only = null, client = null } = {}) {
  const query = text.trim().toLowerCase();
  const found = rows.filter(
    (row) =>
      (row.request.toLowerCase().includes(query) || String(row.seq) === query) &&
      (client === null || row.client === client) &&
      (only === null || ONLY[only](row)),
  );
  return found.sort((a, b) => {
    const [one, other] = /** @type {(string | number | null)[]} */ ([a[column], b[column]]);
    if (one === null || other === null) return Number(one === null) - Number(other === null) || a.seq - b.seq;
    return (down ? -1 : 1) * compared(one, other) || a.seq - b.seq;
  });
}

const names = new Intl.Collator("en", { numeric: true }); // r9 before r10

/** @param {string | number} a @param {string | number} b */
const compared = (a, b) =>
  typeof a === "number" && typeof b === "number" ? a - b : names.compare(String(a), String(b));
