// Scheduler tracks: activity of each sequence in each record, and the budget that each step used. A pure incremental
// fold over the records: appending one takes time proportional to its operations and the unfinished tracks.

import { folding } from "./folds.js";
import { kindOf } from "./operation_kinds.js";
import { lowest } from "./search.js";

/** @import {BatchEntry, Op, StepRecord} from "./trace.js" */

/**
 * @typedef {"waiting" | "receiving" | "prefill" | "preempted" | "decode" | "swapped" | "idle" | "holding"} RunKind
 * `receiving`: waiting for blocks of another instance; `holding`: finished, with its blocks held for another instance
 * @typedef {{kind: RunKind, from: number, to: number, tokens?: number, again?: number}} Run records [from, to] of one
 * kind
 * @typedef {{record: number, at: number, mark: string}} Mark `at`: index of its operation in `ops`
 * @typedef {object} Preemption
 * @property {number} record
 * @property {number} at
 * @property {number} step
 * @property {number} lost
 * @property {number | null} resumed record in which it resumed
 * @property {number | null} resumed_step
 * @property {number} cached
 * @property {number} again recomputed tokens
 * @typedef {"waiting" | "receiving" | "running" | "preempted" | "swapped" | "finished" | "holding"} Status
 * @typedef {object} Track
 * @property {number} seq_id
 * @property {string} request_id
 * @property {number | null} parent
 * @property {number} instance current one
 * @property {number} from
 * @property {number | null} to record in which it finished
 * @property {number | null} left last record in which it has blocks: later than `to` if they were held for another
 * instance
 * @property {Status} status
 * @property {Status} before status before the end
 * @property {Run[]} runs
 * @property {Mark[]} marks ascending
 * @property {Preemption[]} preemptions
 * @typedef {{step: number, kind: StepRecord["kind"], instance: number, prefill: number, decode: number, scheduled:
 *   number, running: number, waiting: number}} Column of a record; running and waiting sequences of its instance
 */

export class Tracks {
  constructor() {
    /** @type {Track[]} */
    this.tracks = [];
    /** @type {Map<number, Track>} */
    this.byId = new Map();
    /** @type {Track[]} */
    this.alive = [];
    /** @type {Column[]} one per record */
    this.columns = [];
    this.most = { tokens: 0, scheduled: 0 };
  }

  get length() {
    return this.columns.length;
  }

  /** Append the next record. @param {StepRecord} record */
  append(record) {
    const index = this.columns.length;
    const entries = new Map((record.batch ?? []).map((entry) => [entry.seq_id, entry]));
    const instance = record.instance ?? 0;
    (record.ops ?? []).forEach((op, at) => this.#operation(op, at, index, record.step, instance));
    /** @type {Column} */
    const column = {
      step: record.step,
      kind: record.kind,
      instance,
      prefill: 0,
      decode: 0,
      scheduled: entries.size,
      running: 0,
      waiting: 0,
    };
    for (const track of this.alive) {
      const entry = entries.get(track.seq_id);
      if (entry) column[entry.phase] += entry.token_ids.length;
      this.#cell(track, entry, index);
      if (track.instance !== instance) continue;
      if (track.status === "running") column.running += 1;
      else if (track.to === null) column.waiting += 1;
    }
    this.alive = this.alive.filter((track) => track.left === null);
    this.columns.push(column);
    this.most.tokens = Math.max(this.most.tokens, column.prefill + column.decode);
    this.most.scheduled = Math.max(this.most.scheduled, column.scheduled);
  }

  /** @param {Op} op @param {number} at @param {number} index @param {number} step @param {number} instance */
  #operation(op, at, index, step, instance) {
    if (op.type === "submit" || op.type === "fork") this.#open(op, index, instance);
    if (op.type === "lost")
      for (const track of this.alive.filter((one) => one.instance === instance)) {
        track.marks.push({ record: index, at, mark: "abort" });
        this.#end(track, index);
      }
    const track = "seq_id" in op ? this.byId.get(Number(op.seq_id)) : undefined;
    if (!track) return;
    const mark = kindOf(op.type).mark?.(op);
    if (mark) track.marks.push({ record: index, at, mark });
    if (op.type === "admit") {
      track.status = "running";
      const preemption = track.preemptions[track.preemptions.length - 1];
      if (op.resumed && preemption && preemption.resumed === null)
        Object.assign(preemption, { resumed: index, resumed_step: step, cached: op.num_cached_tokens });
    } else if (op.type === "preempt") {
      track.status = op.mode === "swap" ? "swapped" : "preempted";
      const lost = op.mode === "swap" ? 0 : op.num_computed_tokens;
      track.preemptions.push({ record: index, at, step, lost, resumed: null, resumed_step: null, cached: 0, again: 0 });
    } else if (op.type === "await") track.status = "receiving";
    else if (op.type === "arrive" || op.type === "transfer_failed") track.status = "waiting";
    else if (op.type === "hold") [track.status, track.left] = ["holding", null];
    else if (op.type === "finish" || op.type === "send" || op.type === "expire") this.#end(track, index);
  }

