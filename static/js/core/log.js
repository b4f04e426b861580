// A run's log in the browser: records by index, the state after any of them, and where each slot's content came from.

import { decodeAs, TraceFormatError } from "./codec.js";
import { blockGroups } from "./groups.js";
import { Budget } from "./limits.js";
import { ByteLru } from "./lru.js";
import { SlotOrigins } from "./slot_origins.js";
import { apply, copyState, initialState } from "./state.js";

const KEYFRAME_INTERVAL = 64; // records between kept states, at least
const BLOCKS_PER_BYTE = 4; // of a large pool they are kept where the records are long enough
const STRIDE = 4; // records between the states kept on the way to one, at least
const RECENT_STATES = 96; // at most, and fewer of a large pool
const KEPT_BLOCKS = 1 << 23;
const FORMAT = "kvtrace";
const VERSION = 1;
const MIB = 1024 * 1024;
const DECODED_CAPTURES = 64 * MIB;
/** Captures of a live run that are kept, in bytes: older ones can be fetched again. */
export const LIVE_CAPTURES = 96 * MIB;

let nextId = 0;

/**
 * @typedef {import("./trace.js").StepRecord} StepRecord
 * @typedef {import("./trace.js").Capture} Capture
 * @typedef {import("./trace.js").LayerCapture} LayerCapture
 * @typedef {import("./state_parts.js").State} State
 * @typedef {import("./slot_origins.js").Origin} Origin
 * @typedef {{seq_id: number, start: number, num_tokens: number, block_tables: number[][]}} Written the tables, one a
 *   block group, as the write found them
 */

