// Layout of a layer: the residual stream as a band, and above it the two branches whose outputs are added to it. The
// branches are side by side, or stacked in narrow views. Pure.

const SIDE_BY_SIDE_FROM = 640; // minimum px of width for branches side by side
const REDUCED_BELOW = 900; // px of width; a narrower picture has reduced spacing
const LABEL_HEIGHT = 18; // px, above a branch
const BAND_DISTANCE = 26; // px between a branch and the band
const FOOT_HEIGHT = 34; // px of the two text lines below the band
const MIN_COLUMN = 38; // px of height
const MAX_COLUMN = 150; // px of height
const PHONE_COLUMN = 52; // px of height in narrow views, where the picture may be higher than the panel
const NEIGHBOUR_WIDTH = 54; // px for the labels of the previous and next layers, which are not drawn
const NEIGHBOUR_WIDTH_REDUCED = 46;
const NEIGHBOUR_WIDTH_NARROW = 20; // without labels
const FLEXIBLE = ["weights", "hidden"];
const INNER = 5; // px between q, k and v

/**
 * @typedef {{x: number, y: number, width: number, height: number}} Box of a part, in px
 *
 * A branch reads the stream at `tap`; its output is added at `plus`.
 * @typedef {{tap: number, plus: number, from: number, to: number, top: number, band: number}} Branch
 */

/**
 * @param {{width: number, height: number}} size available space
 * @param {{first: boolean}} layer `first`: the model's first layer, whose input is the embedding
 */
export function layoutOf({ width, height }, { first }) {
  const narrow = width < SIDE_BY_SIDE_FROM;
  const rows = narrow ? 2 : 1;
  const spare = LABEL_HEIGHT + BAND_DISTANCE + FOOT_HEIGHT + 4;
  const tall = narrow ? PHONE_COLUMN : Math.round(Math.max(MIN_COLUMN, Math.min(MAX_COLUMN, (height - spare) / 2)));
  const isReduced = width < REDUCED_BELOW;
  const column = narrow ? 11 : isReduced ? 14 : 16;
  const row = 2 * tall + spare;
  /** @type {Record<string, Box>} */
  const boxes = {};
  const place = (/** @type {string} */ name, /** @type {number} */ x, /** @type {number} */ y, wide = column) =>
    (boxes[name] = { x, y, width: wide, height: tall });
  const bandOf = (/** @type {number} */ index) => index * row + LABEL_HEIGHT + tall + BAND_DISTANCE;
  const edge = narrow ? 14 : 26;
  const neighbourWidth = narrow ? NEIGHBOUR_WIDTH_NARROW : isReduced ? NEIGHBOUR_WIDTH_REDUCED : NEIGHBOUR_WIDTH;
  const start = first ? edge : edge + column + neighbourWidth;
  const end = width - edge - column - (narrow ? 0 : neighbourWidth); // space for the next layer on the right
  const middle = narrow ? end : Math.round(start + (end - start) * 0.61);
  if (!first) place("embedding", edge, bandOf(0));
  place("before", start, bandOf(0));
  place("between", middle, bandOf(0));
  if (narrow) place("between_again", edge, bandOf(1));
  const second = narrow ? 1 : 0;
  place("after", end, bandOf(second));
  const attention = branch(start + column, middle, 0);
  const ffn = branch((narrow ? edge : middle) + column, end, second);
  const gap = isReduced ? 17 : 32;
  fill(attention, ["attention_in", gap, "q", INNER, "k", INNER, "v", gap, "weights", gap, "sum", gap + 8, "attention"]);
  fill(ffn, ["ffn_in", gap, "hidden", gap + 4, "ffn"]);

  /** @param {number} from @param {number} to @param {number} index @returns {Branch} */
  function branch(from, to, index) {
    const reach = isReduced ? 18 : 26;
    return {
      tap: from + reach / 2,
      plus: to - reach,
      from: from + reach,
      to: to - reach,
      top: index * row + LABEL_HEIGHT,
      band: bandOf(index),
    };
  }
  /**
   * Place parts and gaps in order. The `FLEXIBLE` part takes the remaining space.
   * @param {Branch} of @param {(string | number)[]} parts
   */
  function fill(of, parts) {
    const lead = isReduced ? 10 : 28;
    const widthOf = (/** @type {string | number} */ one) => (typeof one === "number" ? one : column);
    const fixedWidth = parts.reduce(
      (/** @type {number} */ sum, one) => sum + (FLEXIBLE.includes(String(one)) ? 0 : widthOf(one)),
      0,
    );
    let x = of.from + lead;
    for (const one of parts) {
      const wide = FLEXIBLE.includes(String(one)) ? of.to - of.from - 2 * lead - fixedWidth : widthOf(one);
      if (typeof one === "string") place(one, x, of.top, wide);
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
 * Shift texts into [0, width] and drop texts closer than `gap` px to an earlier one.
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

/** Return the largest magnitude in `vectors`, or 1 if all values are 0. @param {(Float32Array | null)[]} vectors */
export function largestOf(vectors) {
  let largest = 0;
  for (const vector of vectors) for (const value of vector ?? []) largest = Math.max(largest, Math.abs(value));
  return largest || 1;
}
