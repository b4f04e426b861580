// Attention patterns of a run's heads, measured on the recorded rows: for each pattern of keys, the mean weight that
// queries gave to that key. Updated as arrays arrive. Pure.

import { attentionSpan } from "./groups.js";
import { NamedKeys, PATTERNS } from "./patterns.js";

/** @import {TraceLog} from "./log.js" */
/** @import {AttentionRows, HeadPattern} from "./trace.js" */

/**
 * @typedef {{sums: Float64Array, uniform: Float64Array, queries: Uint32Array}} Layer arrays of shape [query heads,
 * patterns]
 */

const MIN_QUERIES = 8; // for a meaningful mean
const MIN_MEAN_WEIGHT = 0.1; // weaker patterns are not visible
const TIMES_UNIFORM = 3; // minimum ratio to a head with uniform weights
const COUNT = PATTERNS.length;

/** Return the roles of a log's heads; one shared object per log. @param {TraceLog} log */
export function rolesOf(log) {
  let found = known.get(log);
  if (!found) known.set(log, (found = new HeadRoles(log)));
  return found;
}

/** @type {WeakMap<TraceLog, HeadRoles>} */
const known = new WeakMap();

export class HeadRoles {
  version = 0; // grows with every measured row
  #next = 0; // index in the log's arrivals
  #inside = 0; // index in that arrival's layers
  /** @type {Set<number | string>} records measured completely, and `${record}/${layer}` of single layers */
  #done = new Set();
  /** @type {Map<number, Layer>} */
  #layers = new Map();
  /** @type {Map<number, NamedKeys>} by sequence */
  #texts = new Map();
  /** @type {Map<number, {version: number, role: HeadPattern | null}[]>} by layer, by head */
  #roles = new Map();

  /** @param {TraceLog} log */
  constructor(log) {
    this.log = log;
  }

  /**
   * Measure arrived arrays until `isOver`. Returns whether all have been measured.
   * @param {() => boolean} isOver called after each layer
   */
  measure(isOver) {
    const { arrivals } = this.log;
    for (; this.#next < arrivals.length; this.#next += 1, this.#inside = 0) {
      const { record, layer } = arrivals[this.#next];
      const name = layer === null ? record : `${record}/${layer}`;
      if (this.#done.has(record) || this.#done.has(name)) continue;
      const fetched = layer === null ? null : this.log.layer(record, layer);
      const layers = fetched ? [fetched] : (this.log.capture(record)?.layers ?? []);
      while (this.#inside < layers.length) {
        this.add(layers[this.#inside]);
        this.#inside += 1;
        if (isOver()) return false;
      }
      this.#done.add(name);
    }
    return true;
  }

  /**
   * Return the mean weight that a head's queries gave to the keys of each measured pattern.
   * @param {number} layer
   * @param {number} head
   * @returns {HeadPattern[]}
   */
  of(layer, head) {
    const found = this.#layers.get(layer);
    if (!found) return [];
    return PATTERNS.flatMap((pattern, i) => {
      const at = head * COUNT + i;
      const queries = found.queries[at];
      const [mean_weight, uniform] = [found.sums[at] / queries, found.uniform[at] / queries];
      return queries ? [{ pattern, layer, head, mean_weight, uniform, queries }] : [];
    });
  }

  /** Return whether some pattern was measured on enough queries. */
  hasEnough() {
    return [...this.#layers.values()].some(({ queries }) => queries.some((n) => n >= MIN_QUERIES));
  }

  /**
   * Return the pattern in which a head stands out most; null if there is none or too few queries were measured.
   * @param {number} layer
   * @param {number} head
   * @returns {HeadPattern | null}
   */
  role(layer, head) {
    const row = this.#roles.get(layer) ?? [];
    this.#roles.set(layer, row);
    if (row[head]?.version !== this.version) {
      const distinct = this.of(layer, head).filter((one) => one.queries >= MIN_QUERIES && standsOut(one));
      row[head] = { version: this.version, role: distinct.length ? distinct.reduce(stronger) : null };
    }
    return row[head].role;
  }

  /**
   * Return the most outstanding head of each pattern, in the order of PATTERNS. Patterns without one are omitted.
   * @returns {HeadPattern[]}
   */
  best() {
    /** @type {Map<string, HeadPattern>} */
    const best = new Map();
    for (const layer of this.#layers.keys())
      for (let head = 0; head < this.log.header.model.num_heads; head++) {
        const role = this.role(layer, head);
        if (role) best.set(role.pattern, stronger(best.get(role.pattern) ?? role, role));
      }
    return PATTERNS.flatMap((pattern) => best.get(pattern) ?? []);
  }

  /** Measure the rows of one layer of a record. @param {import("./trace.js").LayerCapture | null} arrays */
  add(arrays) {
    if (!arrays) return;
    const { layer, rows } = arrays;
    const size = this.log.header.model.num_heads * COUNT;
    let sums = this.#layers.get(layer);
    if (!sums) {
      sums = { sums: new Float64Array(size), uniform: new Float64Array(size), queries: new Uint32Array(size) };
      this.#layers.set(layer, sums);
    }
    for (const part of rows) this.#add(sums, layer, part);
    this.version += 1;
  }

  /** @param {Layer} sums @param {number} layer @param {AttentionRows} rows */
  #add({ sums, uniform, queries }, layer, { seq_id, query_start, key_start, heads, weights }) {
    const text = this.log.tail.sequences.get(seq_id);
    if (!text) return;
    const { raw, value, shape } = weights;
    const [, numQueries, numKeys] = shape;
    const span = attentionSpan(this.log.header, layer);
    let named = this.#texts.get(seq_id);
    if (!named) this.#texts.set(seq_id, (named = new NamedKeys()));
    for (let i = 0; i < numQueries; i++) {
      const query = query_start + i;
      const keys = named.at(text, query);
      if (!keys) continue;
      const share = 1 / Math.min(query - key_start + 1, span.window + span.sinks);
      for (let pattern = 0; pattern < COUNT; pattern++) {
        const key = keys[pattern];
        const column = key - key_start;
        if (key < 0 || column < 0 || column >= numKeys) continue;
        if (key <= query - span.window && key >= span.sinks) continue; // outside the attention span
        heads.forEach((head, axis) => {
          const at = head * COUNT + pattern;
          sums[at] += value(raw[(axis * numQueries + i) * numKeys + column]);
          uniform[at] += share;
          queries[at] += 1;
        });
      }
    }
  }
}

/** @param {HeadPattern} a @param {HeadPattern} b */
const stronger = (a, b) => (b.mean_weight > a.mean_weight ? b : a);

/**
 * Return whether a head's weights on the keys of a pattern are worth showing.
 * @param {Pick<HeadPattern, "mean_weight" | "uniform">} measured
 */
const standsOut = ({ mean_weight, uniform }) =>
  mean_weight >= MIN_MEAN_WEIGHT && mean_weight >= TIMES_UNIFORM * uniform;

/**
 * Return the heads worth showing of those measured at training, the default one first.
 * @param {import("./trace.js").ModelFacts | undefined} model
 */
export const measuredHeads = (model) => (model?.heads ?? []).filter(standsOut);
