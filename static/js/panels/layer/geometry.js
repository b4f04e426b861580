// Where the parts of a layer stand: the residual stream as a band, and two branches above it that come back with what
// they add. Side by side, or one above the other where there is little width. Pure.

const NARROW = 720; // px of width from which both branches stand beside each other
const TOP = 18; // px of the labels above a branch
const BETWEEN = 22; // from a branch down to the band
const FOOT = 36; // px of the two lines below the band
const LEAST = 40;
const MOST = 150; // px of a column
const SKIPPED = 58; // px of the layers before, which are not drawn
const HIDDEN = 4; // columns of the hidden activation
const INNER = 5; // px between q, k and v

/**
 * `x`, `y`, `width`, `height` of each part by name; `plus`, where a branch comes back; `tap`, where it leaves.
 * @typedef {{x: number, y: number, width: number, height: number}} Box
 * @typedef {{tap: number, plus: number, from: number, to: number, top: number, band: number}} Branch
 */

/**
 * @param {{width: number, height: number}} size `height` is what there is; 0: as much as is good
 * @param {{first: boolean}} layer whether it is the model's first one: the embedding is what it gets
 */
export function layoutOf({ width, height }, { first }) {
  const narrow = width < NARROW;
  const rows = narrow ? 2 : 1;
  const spare = TOP + BETWEEN + FOOT + 12;
  const tall = Math.round(Math.max(LEAST, Math.min(MOST, (height / rows - spare) / 2)));
  const column = narrow ? 11 : 16;
  const row = 2 * tall + spare;
  /** @type {Record<string, Box>} */
  const boxes = {};
  const put = (/** @type {string} */ name, /** @type {number} */ x, /** @type {number} */ y, wide = column) =>
    (boxes[name] = { x, y, width: wide, height: tall });
  const bandOf = (/** @type {number} */ index) => index * row + TOP + tall + BETWEEN;
  const edge = narrow ? 14 : 26;
  const start = first ? edge : edge + column + SKIPPED;
  const end = width - edge - column;
  const middle = narrow ? end : Math.round(start + (end - start) * 0.56);
  if (!first) put("embedding", edge, bandOf(0));
  put("before", start, bandOf(0));
  const attention = branch(start + column, middle, 0);
  const second = narrow ? 1 : 0;
  put("between", middle, bandOf(0));
  if (narrow) put("between_again", edge, bandOf(1));
  const ffn = branch((narrow ? edge : middle) + column, end, second);
  put("after", end, bandOf(second));

  /** @param {number} from @param {number} to @param {number} index @returns {Branch} */
  function branch(from, to, index) {
    const reach = narrow ? 14 : 26;
    return {
      tap: from + reach / 2,
      plus: to - reach,
      from: from + reach,
      to: to - reach,
      top: index * row + TOP,
      band: bandOf(index),
    };
  }
  /** @param {Branch} of @param {[string, number][][]} groups */
  function fill(of, groups) {
    const lead = narrow ? 8 : 22;
    const [from, to] = [of.from + lead, of.to - lead];
    const used = groups.flat().reduce((sum, [, wide]) => sum + wide, 0) + INNER * (groups[1].length - 1);
    const gap = (to - from - used) / (groups.length - 1);
    let x = from;
    for (const group of groups) {
      for (const [name, wide] of group) {
        put(name, x, of.top, wide);
        x += wide + INNER;
      }
      x += gap - INNER;
    }
  }
  const room = attention.to - attention.from;
  fill(attention, [
    [["attention_in", column]],
    [
      ["q", column],
      ["k", column],
      ["v", column],
    ],
    [["weights", room * (narrow ? 0.3 : 0.34)]],
    [["sum", column]],
    [["attention", column]],
  ]);
  fill(ffn, [[["ffn_in", column]], [["hidden", HIDDEN * column]], [["ffn", column]]]);
  return { narrow, rows, row, height: rows * row, tall, column, boxes, attention, ffn, edge };
}

/**
 * Values in at most `count` cells: of the values that share a cell the one that is largest without its sign.
 * @param {Float32Array} values @param {number} count
 */
export function pooled(values, count) {
  if (values.length <= count) return values;
  const out = new Float32Array(count);
  for (let i = 0; i < values.length; i++) {
    const cell = Math.floor((i * count) / values.length);
    if (Math.abs(values[i]) > Math.abs(out[cell])) out[cell] = values[i];
  }
  return out;
}

/** The largest number of some vectors without its sign; 1 where all are 0. @param {(Float32Array | null)[]} vectors */
export function largestOf(vectors) {
  let most = 0;
  for (const vector of vectors) for (const value of vector ?? []) most = Math.max(most, Math.abs(value));
  return most || 1;
}
