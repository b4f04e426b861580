// A causal matrix as an image that grows by rows. Each row is added once, and drawing costs the same for 20 and for
// 2,000 rows. In coarser copies a pixel is the maximum of 2 × 2, 4 × 4, … weights, so single strong weights stay
// visible when a weight is smaller than a pixel.

import { laterWeights } from "../../core/attention.js";
import { contextOf } from "../../kit/canvas.js";
import { colours, sequentialAt } from "../../kit/colour.js";

const MIN_CAPACITY = 64; // initial number of rows; it doubles when exceeded

/**
 * Bytes of the image at several resolutions. A byte of level l covers 2^l × 2^l weights. 0: no weight; 1…255: share of
 * the row's maximum.
 */
export class RowPyramid {
  capacity = 0;
  /** @type {{size: number, bytes: Uint8Array}[]} */
  levels = [];
  /** @type {string[]} source of each row */
  sources = [];
  /** @type {Map<number, NonNullable<ReturnType<typeof laterWeights>>>} non-causal rows, by query */
  later = new Map();

  clear() {
    this.capacity = 0;
    this.levels = [];
    this.sources = [];
    this.later = new Map();
  }

  /**
   * Add the row of `query`, or replace it. `source` names its origin.
   * @param {number} query @param {string} source @param {number} keyStart
   * @param {Float32Array} weights @param {number} max
   */
  put(query, source, keyStart, weights, max) {
    const side = Math.max(query + 1, keyStart + weights.length); // a non-causal row may have keys after its query
    if (side > this.capacity) this.#grow(side);
    this.sources[query] = source;
    const { size, bytes } = this.levels[0];
    bytes.fill(0, query * size, (query + 1) * size);
    for (let i = 0; i < weights.length; i++)
      bytes[query * size + keyStart + i] = 1 + Math.round(254 * (max > 0 ? weights[i] / max : 0));
    for (let level = 1; level < this.levels.length; level++) this.#pool(level, query >> level);
  }

  /**
   * Return rows [first, last) at `level` pooled into one line: the maximum of each square.
   * @param {number} level @param {number} first @param {number} last
   */
  line(level, first, last) {
    const { size, bytes } = this.levels[0];
    const line = new Uint8Array(this.levels[level].size);
    for (let row = first; row < last; row++)
      for (let key = 0; key < size; key++) {
        const value = bytes[row * size + key];
        if (value > line[key >> level]) line[key >> level] = value;
      }
    return line;
  }

  /** @param {number} level @param {number} y */
  #pool(level, y) {
    const { size, bytes } = this.levels[level];
    const { size: below, bytes: from } = this.levels[level - 1];
    for (let x = 0; x < size; x++) {
      const at = 2 * y * below + 2 * x;
      bytes[y * size + x] = Math.max(from[at], from[at + 1], from[at + below], from[at + below + 1]);
    }
  }

  /** @param {number} count */
  #grow(count) {
    const old = this.levels[0];
    const rows = this.capacity;
    this.capacity = Math.max(MIN_CAPACITY, 2 ** Math.ceil(Math.log2(count)));
    this.levels = [];
    for (let size = this.capacity; size >= 8; size /= 2) this.levels.push({ size, bytes: new Uint8Array(size * size) });
    for (let row = 0; row < rows; row++)
      this.levels[0].bytes.set(old.bytes.subarray(row * rows, (row + 1) * rows), row * this.capacity);
    for (let level = 1; level < this.levels.length; level++)
      for (let y = 0; y < this.levels[level].size; y++) this.#pool(level, y);
  }
}

/**
 * Return the number of cells per side for a matrix of `count` rows. It grows in steps, so cells do not shrink with
 * every token.
 * @param {number} count
 */
export function cellsFor(count) {
  if (count <= 16) return 16;
  const step = 2 ** Math.max(2, Math.floor(Math.log2(count)) - 3);
  return Math.ceil(count / step) * step;
}

/** A `RowPyramid` with one canvas per level. */
export class RowImage {
  rows = new RowPyramid();
  key = "";
  /** @type {{canvas: HTMLCanvasElement, dirty: Set<number>}[]} by level; `dirty` has the rows to repaint */
  pictures = [];
  /** @type {HTMLCanvasElement | null} */
  strip = null;
  /** pixel by byte */
  lookup = new Uint32Array(256);
  /** @type {number | null} */
  theme = null;

