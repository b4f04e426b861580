// What happened to each sequence, and why: submitted, looked up, waiting and for what, admitted, preempted and what its
// return cost, finished. A fold over records that goes on where it stopped; mirrors engine/trace/explain.py. Pure.

/**
 * @typedef {import("./trace.js").Op} Op
 * @typedef {import("./trace.js").StepRecord} StepRecord
 * @typedef {import("./trace.js").Defer} Defer
 * @typedef {object} Wait steps that a sequence spent in the waiting queue, until it was admitted or ended
 * @property {number} since record
 * @property {number} steps
 * @property {number} behind of these, steps in which the engine did not get as far as asking for it
 * @property {Map<Defer["reason"], number>} deferred steps in which it was the one that could not be admitted, by reason
 * @property {Defer | null} last
 * @typedef {object} Moment something that happened to a sequence
 * @property {number} record
 * @property {number} step
 * @property {number} at the place of its operation in the record's `ops`
 * @property {Wait | null} wait of an admission or an end: the wait before it
 * @property {number} again of an admission after a preemption: computed tokens that it has to compute once more
 * @typedef {{seq: number, request_id: string, moments: Moment[], waiting: Wait | null}} Story `waiting`: where the log
 *   ends
 */

class Stories {
  length = 0;
  /** @type {Map<number, Story>} by sequence, in the order in which they came */
  bySeq = new Map();
  /** @type {Map<number, number>} by instance: its steps that were read so far */
  #steps = new Map();
  /** @type {Map<number, number>} by sequence: its instance */
  #instances = new Map();
  /** @type {Set<number>} sequences */
  #ended = new Set();
  /** @type {Map<number, number>} by sequence that waits: how many of its instance had been read when it began */
  #waitsFrom = new Map();
  /** @type {Map<number, number>} by sequence: tokens that were computed when it was preempted */
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
        this.bySeq.set(op.seq_id, { seq: op.seq_id, request_id: op.request_id, moments: [], waiting: null });
        this.#tell(op.seq_id, at, record);
        if (op.type === "submit") this.#beginWaiting(op.seq_id, record);
        break;
      case "lookup":
      case "lookup_external":
        this.#tell(op.seq_id, at, record);
        break;
      case "finish":
        this.#ended.add(op.seq_id);
        this.#tell(op.seq_id, at, record, this.#endWaiting(op.seq_id));
        break;
      case "await":
        this.#tell(op.seq_id, at, record, this.#endWaiting(op.seq_id));
        break;
      case "arrive":
      case "transfer_failed":
        this.#tell(op.seq_id, at, record);
        this.#beginWaiting(op.seq_id, record);
        break;
      case "hold":
      case "send":
      case "expire":
        this.#tell(op.seq_id, at, record);
        break;
      case "lost":
        for (const [seq, instance] of this.#instances)
          if (instance === (record.instance ?? 0) && !this.#ended.has(seq)) {
            this.#ended.add(seq);
            this.#tell(seq, at, record, this.#endWaiting(seq));
          }
        break;
      case "adjust":
        for (const seq of op.seq_ids) this.#tell(seq, at, record);
        break;
      case "admit": {
        const there = op.num_cached_tokens + (op.num_swapped_tokens ?? 0) + (op.num_external_tokens ?? 0);
        const again = Math.max(0, (this.#lost.get(op.seq_id) ?? 0) - there);
        this.#lost.delete(op.seq_id);
        this.#tell(op.seq_id, at, record, this.#endWaiting(op.seq_id), again);
        break;
      }
      case "preempt":
        this.#tell(op.seq_id, at, record);
        this.#lost.set(op.seq_id, op.num_computed_tokens);
        this.#beginWaiting(op.seq_id, record);
        break;
      case "defer": {
        const wait = this.bySeq.get(op.seq_id)?.waiting;
        if (!wait || wait.since >= record.index) break; // the step that preempted it
        wait.deferred.set(op.reason, (wait.deferred.get(op.reason) ?? 0) + 1);
        wait.last = op;
      }
    }
  }

  /**
   * @param {number} seq @param {number} at @param {StepRecord} record
   * @param {Wait | null} [wait] @param {number} [again]
   */
  #tell(seq, at, { index, step }, wait = null, again = 0) {
    this.bySeq.get(seq)?.moments.push({ record: index, step, at, wait, again });
  }

  /** @param {number} seq @param {StepRecord} record */
  #beginWaiting(seq, { index, kind }) {
    const story = this.bySeq.get(seq);
    if (story) story.waiting = { since: index, steps: 0, behind: 0, deferred: new Map(), last: null };
    this.#waitsFrom.set(seq, this.#stepsOf(this.#instances.get(seq) ?? 0) + Number(kind === "step"));
  }

  /** The wait that is over now, counted. @param {number} seq */
  #endWaiting(seq) {
    const wait = this.counted(seq);
    const story = this.bySeq.get(seq);
    if (story) story.waiting = null;
    return wait;
  }

  /** The wait of a sequence as long as it lasts by now; null when it does not wait. @param {number} seq */
  counted(seq) {
    const wait = this.bySeq.get(seq)?.waiting ?? null;
    if (!wait) return null;
    const steps = this.#stepsOf(this.#instances.get(seq) ?? 0);
    wait.steps = Math.max(0, steps - (this.#waitsFrom.get(seq) ?? 0));
    const asked = [...wait.deferred.values()].reduce((sum, count) => sum + count, 0);
    wait.behind = Math.max(0, wait.steps - asked);
    return wait;
  }
}

/** @type {WeakMap<object, Stories>} */
const read = new WeakMap();

/** The stories of a log as far as it is here. @param {{records: StepRecord[]}} log */
function storiesOf(log) {
  let stories = read.get(log);
  if (!stories) read.set(log, (stories = new Stories()));
  while (stories.length < log.records.length) stories.append(log.records[stories.length]);
  return stories;
}

/**
 * The story of a sequence as far as the log is here; null when there is no such sequence.
 * @param {{records: StepRecord[]}} log @param {number} seq @returns {Story | null}
 */
export function storyOf(log, seq) {
  const stories = storiesOf(log);
  const story = stories.bySeq.get(seq);
  if (!story) return null;
  stories.counted(seq);
  return story;
}

/** Tokens that a sequence had to compute again after its preemptions. @param {Story | null} story */
export const lostTokens = (story) => story?.moments.reduce((sum, { again }) => sum + again, 0) ?? 0;

/** The sequences of a log in the order in which they came. @param {{records: StepRecord[]}} log */
export const allStories = (log) => [...storiesOf(log).bySeq.values()];
