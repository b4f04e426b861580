// Requests whose parts are sequences of several instances: computed on one, gone on with at another. Mirrors
// engine/trace/parts.py, which says what a part is. Pure.

const PREFILL = "/prefill"; // ends the id of what stands for a request on the instance that computes its prompt

/** Whether several instances write the log. @param {{header?: import("./trace.js").Header}} log */
export const isShared = ({ header }) => (header?.instances?.length ?? 0) > 1;

/**
 * The id of the request that a submission stands for.
 * @param {{header?: import("./trace.js").Header}} log
 * @param {Pick<import("./trace.js").Submit, "request_id" | "kv_role">} op
 */
export function requestOf(log, { request_id: id, kv_role: role }) {
  const isPart = isShared(log) && role === "kv_producer" && id.endsWith(PREFILL);
  return isPart ? id.slice(0, -PREFILL.length) : id;
}

/**
 * @typedef {{id: string, part: number, alive: Set<number>, hasTokens: boolean}} Open a request that is not over:
 *   `part`, the sequence that it was submitted as last; `alive`: sequences of that part
 * @typedef {{before: number | null, lost: number[]}} Found the part before the one that is submitted (null: it is the
 *   first, or nothing is); the sequences that end with a `lost`
 */

/** @type {Found} */
const NOTHING = { before: null, lost: [] };

export class RequestParts {
  /** @type {Map<string, Open>} */
  #open = new Map();
  /** @type {Map<number, Open>} by sequence that is not over */
  #of = new Map();
  /** @type {Map<number, number>} instances of sequences that are not over */
  #instances = new Map();
  /** @type {Set<number>} sequences with which another instance goes on */
  producers = new Set();
  /** @type {Map<number, number>} by sequence: the part after it */
  next = new Map();

  /** @param {{header?: import("./trace.js").Header}} log */
  constructor(log) {
    this.log = log;
    this.isShared = isShared(log);
  }

  /**
   * The next operation, of a record of this instance.
   * @param {import("./trace.js").Op} op @param {number} instance @returns {Found}
   */
  read(op, instance) {
    if (!this.isShared) return NOTHING;
    if (op.type === "submit") return { before: this.#submit(op, instance), lost: [] };
    if (op.type === "lost") {
      const lost = [...this.#instances].flatMap(([seq, where]) => (where === instance ? [seq] : []));
      const over = new Set(op.given_up);
      for (const seq of lost)
        this.#end(seq, !over.has(seq) && (this.producers.has(seq) || !this.#of.get(seq)?.hasTokens));
      return { before: null, lost };
    }
    if (op.type === "fork") {
      const request = this.#of.get(op.parent_seq_id);
      if (!request) return NOTHING;
      request.alive.add(op.seq_id);
      this.#of.set(op.seq_id, request);
      this.#instances.set(op.seq_id, instance);
    } else if (op.type === "sample") {
      const request = this.#of.get(op.seq_id);
      if (request && !this.producers.has(op.seq_id)) request.hasTokens = true;
    } else if (op.type === "finish") this.#end(op.seq_id, this.producers.has(op.seq_id) && op.reason !== "abort");
    return NOTHING;
  }

  /** @param {import("./trace.js").Submit} op @param {number} instance */
  #submit(op, instance) {
    const id = requestOf(this.log, op);
    let request = this.#open.get(id);
    let before = null;
    if (!request || request.alive.size) {
      request = { id, part: op.seq_id, alive: new Set(), hasTokens: false };
      this.#open.set(id, request);
    } else {
      [before, request.part] = [request.part, op.seq_id];
      this.next.set(before, op.seq_id);
    }
    request.alive = new Set([op.seq_id]);
    this.#of.set(op.seq_id, request);
    this.#instances.set(op.seq_id, instance);
    if (op.kv_role === "kv_producer") this.producers.add(op.seq_id);
    return before;
  }

  /** @param {number} seq @param {boolean} goesOn */
  #end(seq, goesOn) {
    const request = this.#of.get(seq);
    if (!request) return;
    this.#of.delete(seq);
    this.#instances.delete(seq);
    request.alive.delete(seq);
    if (!request.alive.size && !goesOn && this.#open.get(request.id) === request) this.#open.delete(request.id);
  }
}