  /**
   * Clear the image if `key` (log, sequence, layer, head) changes. A new `theme` only recolours it.
   * @param {string} key @param {number} theme
   */
  reset(key, theme) {
    if (key !== this.key) {
      this.key = key;
      this.rows.clear();
      this.pictures = [];
    }
    if (theme !== this.theme) {
      this.theme = theme;
      this.lookup = lookupTable();
      this.pictures = [];
    }
  }

  /**
   * @param {number} query @param {string} source
   * @param {NonNullable<ReturnType<typeof import("../../core/attention.js").rowOf>>} row
   */
  put(query, source, row) {
    const before = this.rows.capacity;
    this.rows.put(query, source, row.keyStart, row.weights, row.max);
    const later = laterWeights(row, query);
    if (later) this.rows.later.set(query, later);
    else this.rows.later.delete(query);
    if (this.rows.capacity !== before) this.pictures = [];
    this.pictures.forEach((picture, level) => picture?.dirty.add(query >> level));
  }

  /**
   * Draw rows [first, last) of a matrix whose corner is at (0, 0), with `cell` CSS pixels per weight and `ratio` device
   * pixels per CSS pixel.
   * @param {CanvasRenderingContext2D} context @param {number} first @param {number} last
   * @param {number} cell @param {number} ratio
   */
  draw(context, first, last, cell, ratio) {
    if (!this.rows.capacity || first >= last) return;
    let level = 0;
    while (cell * ratio * 2 ** level < 1 && level < this.rows.levels.length - 1) level++;
    const span = 2 ** level;
    const from = Math.ceil(first / span); // rows of the level that lie entirely inside [first, last)
    const to = Math.floor(last / span);
    context.imageSmoothingEnabled = false;
    if (from < to) {
      const width = Math.min(to, this.rows.levels[level].size);
      const side = span * cell;
      context.drawImage(
        this.#picture(level),
        0,
        from,
        width,
        to - from,
        0,
        from * side,
        width * side,
        (to - from) * side,
      );
    }
    if (from > to) return this.#partial(context, level, first, last, cell);
    this.#partial(context, level, first, Math.min(last, from * span), cell);
    this.#partial(context, level, Math.max(first, to * span), last, cell);
  }

  /**
   * Draw rows that cover only part of a row of the level.
   * @param {CanvasRenderingContext2D} context @param {number} level @param {number} first
   * @param {number} last @param {number} cell
   */
  #partial(context, level, first, last, cell) {
    if (first >= last) return;
    const line = this.rows.line(level, first, last);
    this.strip ??= document.createElement("canvas");
    if (this.strip.width !== line.length) this.strip.width = line.length;
    this.strip.height = 1;
    this.#paint(contextOf(this.strip), line, 0);
    context.drawImage(
      this.strip,
      0,
      0,
      line.length,
      1,
      0,
      first * cell,
      line.length * cell * 2 ** level,
      (last - first) * cell,
    );
  }

  /** @param {number} level */
  #picture(level) {
    const { size, bytes } = this.rows.levels[level];
    let picture = this.pictures[level];
    if (!picture) {
      const canvas = document.createElement("canvas");
      canvas.width = canvas.height = size;
      picture = this.pictures[level] = { canvas, dirty: new Set(Array.from({ length: size }, (_, y) => y)) };
    }
    const context = contextOf(picture.canvas);
    for (const y of picture.dirty) this.#paint(context, bytes.subarray(y * size, (y + 1) * size), y);
    picture.dirty.clear();
    return picture.canvas;
  }

  /** @param {CanvasRenderingContext2D} context @param {Uint8Array} line @param {number} y */
  #paint(context, line, y) {
    const image = context.createImageData(line.length, 1);
    const pixels = new Uint32Array(image.data.buffer);
    for (let x = 0; x < line.length; x++) pixels[x] = this.lookup[line[x]];
    context.putImageData(image, 0, y);
  }
}

/** Pixels (as words of image data) for the bytes of a pyramid, on the attention colour scale. Byte 0 is transparent. */
export function lookupTable() {
  const scale = colours().sequential;
  const colour = (/** @type {number} */ byte) => sequentialAt(scale, (byte - 1) / 254).match(/\d+/g) ?? [];
  const bytes = Array.from({ length: 256 }, (_, byte) => (byte ? [...colour(byte).map(Number), 255] : [0, 0, 0, 0]));
  return new Uint32Array(Uint8Array.from(bytes.flat()).buffer);
}
