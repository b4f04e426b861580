// Windows of a log too long to load, as indexed by its server: columns of blocks at one record, and the rows that later
// records change. Changes overwrite rows; no operation is interpreted. Pure.

import { asBytes, decode, decodeAs } from "./codec.js";
import { lowest } from "./search.js";

/**
 * Columns by block id, or by row of the changes. `owner`: row of a sequence, -1: none yet; records are indices, -1:
 * never.
 * @typedef {object} Columns
 * @property {Int32Array} owner
 * @property {Int32Array} ref_count
 * @property {Int32Array} filled slots
 * @property {Int32Array} allocated_in
 * @property {Int32Array} used_in last record with an operation on it
 * @property {Int32Array} num_hits
 * @property {Uint8Array} is_cached
 * @property {Uint8Array} tiers bits: the media outside the pool that also have its content
 * @typedef {{first: number, end: number, record: Int32Array, block: Int32Array, records: Uint8Array[]} & Columns} Piece
 * @typedef {"owner" | "ref_count" | "filled" | "allocated_in" | "used_in" | "num_hits"} Numbers
 */

/** @type {Numbers[]} */
const NUMBERS = ["owner", "ref_count", "filled", "allocated_in", "used_in", "num_hits"];
const BYTES = /** @type {const} */ (["is_cached", "tiers"]);
const MAX_BYTES = 32 << 20; // of loaded changes and records
const NEAR = 256; // records before and after the current one that stay loaded regardless of their size

/**
 * Blocks after one record, and after nearby records while their changes are loaded; the farthest are dropped when they
 * exceed `maxBytes`.
 */
export class BlockWindow {
  /** `columns`: after record `at`. @param {number} at @param {Columns} columns @param {number} [maxBytes] */
  constructor(at, columns, maxBytes = MAX_BYTES) {
    this.maxBytes = maxBytes;
    this.numBytes = 0; // of `pieces`
    this.at = at;
    this.columns = columns;
    /** @type {Piece[]} contiguous and in order; rows of pieces before `at` contain the previous values */
    this.pieces = [];
    this.first = at; // first record that can be shown
    this.end = at + 1; // exclusive
  }

  /** @param {number} index */
  has(index) {
    return index >= this.first && index < this.end;
  }

  /** Append the changes of the next records. @param {Piece} piece starts at the window's end */
  extend(piece) {
    if (piece.first !== this.end) throw new RangeError(`changes start at record ${piece.first}, expected ${this.end}`);
    this.pieces.push(piece);
    this.numBytes += bytesOf(piece);
    this.end = piece.end;
  }

  /** Show the blocks after record `index`, which must be loaded. @param {number} index */
  goTo(index) {
    if (!this.has(index)) throw new RangeError(`record ${index} outside of [${this.first}, ${this.end})`);
    // forwards in order, backwards in reverse order
    for (const piece of index > this.at ? this.pieces : this.pieces.toReversed()) this.#exchange(piece, this.at, index);
    this.at = index;
    this.#drop();
  }

  /** Return record `index`, or null if it was not sent with the changes. @param {number} index */
  record(index) {
    const piece = this.pieces.find((one) => one.first <= index && index < one.end);
    return piece ? decodeAs(piece.records[index - piece.first], "StepRecord") : null;
  }

  /**
   * Swap rows with the blocks' values: after a forward pass the rows hold the previous values, so that the same swap in
   * reverse order restores them.
   * @param {Piece} piece
   * @param {number} from
   * @param {number} to
   */
  #exchange(piece, from, to) {
    const { record, block } = piece;
    const low = firstAbove(record, Math.min(from, to));
    const high = firstAbove(record, Math.max(from, to));
    const forwards = to > from;
    for (const name of NUMBERS) swap(this.columns[name], piece[name], block, low, high, forwards);
    for (const name of BYTES) swap(this.columns[name], piece[name], block, low, high, forwards);
  }

  /** Drop the farthest records, so that memory stays bounded during long playback. */
  #drop() {
    while (this.numBytes > this.maxBytes) {
      const [earliest, latest] = [this.pieces[0], /** @type {Piece} */ (this.pieces.at(-1))];
      const [passed, ahead] = [this.at - earliest.end, latest.first - this.at];
      if (Math.max(passed, ahead) <= NEAR) return;
      if (passed > ahead) this.first = earliest.end - 1;
      else this.end = latest.first;
      this.numBytes -= bytesOf(passed > ahead ? earliest : latest);
      if (passed > ahead) this.pieces.shift();
      else this.pieces.pop();
    }
  }
}

/** Return the size of a piece in bytes. @param {Piece} piece */
function bytesOf(piece) {
  const columns = [piece.record, piece.block, ...[...NUMBERS, ...BYTES].map((name) => piece[name])];
  return [...columns, ...piece.records].reduce((sum, { byteLength }) => sum + byteLength, 0);
}

/**
 * @param {Int32Array | Uint8Array} columns @param {Int32Array | Uint8Array} rows @param {Int32Array} block
 * @param {number} low @param {number} high @param {boolean} forwards
 */
