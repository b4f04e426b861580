// Log of a run in the browser: records by index, the state after any record, and the origin of each slot's content.

import { decodeAs, TraceFormatError } from "./codec.js";
import { blockGroups } from "./groups.js";
import { Budget } from "./limits.js";
import { ByteLru } from "./lru.js";
import { SlotOrigins } from "./slot_origins.js";
import { apply, copyState, initialState } from "./state.js";

/** @import {Origin} from "./slot_origins.js" */
/** @import {State} from "./state_access.js" */
/** @import {Capture, LayerCapture, StepRecord} from "./trace.js" */

const KEYFRAME_INTERVAL = 64; // minimum number of records between keyframes
const BLOCKS_PER_BYTE = 4; // of records: at most that many blocks are copied into keyframes
const STRIDE = 4; // minimum number of records between states cached on the way to a requested one
const RECENT_STATES = 96; // maximum number of cached states; fewer for large pools
const CACHED_BLOCKS = 1 << 23; // maximum total of cached states
const FORMAT = "kvtrace";
const VERSION = 1;
const MIB = 1024 * 1024;
const DECODED_CAPTURES = 64 * MIB;
/** Cache limit for captures of a live run, in bytes: older ones can be fetched again. */
export const LIVE_CAPTURES = 96 * MIB;

let nextId = 0;

/**
 * @typedef {{seq_id: number, start: number, num_tokens: number, block_tables: number[][]}} Written `block_tables`: one
 * per block group, before the write
 */

export class TraceLog {
  /**
   * `headerBytes`: the encoded header; `captureLimit`: bytes of captures to cache, if evicted ones can be fetched
   * again.
   * @param {Uint8Array} headerBytes
   * @param {number} [captureLimit]
   */
  constructor(headerBytes, captureLimit = Infinity) {
    this.id = nextId++; // cache key of derived drawings: two runs can start in the same second
    this.header = decodeAs(headerBytes, "Header");
    const { format = FORMAT, version = VERSION } = this.header;
    if (format !== FORMAT || version !== VERSION)
      throw new TraceFormatError(`format ${format} ${version}; this program reads ${FORMAT} ${VERSION}`);
    /** @type {StepRecord[]} */
    this.records = [];
    this.budget = new Budget();
    /** @type {Map<number, Written[]>} by record, filled on demand */
    this.writes = new Map();
    /** @type {ByteLru<number, Uint8Array>} by record */
    this.captureBytes = new ByteLru(captureLimit);
    /** @type {{record: number, layer: number | null}[]} arrays in the order of arrival; null: of all layers */
    this.arrivals = [];
    this.fetchable = false; // whether missing arrays can be fetched
    /** @type {Set<string>} `${index}/${layer}` that the server does not have */
    this.captureGone = new Set();
    /** @type {ByteLru<string, LayerCapture>} by `${index}/${layer}`, fetched one layer at a time */
    this.layerCaptures = new ByteLru(captureLimit);
    this.tail = initialState(this.header);
    this.groups = blockGroups(this.header);
    /** @type {Map<number, State>} */
    this.keyframes = new Map([[-1, copyState(this.tail)]]);
    this.bytesSinceKeyframe = 0;
    /** @type {Map<number, State>} */
    this.recent = new Map();
    this.stateSize = this.tail.blocks.length + this.tail.cpu_blocks.length;
    this.stride = Math.max(STRIDE, this.stateSize >> 12);
    this.recentStates = Math.min(RECENT_STATES, Math.max(STRIDE, Math.floor(CACHED_BLOCKS / this.stateSize)));
    /** @type {ByteLru<number, Capture>} by record */
    this.decoded = new ByteLru(Math.min(captureLimit, DECODED_CAPTURES));
    this.origins = new SlotOrigins(this.groups);
    /** @type {Map<number, {record: number, start: number, end: number}[]>} by sequence, ascending in record */
    this.computed = new Map();
  }

  get length() {
    return this.records.length;
  }

  /**
   * Append the record in `bytes`, with its capture's bytes or null. Throws if it does not follow from the log.
   * @param {Uint8Array} bytes
   * @param {Uint8Array | null} [captureBytes]
   * @returns {StepRecord}
   */
  append(bytes, captureBytes = null) {
    const record = decodeAs(bytes, "StepRecord");
    this.budget.credit(bytes.byteLength);
    try {
      apply(this.tail, record, (op, state) => this.origins.process(op, state, record.index), this.budget);
    } catch (error) {
      this.tail = initialState(this.header); // the tail contains a part of the record
      for (const before of this.records) apply(this.tail, before);
      throw error;
    }
    this.records.push(record);
    this.origins.processStores(record, this.tail);
    if (captureBytes) this.addCapture(record.index, captureBytes);
    for (const entry of record.batch ?? []) {
      const spans = this.computed.get(entry.seq_id) ?? [];
      spans.push({ record: record.index, start: entry.start, end: entry.start + entry.token_ids.length });
      this.computed.set(entry.seq_id, spans);
    }
    this.bytesSinceKeyframe += bytes.byteLength;
    if ((record.index + 1) % KEYFRAME_INTERVAL === 0 && this.bytesSinceKeyframe * BLOCKS_PER_BYTE >= this.stateSize) {
      this.keyframes.set(record.index, copyState(this.tail));
      this.bytesSinceKeyframe = 0;
    }
    return record;
  }