  /** Close a track. A `hold` reopens it. @param {Track} track @param {number} index */
  #end(track, index) {
    track.before = track.status === "finished" ? track.before : track.status;
    track.status = "finished";
    track.to ??= index;
    track.left = index;
  }

  /**
   * @param {import("./trace.js").Submit & {type: "submit"} | import("./trace.js").Fork & {type: "fork"}} op
   * @param {number} index @param {number} instance
   */
  #open(op, index, instance) {
    /** @type {Track} */
    const track = {
      seq_id: op.seq_id,
      request_id: op.request_id,
      parent: op.type === "fork" ? op.parent_seq_id : null,
      instance,
      from: index,
      to: null,
      left: null,
      status: op.type === "fork" ? "running" : "waiting",
      before: "waiting",
      runs: [],
      marks: [],
      preemptions: [],
    };
    this.tracks.push(track);
    this.byId.set(op.seq_id, track);
    this.alive.push(track);
  }

  /** @param {Track} track @param {BatchEntry | undefined} entry @param {number} index */
  #cell(track, entry, index) {
    if (entry?.phase === "prefill") {
      const again = this.#again(track, entry);
      track.runs.push({ kind: "prefill", from: index, to: index, tokens: entry.token_ids.length, again });
      return;
    }
    const status = track.status === "finished" ? track.before : track.status;
    const kind = entry ? "decode" : status === "running" || status === "finished" ? "idle" : status;
    const last = track.runs[track.runs.length - 1];
    if (last?.kind === kind) last.to = index;
    else track.runs.push({ kind, from: index, to: index });
  }

  /**
   * Return how many tokens of `entry` had already been computed before the last preemption.
   * @param {Track} track
   * @param {BatchEntry} entry
   */
  #again(track, entry) {
    const preemption = track.preemptions[track.preemptions.length - 1];
    if (!preemption || entry.start >= preemption.lost) return 0;
    const again = Math.min(entry.start + entry.token_ids.length, preemption.lost) - entry.start;
    preemption.again += again;
    return again;
  }
}

/** Return the tracks of a log up to its end. */
export const tracksOf = folding(
  () => new Tracks(),
  (tracks, record) => tracks.append(record),
);

/**
 * Tracks to show, in display order; the other fields are those of Tracks.
 * @typedef {Pick<Tracks, "tracks" | "columns" | "most" | "length"> & {pinned: boolean, hidden: number}} ShownTracks
 *   `pinned`: the first track is the chosen one; `hidden`: number of tracks left out
 */

/**
 * Return the tracks with content in records [from, to]. The chosen track comes first, even if it has none.
 * @param {Tracks} tracks
 * @param {number} from
 * @param {number} to
 * @param {number | null} chosen
 * @returns {ShownTracks}
 */
export function tracksIn({ tracks, byId, columns, most, length }, from, to, chosen) {
  const pinned = chosen === null ? undefined : byId.get(chosen);
  const alive = tracks.filter((track) => track !== pinned && track.from <= to && (track.left ?? to) >= from);
  alive.sort((a, b) => a.instance - b.instance); // grouped by instance, in stable order
  const shown = pinned ? [pinned, ...alive] : alive;
  return { tracks: shown, columns, most, length, pinned: Boolean(pinned), hidden: tracks.length - shown.length };
}

/**
 * Return the index in `track.runs` of the run at record `index`, or of the next one after it.
 * @param {Track} track
 * @param {number} index
 */
export const runFrom = ({ runs }, index) => lowest(runs.length, (i) => runs[i].to >= index);

/**
 * Return the run at record `index`, or null before the sequence's arrival and after its end.
 * @param {Track} track
 * @param {number} index
 */
export function cellAt(track, index) {
  const run = track.runs[runFrom(track, index)];
  return run && run.from <= index ? run : null;
}

/** Return the track's marks in records [from, to]. @param {Track} track @param {number} from @param {number} to */
export function marksIn({ marks }, from, to) {
  const first = lowest(marks.length, (i) => marks[i].record >= from);
  return marks.slice(
    first,
    lowest(marks.length, (i) => marks[i].record > to),
  );
}