function swap(columns, rows, block, low, high, forwards) {
  for (let n = high - low, k = forwards ? low : high - 1; n > 0; n--, k += forwards ? 1 : -1) {
    const row = columns[block[k]];
    columns[block[k]] = rows[k];
    rows[k] = row;
  }
}

/** Return the index of the first of ascending values above `value`. @param {Int32Array} values @param {number} value */
const firstAbove = (values, value) => lowest(values.length, (i) => values[i] > value);

/** @param {unknown} answer `/survey/blocks` @returns {BlockWindow} */
export function windowOf(answer) {
  const found = /** @type {Record<string, any>} */ (decode(answer));
  return new BlockWindow(found.record, columnsOf(found));
}

/** @param {unknown} answer `/survey/changes` @returns {Piece} */
export function pieceOf(answer) {
  const found = /** @type {Record<string, any>} */ (decode(answer));
  const { first, end, records } = found;
  return { first, end, records, record: ints(found.record), block: ints(found.block), ...columnsOf(found) };
}

/** @param {Record<string, any>} found @returns {Columns} */
function columnsOf(found) {
  const numbers = NUMBERS.map((name) => [name, ints(found[name])]);
  const bytes = BYTES.map((name) => [name, asBytes(found[name]).slice()]);
  return /** @type {any} */ (Object.fromEntries([...numbers, ...bytes]));
}

/** @param {unknown} bytes little endian, as on all machines that run a browser */
const ints = (bytes) => new Int32Array(asBytes(bytes).slice().buffer);

/**
 * Binned numbers of a range of records: `edges` (one more than bins), and of each number `_min`, `_max` and `_sum`.
 * @typedef {Record<string, Float64Array>} Bins
 * @param {unknown} answer `/survey/series`
 * @returns {Bins}
 */
export function binsOf(answer) {
  const found = /** @type {Record<string, unknown>} */ (decode(answer));
  return Object.fromEntries(
    Object.entries(found).map(([name, bytes]) => [name, new Float64Array(asBytes(bytes).slice().buffer)]),
  );
}

/** Return the bin of record `index`. @param {Bins} bins @param {number} index */
export const binAt = ({ edges }, index) => Math.max(0, lowest(edges.length - 1, (i) => edges[i] > index) - 1);

export const [RUNNING, PREEMPTED] = [1, 2]; // kinds of spans; 0: waiting
const KINDS = /** @type {const} */ (["waiting", "running", "preempted"]);

/**
 * Row of a sequence. Records are indices; -1: did not happen. `spans`: when it waited, ran, was preempted. Fields have
 * the names used in the table of a short run.
 * @typedef {object} SequenceRow
 * @property {number} row
 * @property {number} seq
 * @property {string} request
 * @property {string | null} client null: not in the log
 * @property {number} prompt tokens
 * @property {number | null} hit tokens of its prompt that were cached at its first admission; null before it
 * @property {number} output tokens
 * @property {number} preempted number of preemptions in the whole run
 * @property {number | null} ttft seconds
 * @property {number | null} tpot seconds
 * @property {number | null} missed seconds from the eviction of the block at which its hits ended to its lookup
 * @property {number} lost_in record of that eviction
 * @property {number | null} waited records from its submission to its first admission; a fork's is 0
 * @property {number} submitted_in
 * @property {number} admitted_in
 * @property {number} first_token_in
 * @property {number} finished_in
 * @property {string} finish_reason
 * @property {{kind: number, first: number, end: number}[]} spans
 */

/** Fields renamed to the names used for short runs. @type {Record<string, string>} */
const RENAMED = {
  seq_id: "seq",
  request_id: "request",
  num_prompt_tokens: "prompt",
  num_cached_tokens: "hit",
  num_output_tokens: "output",
  num_preemptions: "preempted",
};

/** @param {unknown} answer `/survey/sequences` @returns {SequenceRow[]} */
export function sequencesOf(answer) {
  const found = /** @type {Record<string, any[]>} */ (decode(answer));
  const names = Object.keys(found).filter((name) => !name.startsWith("span_"));
  const rows = found.seq_id.map((_, row) => {
    const [submitted, admitted] = [found.submitted_in[row], found.admitted_in[row]];
    return {
      row,
      ...Object.fromEntries(names.map((name) => [RENAMED[name] ?? name, found[name][row]])),
      ...(admitted < 0 ? { hit: null, waited: null } : { waited: Math.max(0, admitted - submitted) }),
      spans: /** @type {SequenceRow["spans"]} */ ([]),
    };
  });
  found.span_row.forEach((row, i) => {
    rows[row].spans.push({ kind: found.span_kind[i], first: found.span_first[i], end: found.span_end[i] });
  });
  return /** @type {any} built from the response's columns */ (rows);
}

/**
 * Return the status of a sequence after record `index`: null before its arrival, "finished" after its end.
 * @param {Pick<SequenceRow, "submitted_in" | "spans">} sequence
 * @param {number} index
 */
export function statusAt(sequence, index) {
  if (index < sequence.submitted_in) return null;
  const span = sequence.spans.find(({ first, end }) => first <= index && (end < 0 || index < end));
  return span ? KINDS[span.kind] : "finished";
}
