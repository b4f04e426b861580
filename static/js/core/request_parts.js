// Requests whose parts are sequences of several instances: computed on one, continued on another. Mirrors
// engine/trace/request_parts.py, which defines parts. Pure.

/** @import {Header, Submit} from "./trace.js" */

const PREFILL = "/prefill"; // suffix of a request's id on the instance that computes its prompt

/** Return whether several instances write the log. @param {{header?: Header}} log */
export const isShared = ({ header }) => (header?.instances?.length ?? 0) > 1;

/**
 * Return the id of the request that a submission belongs to.
 * @param {{header?: Header}} log
 * @param {Pick<Submit, "request_id" | "kv_role">} op
 */
export function requestOf(log, { request_id: id, kv_role: role }) {
  const isPart = isShared(log) && role === "kv_producer" && id.endsWith(PREFILL);
  return isPart ? id.slice(0, -PREFILL.length) : id;
}

/**
 * @typedef {{id: string, part: number, alive: Set<number>, hasTokens: boolean}} Open an unfinished request: `part`, its
 * last submitted sequence; `alive`: sequences of that part
 * @typedef {{before: number | null, lost: number[]}} Found `before`: the part before the submitted one (null: it is the
 * first, or nothing is submitted); `lost`: the sequences that end with a `lost`
 */

/** @type {Found} */
const NOTHING = { before: null, lost: [] };

export class RequestParts {
  /** @type {Map<string, Open>} */
  #open = new Map();
  /** @type {Map<number, Open>} by unfinished sequence */
  #bySeq = new Map();
  /** @type {Map<number, number>} instances of unfinished sequences */
  #instances = new Map();
  /** @type {Set<number>} sequences continued on another instance */
  producers = new Set();
  /** @type {Map<number, number>} by sequence: the next part */
  next = new Map();

  /** @param {{header?: Header}} log */
  constructor(log) {
    this.log = log;
    this.isShared = isShared(log);
  }

  /**
   * Process the next operation, from a record of this instance.
   * @param {import("./trace.js").Op} op
   * @param {number} instance
   * @returns {Found}
   */
  read(op, instance) {
    if (!this.isShared) return NOTHING;
    if (op.type === "submit") return { before: this.#submit(op, instance), lost: [] };
    if (op.type === "lost") {
      const lost = [...this.#instances].flatMap(([seq, where]) => (where === instance ? [seq] : []));
      const givenUp = new Set(op.given_up);
      for (const seq of lost)
        this.#end(seq, !givenUp.has(seq) && (this.producers.has(seq) || !this.#bySeq.get(seq)?.hasTokens));
      return { before: null, lost };
    }
    if (op.type === "fork") {
      const request = this.#bySeq.get(op.parent_seq_id);
      if (!request) return NOTHING;
      request.alive.add(op.seq_id);
      this.#bySeq.set(op.seq_id, request);
      this.#instances.set(op.seq_id, instance);
    } else if (op.type === "sample") {
      const request = this.#bySeq.get(op.seq_id);
      if (request && !this.producers.has(op.seq_id)) request.hasTokens = true;
    } else if (op.type === "finish") this.#end(op.seq_id, this.producers.has(op.seq_id) && op.reason !== "abort");
    return NOTHING;
  }

  /** @param {Submit} op @param {number} instance */
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
    this.#bySeq.set(op.seq_id, request);
    this.#instances.set(op.seq_id, instance);
    if (op.kv_role === "kv_producer") this.producers.add(op.seq_id);
    return before;
  }

  /** @param {number} seq @param {boolean} continues */
  #end(seq, continues) {
    const request = this.#bySeq.get(seq);
    if (!request) return;
    this.#bySeq.delete(seq);
    this.#instances.delete(seq);
    request.alive.delete(seq);
    if (!request.alive.size && !continues && this.#open.get(request.id) === request) this.#open.delete(request.id);
  }
}