  /**
   * Return the state after record `index` (-1: before the first). It is shared: treat it as frozen.
   * @param {number} index
   * @returns {State}
   */
  stateAt(index) {
    if (!(index >= -1 && index < this.length)) throw new RangeError(`state ${index} of ${this.length} records`);
    const cached = this.recent.get(index) ?? this.keyframes.get(index);
    if (cached) return cached;
    if (index === this.tail.index) return this.#remember(this.recent, index, copyState(this.tail), this.recentStates);
    let from = index - 1;
    while (!this.recent.has(from) && !this.keyframes.has(from)) from--;
    let state = /** @type {State} */ (this.recent.get(from) ?? this.keyframes.get(from));
    while (state.index < index) {
      state = copyState(state);
      const stop = Math.min(index, state.index + this.stride); // states on the way are likely to be requested next
      while (state.index < stop) apply(state, this.records[state.index + 1]);
      this.#remember(this.recent, state.index, state, this.recentStates);
    }
    return state;
  }

  /**
   * Return the capture of record `index`, or null if it is not loaded.
   * @param {number} index
   * @returns {Capture | null}
   */
  capture(index) {
    const known = this.decoded.get(index);
    if (known) return known;
    const bytes = this.captureBytes.get(index);
    if (!bytes) return null;
    const capture = decodeAs(bytes, "Capture");
    this.decoded.set(index, capture, bytes.byteLength);
    return capture;
  }

  /** Store all arrays of a record in encoded form. @param {number} index @param {Uint8Array} bytes */
  addCapture(index, bytes) {
    this.captureBytes.set(index, bytes, bytes.byteLength);
    this.arrivals.push({ record: index, layer: null });
  }

  /**
   * Store one layer's encoded arrays of record `index`.
   * @param {number} index
   * @param {number} layer
   * @param {Uint8Array} bytes
   */
  addLayer(index, layer, bytes) {
    this.layerCaptures.set(`${index}/${layer}`, decodeAs(bytes, "LayerCapture"), bytes.byteLength);
    this.arrivals.push({ record: index, layer });
  }

  /**
   * Return one layer's arrays of record `index`, or null if they are not loaded.
   * @param {number} index
   * @param {number} layer
   * @returns {LayerCapture | null}
   */
  layer(index, layer) {
    const fetched = this.layerCaptures.get(`${index}/${layer}`);
    if (fetched) return fetched;
    return this.capture(index)?.layers.find((l) => l.layer === layer) ?? null;
  }

  /**
   * Return whether record `index` may have arrays of `layer` that are not loaded and can be fetched.
   * @param {number} index
   * @param {number} layer
   */
  captureMissing(index, layer) {
    const key = `${index}/${layer}`;
    const isLoadedOrGone =
      this.captureBytes.has(index) ||
      this.decoded.has(index) ||
      this.layerCaptures.has(key) ||
      this.captureGone.has(key);
    return this.fetchable && Boolean(this.records[index]?.has_capture) && !isLoadedOrGone;
  }

  /**
   * Return the origin of the content of `slot` after record `index`, or null.
   * @param {number} slot
   * @param {number} index
   */
  slotOrigin(slot, index) {
    return this.origins.of(slot, index);
  }

  /**
   * Return the block tables, one per block group, with which `seqId` was computed in record `index`, or null if it was
   * not.
   * @param {number} index
   * @param {number} seqId
   */
  tablesAtCompute(index, seqId) {
    return this.writesIn(index).find((w) => w.seq_id === seqId)?.block_tables ?? null;
  }

  /**
   * Return the writes of record `index`: [{seq_id, start, num_tokens, block_tables}], with one table per block group
   * before the write.
   * @param {number} index
   * @returns {Written[]}
   */
  writesIn(index) {
    const known = this.writes.get(index);
    if (known || !this.records[index]) return known ?? [];
    /** @type {Written[]} */
    const writes = [];
    apply(copyState(this.stateAt(index - 1)), this.records[index], (op, state) => {
      if (op.type !== "write") return;
      const { seq_id, start, num_tokens } = op;
      writes.push({ seq_id, start, num_tokens, block_tables: tablesOf(state, seq_id).map((table) => table.slice()) });
    });
    return this.#remember(this.writes, index, writes, RECENT_STATES);
  }

  /**
   * Return the last record up to `index` that computed position `position` of `seqId`, or -1.
   * @param {number} seqId
   * @param {number} position
   * @param {number} index
   */
  computedIn(seqId, position, index) {
    const covers = (/** @type {{record: number, start: number, end: number}} */ span) =>
      span.record <= index && span.start <= position && position < span.end;
    return this.computed.get(seqId)?.findLast(covers)?.record ?? -1;
  }

  /** Return the last record up to `index` that computed `seqId`, or -1. @param {number} seqId @param {number} index */
  lastComputed(seqId, index) {
    return this.computed.get(seqId)?.findLast((span) => span.record <= index)?.record ?? -1;
  }

  /**
   * Return the index of a token among the packed tokens of its step, the first axis of q, k and v; -1 if the step did
   * not compute it.
   * @param {number} record
   * @param {number} seqId
   * @param {number} position
   */
  packedIndex(record, seqId, position) {
    let offset = 0;
    for (const entry of this.records[record]?.batch ?? []) {
      if (entry.seq_id === seqId) {
        const within = position - entry.start;
        return within >= 0 && within < entry.token_ids.length ? offset + within : -1;
      }
      offset += entry.token_ids.length;
    }
    return -1;
  }

  /** @template V @param {Map<number, V>} map @param {number} key @param {V} value @param {number} limit */
  #remember(map, key, value, limit) {
    map.set(key, value);
    const oldest = map.keys().next();
    if (map.size > limit && !oldest.done) map.delete(oldest.value);
    return value;
  }
}

/** Return the sequence's block tables, one per block group. @param {State} state @param {number} seqId */
const tablesOf = (state, seqId) => state.sequences.get(seqId)?.block_tables ?? [];
