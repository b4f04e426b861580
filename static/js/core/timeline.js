// Timeline of each sequence with reasons: submission, lookup, waits, admission, preemption and its cost, end. An
// incremental fold over the records; mirrors engine/trace/explain.py. Pure.

import { folding } from "./folds.js";

/** @import {Defer, Op, StepRecord} from "./trace.js" */

/**
 * @typedef {object} Wait a sequence's stay in the waiting queue, until its admission or end
 * @property {number} since record
 * @property {number} steps of its instance during the wait
 * @property {number} behind steps in which the engine did not consider it
 * @property {Map<Defer["reason"], number>} deferred steps in which it could not be admitted, by reason
 * @property {Defer | null} last
 * @typedef {object} TimelineEvent event in the life of a sequence
 * @property {number} record
 * @property {number} step
 * @property {number} at index of its operation in the record's `ops`
 * @property {Wait | null} wait before an admission or an end
 * @property {number} again for an admission after a preemption: tokens to recompute
 * @typedef {{seq: number, request_id: string, events: TimelineEvent[], waiting: Wait | null}} Timeline `waiting`: at
 * the log's end
 */

class Timelines {
  length = 0;
  /** @type {Map<number, Timeline>} by sequence, in the order of arrival */
  bySeq = new Map();
  /** @type {Map<number, number>} by instance: steps read so far */
  #steps = new Map();
  /** @type {Map<number, number>} by sequence: its instance */
  #instances = new Map();
  /** @type {Set<number>} sequences */
  #ended = new Set();
  /** @type {Map<number, number>} by waiting sequence: steps of its instance before the wait */
  #waitsFrom = new Map();
  /** @type {Map<number, number>} by sequence: tokens computed before its preemption */
  #lost = new Map();

  /** @param {StepRecord} record */
  append(record) {
    (record.ops ?? []).forEach((op, at) => this.#read(op, at, record));
    const instance = record.instance ?? 0;
    if (record.kind === "step") this.#steps.set(instance, this.#stepsOf(instance) + 1);
    this.length += 1;
  }

  /** @param {number} instance */
  #stepsOf(instance) {
    return this.#steps.get(instance) ?? 0;
  }

  /** @param {Op} op @param {number} at @param {StepRecord} record */
  #read(op, at, record) {
    switch (op.type) {
      case "submit":
      case "fork":
        this.#instances.set(op.seq_id, record.instance ?? 0);
        this.bySeq.set(op.seq_id, { seq: op.seq_id, request_id: op.request_id, events: [], waiting: null });
        this.#add(op.seq_id, at, record);
        if (op.type === "submit") this.#beginWaiting(op.seq_id, record);
        break;
      case "lookup":
      case "lookup_external":
        this.#add(op.seq_id, at, record);
        break;
      case "finish":
        this.#ended.add(op.seq_id);
        this.#add(op.seq_id, at, record, this.#endWaiting(op.seq_id));
        break;
      case "await":
        this.#add(op.seq_id, at, record, this.#endWaiting(op.seq_id));
        break;
      case "arrive":
      case "transfer_failed":
        this.#add(op.seq_id, at, record);
        this.#beginWaiting(op.seq_id, record);
        break;
      case "hold":
      case "send":
      case "expire":
        this.#add(op.seq_id, at, record);
        break;
      case "lost":
        for (const [seq, instance] of this.#instances)
          if (instance === (record.instance ?? 0) && !this.#ended.has(seq)) {
            this.#ended.add(seq);
            this.#add(seq, at, record, this.#endWaiting(seq));
          }
        break;
      case "adjust":
        for (const seq of op.seq_ids) this.#add(seq, at, record);
        break;
      case "admit": {
        const available = op.num_cached_tokens + (op.num_swapped_tokens ?? 0) + (op.num_external_tokens ?? 0);
        const again = Math.max(0, (this.#lost.get(op.seq_id) ?? 0) - available);
        this.#lost.delete(op.seq_id);
        this.#add(op.seq_id, at, record, this.#endWaiting(op.seq_id), again);
        break;
      }
      case "preempt":
        this.#add(op.seq_id, at, record);
        this.#lost.set(op.seq_id, op.num_computed_tokens);
        this.#beginWaiting(op.seq_id, record);
        break;
      case "defer": {
        const wait = this.bySeq.get(op.seq_id)?.waiting;
        if (!wait || wait.since >= record.index) break; // deferred by the step that preempted it
        wait.deferred.set(op.reason, (wait.deferred.get(op.reason) ?? 0) + 1);
        wait.last = op;
      }
    }
  }

  /**
   * @param {number} seq @param {number} at @param {StepRecord} record
   * @param {Wait | null} [wait] @param {number} [again]
   */
  #add(seq, at, { index, step }, wait = null, again = 0) {
    this.bySeq.get(seq)?.events.push({ record: index, step, at, wait, again });
  }

  /** @param {number} seq @param {StepRecord} record */
  #beginWaiting(seq, { index, kind }) {
    const timeline = this.bySeq.get(seq);
    if (timeline) timeline.waiting = { since: index, steps: 0, behind: 0, deferred: new Map(), last: null };
    this.#waitsFrom.set(seq, this.#stepsOf(this.#instances.get(seq) ?? 0) + Number(kind === "step"));
  }

  /** End a wait and count its steps. @param {number} seq */
  #endWaiting(seq) {
    const wait = this.counted(seq);
    const timeline = this.bySeq.get(seq);
    if (timeline) timeline.waiting = null;
    return wait;
  }

  /** Return the current wait of a sequence with its steps; null if it does not wait. @param {number} seq */
  counted(seq) {
    const wait = this.bySeq.get(seq)?.waiting ?? null;
    if (!wait) return null;
    const steps = this.#stepsOf(this.#instances.get(seq) ?? 0);
    wait.steps = Math.max(0, steps - (this.#waitsFrom.get(seq) ?? 0));
    const deferred = [...wait.deferred.values()].reduce((sum, count) => sum + count, 0);
    wait.behind = Math.max(0, wait.steps - deferred);
    return wait;
  }
}

/** Return the timelines of a log up to its end. */
const timelinesOf = folding(
  () => new Timelines(),
  (timelines, record) => timelines.append(record),
);

/**
 * Return the timeline of a sequence up to the log's end; null if there is no such sequence.
 * @param {{records: StepRecord[]}} log
 * @param {number} seq
 * @returns {Timeline | null}
 */
export function timelineOf(log, seq) {
  const timelines = timelinesOf(log);
  const timeline = timelines.bySeq.get(seq);
  if (!timeline) return null;
  timelines.counted(seq);
  return timeline;
}

/** Return the tokens that a sequence had to recompute after preemptions. @param {Timeline | null} timeline */
export const lostTokens = (timeline) => timeline?.events.reduce((sum, { again }) => sum + again, 0) ?? 0;

/** Return the timelines of all sequences of a log, in the order of arrival. @param {{records: StepRecord[]}} log */
export const allTimelines = (log) => [...timelinesOf(log).bySeq.values()];
