// Layout of a layer: the residual stream as a band, and above it two branches whose outputs are added to it. The
// branches are side by side, or stacked in narrow views. Pure.

const NARROW = 640; // px of width from which the branches are side by side
const TIGHT = 900; // px of width below which spacing is reduced
const TOP = 18; // px of the labels above a branch
const BETWEEN = 26; // px from a branch down to the band
const FOOT = 34; // px of the two lines below the band
const LEAST = 38;
const MAX = 150; // maximum px of a column
const PHONE = 52; // px of a column in narrow views, whose height is not limited
const BESIDE = 54; // px for the previous and next layers, which are not drawn
const BESIDE_TIGHT = 46;
const BESIDE_NARROW = 20; // without labels
const WIDE = ["weights", "hidden"];
const INNER = 5; // px between q, k and v

/**
 * Box of a part: `x`, `y`, `width`, `height` in px. Branch: `plus` is where its output is added, `tap` where it reads
 * the stream.
 *
 * @typedef {{x: number, y: number, width: number, height: number}} Box
 * @typedef {{tap: number, plus: number, from: number, to: number, top: number, band: number}} Branch
 */

/**
 * @param {{width: number, height: number}} size available space
 * @param {{first: boolean}} layer `first`: whether it is the model's first layer, whose input is the embedding
 */
export function layoutOf({ width, height }, { first }) {
  const narrow = width < NARROW;
  const rows = narrow ? 2 : 1;
  const spare = TOP + BETWEEN + FOOT + 4;
  const tall = narrow ? PHONE : Math.round(Math.max(LEAST, Math.min(MAX, (height - spare) / 2)));
  const tight = width < TIGHT;
  const column = narrow ? 11 : tight ? 14 : 16;
  const row = 2 * tall + spare;
  /** @type {Record<string, Box>} */
  const boxes = {};
  const put = (/** @type {string} */ name, /** @type {number} */ x, /** @type {number} */ y, wide = column) =>
    (boxes[name] = { x, y, width: wide, height: tall });
  const bandOf = (/** @type {number} */ index) => index * row + TOP + tall + BETWEEN;
  const edge = narrow ? 14 : 26;
  const beside = narrow ? BESIDE_NARROW : tight ? BESIDE_TIGHT : BESIDE;
  const start = first ? edge : edge + column + beside;
  const end = width - edge - column - (narrow ? 0 : beside); // space for the next layer on the right
  const middle = narrow ? end : Math.round(start + (end - start) * 0.61);
  if (!first) put("embedding", edge, bandOf(0));
  put("before", start, bandOf(0));
  put("between", middle, bandOf(0));
  if (narrow) put("between_again", edge, bandOf(1));
  const second = narrow ? 1 : 0;
  put("after", end, bandOf(second));
  const attention = branch(start + column, middle, 0);
  const ffn = branch((narrow ? edge : middle) + column, end, second);
  const gap = tight ? 17 : 32;
  fill(attention, ["attention_in", gap, "q", INNER, "k", INNER, "v", gap, "weights", gap, "sum", gap + 8, "attention"]);
  fill(ffn, ["ffn_in", gap, "hidden", gap + 4, "ffn"]);

  /** @param {number} from @param {number} to @param {number} index @returns {Branch} */
  function branch(from, to, index) {
    const reach = tight ? 18 : 26;
    return {
      tap: from + reach / 2,
      plus: to - reach,
      from: from + reach,
      to: to - reach,
      top: index * row + TOP,
      band: bandOf(index),
    };
  }
  /**
   * Place parts and gaps in order; the widest part takes the remaining space.
   * @param {Branch} of @param {(string | number)[]} parts
   */
  function fill(of, parts) {
    const lead = tight ? 10 : 28;
    const widthOf = (/** @type {string | number} */ one) => (typeof one === "number" ? one : column);
    const taken = parts.reduce(
      (/** @type {number} */ sum, one) => sum + (WIDE.includes(String(one)) ? 0 : widthOf(one)),
      0,
    );
    let x = of.from + lead;
    for (const one of parts) {
      const wide = WIDE.includes(String(one)) ? of.to - of.from - 2 * lead - taken : widthOf(one);
      if (typeof one === "string") put(one, x, of.top, wide);
      x += wide;
    }
  }
  return { narrow, rows, row, height: rows * row, tall, column, boxes, attention, ffn, edge };
}

/**
 * Pool values into at most `count` cells; each cell shows the value of largest magnitude.
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

/**
 * Shift texts into [0, width] and drop those closer than `gap` px to an earlier one.
 * @template {{x: number, width: number}} T `x`: centre
 * @param {T[]} texts @param {number} width @param {number} gap
 */
export function spaced(texts, width, gap) {
  /** @type {T[]} */
  const found = [];
  for (const text of texts) {
    const x = Math.max(text.width / 2, Math.min(width - text.width / 2, text.x));
    if (text.width <= width && found.every((other) => Math.abs(other.x - x) >= (other.width + text.width) / 2 + gap))
      found.push({ ...text, x });
  }
  return found;
}

/** Return the largest magnitude in some vectors; 1 if all are 0. @param {(Float32Array | null)[]} vectors */
export function largestOf(vectors) {
  let most = 0;
  for (const vector of vectors) for (const value of vector ?? []) most = Math.max(most, Math.abs(value));
  return most || 1;
}