export class TraceLog {
  /**
   * `headerBytes`: the header as it travelled; `captureLimit`: bytes of captures to keep, where lost ones can be
   * fetched again.
   * @param {Uint8Array} headerBytes @param {number} [captureLimit]
   */
  constructor(headerBytes, captureLimit = Infinity) {
    this.id = nextId++; // what is drawn from a log is kept under this: two runs can begin in one second
    this.header = decodeAs(headerBytes, "Header");
    const { format = FORMAT, version = VERSION } = this.header;
    if (format !== FORMAT || version !== VERSION)
      throw new TraceFormatError(`format ${format} ${version}; this program reads ${FORMAT} ${VERSION}`);
    /** @type {StepRecord[]} */
    this.records = [];
    this.budget = new Budget();
    /** @type {Map<number, Written[]>} by record, of those that were asked for */
    this.writes = new Map();
    /** @type {ByteLru<number, Uint8Array>} by record */
    this.captureBytes = new ByteLru(captureLimit);
    /** @type {{record: number, layer: number | null}[]} arrays in the order in which they came; null: all layers' */
    this.arrivals = [];
    this.fetchable = false; // whether what is missing here can be fetched again
    /** @type {Set<string>} `${index}/${layer}` that the server does not have */
    this.captureGone = new Set();
    /** @type {ByteLru<string, LayerCapture>} by `${index}/${layer}`, fetched one layer at a time */
    this.layerCaptures = new ByteLru(captureLimit);
    this.tail = initialState(this.header);
    this.groups = blockGroups(this.header);
    /** @type {Map<number, State>} */
    this.keyframes = new Map([[-1, copyState(this.tail)]]);
    this.unkept = 0; // bytes of the records since the last keyframe
    /** @type {Map<number, State>} */
    this.recent = new Map();
    this.stateSize = this.tail.blocks.length + this.tail.cpu_blocks.length;
    this.stride = Math.max(STRIDE, this.stateSize >> 12);
    this.recentStates = Math.min(RECENT_STATES, Math.max(STRIDE, Math.floor(KEPT_BLOCKS / this.stateSize)));
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
   * Append the record in `bytes`, with its capture's bytes or null. Throws when it does not follow from the log.
   * @param {Uint8Array} bytes @param {Uint8Array | null} [captureBytes] @returns {StepRecord}
   */
  append(bytes, captureBytes = null) {
    const record = decodeAs(bytes, "StepRecord");
    this.budget.read(bytes.byteLength);
    try {
      apply(this.tail, record, (op, state) => this.origins.follow(op, state, record.index), this.budget);
    } catch (error) {
      this.tail = initialState(this.header); // half of the record is in it
      for (const before of this.records) apply(this.tail, before);
      throw error;
    }
    this.records.push(record);
    this.origins.followStores(record, this.tail);
    if (captureBytes) this.addCapture(record.index, captureBytes);
    for (const entry of record.batch ?? []) {
      const spans = this.computed.get(entry.seq_id) ?? [];
      spans.push({ record: record.index, start: entry.start, end: entry.start + entry.token_ids.length });
      this.computed.set(entry.seq_id, spans);
    }
    this.unkept += bytes.byteLength;
    if ((record.index + 1) % KEYFRAME_INTERVAL === 0 && this.unkept * BLOCKS_PER_BYTE >= this.stateSize) {
      this.keyframes.set(record.index, copyState(this.tail));
      this.unkept = 0;
    }
    return record;
  }

  /**
   * The state after record `index` (-1: before the first). Shared: treat it as frozen.
   * @param {number} index @returns {State}
   */
  stateAt(index) {
    if (!(index >= -1 && index < this.length)) throw new RangeError(`state ${index} of ${this.length} records`);
    const kept = this.recent.get(index) ?? this.keyframes.get(index);
    if (kept) return kept;
    if (index === this.tail.index) return this.#remember(this.recent, index, copyState(this.tail), this.recentStates);
    let from = index - 1;
    while (!this.recent.has(from) && !this.keyframes.has(from)) from--;
    let state = /** @type {State} */ (this.recent.get(from) ?? this.keyframes.get(from));
    while (state.index < index) {
      state = copyState(state);
      const stop = Math.min(index, state.index + this.stride); // the states on the way are the next ones asked for
      while (state.index < stop) apply(state, this.records[state.index + 1]);
      this.#remember(this.recent, state.index, state, this.recentStates);
    }
    return state;
  }

  /**
   * The capture of record `index`, or null when it is not here.
   * @param {number} index @returns {Capture | null}
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

  /** Keep all arrays of a record, as they travelled. @param {number} index @param {Uint8Array} bytes */
  addCapture(index, bytes) {
    this.captureBytes.set(index, bytes, bytes.byteLength);
    this.arrivals.push({ record: index, layer: null });
  }

  /**
   * Keep one layer's arrays of record `index`, as they travelled.
   * @param {number} index @param {number} layer @param {Uint8Array} bytes
   */
  addLayer(index, layer, bytes) {
    this.layerCaptures.set(`${index}/${layer}`, decodeAs(bytes, "LayerCapture"), bytes.byteLength);
    this.arrivals.push({ record: index, layer });
  }

  /**
   * One layer's arrays of record `index`, or null when they are not here.
   * @param {number} index @param {number} layer @returns {LayerCapture | null}
   */
  layer(index, layer) {
    const alone = this.layerCaptures.get(`${index}/${layer}`);
    if (alone) return alone;
    return this.capture(index)?.layers.find((l) => l.layer === layer) ?? null;
  }

  /**
   * Whether record `index` has arrays of `layer`, as far as is known, that are not here and could come.
   * @param {number} index @param {number} layer
   */
  captureMissing(index, layer) {
    const key = `${index}/${layer}`;
    const here =
      this.captureBytes.has(index) ||
      this.decoded.has(index) ||
      this.layerCaptures.has(key) ||
      this.captureGone.has(key);
    return this.fetchable && Boolean(this.records[index]?.has_capture) && !here;
  }

  /**
   * Who wrote what `slot` holds after record `index`, or null.
   * @param {number} slot @param {number} index
   */
  slotOrigin(slot, index) {
    return this.origins.of(slot, index);
  }

  /**
   * The block tables, one a block group, under which `seqId` was computed in record `index`, or null when it was not.
   * @param {number} index @param {number} seqId
   */
  tablesAtCompute(index, seqId) {
    return this.writesIn(index).find((w) => w.seq_id === seqId)?.block_tables ?? null;
  }

  /**
   * What record `index` wrote: [{seq_id, start, num_tokens, block_tables}], the tables (one a block group) as the
   * write found them.
   * @param {number} index @returns {Written[]}
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
   * The last record up to `index` in which position `position` of `seqId` was computed, or -1.
   * @param {number} seqId @param {number} position @param {number} index
   */
  computedIn(seqId, position, index) {
    const covers = (/** @type {{record: number, start: number, end: number}} */ span) =>
      span.record <= index && span.start <= position && position < span.end;
    return this.computed.get(seqId)?.findLast(covers)?.record ?? -1;
  }

  /** The last record up to `index` that computed `seqId`, or -1. @param {number} seqId @param {number} index */
  lastComputed(seqId, index) {
    return this.computed.get(seqId)?.findLast((span) => span.record <= index)?.record ?? -1;
  }

  /**
   * Index of a token among the packed tokens of its step: the first axis of q, k and v. -1 when it is not there.
   * @param {number} record @param {number} seqId @param {number} position
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

  /**
   * @template V
   * @param {Map<number, V>} map @param {number} key @param {V} value @param {number} limit
   */
  #remember(map, key, value, limit) {
    map.set(key, value);
    const oldest = map.keys().next();
    if (map.size > limit && !oldest.done) map.delete(oldest.value);
    return value;
  }
}

/** One a block group. @param {State} state @param {number} seqId */
const tablesOf = (state, seqId) => state.sequences.get(seqId)?.block_tables ?? [];
