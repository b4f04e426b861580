// Picture of Σ weight · V: one row per key with its V and its share of the sum, then the sum.

import { rowsFor, weightedSum } from "../../core/attention_output.js";
import { labelText } from "../../core/labels.js";
import { probabilityText, t } from "../../i18n/words.js";
import { colours, divergingAt } from "../../kit/colour.js";

/** @import {AttentionOutput} from "../../core/attention_output.js" */
/** @import {View} from "../../state/store.js" */

/**
 * @typedef {{width: number, height: number}} Size
 * @typedef {{kind: "key" | "rest" | "sum" | "recorded", y: number, keys: number[]}} Row
 * @typedef {ReturnType<typeof layoutOf>} Layout
 */

const TOKEN = 52; // px for a token's text
const WEIGHT = 38; // px for its weight
const GAP = 12; // px between V and weight · V
const HEAD = 14; // px above the rows, for column titles
const MIN_ROW = 13; // px of a row
const MAX_ROW = 22;
const SIDE_BY_SIDE_FROM = 300; // minimum px of width for V beside weight · V

/** Compute the layout of rows and columns. @param {AttentionOutput} output @param {Size} size */
export function layoutOf(output, { width, height }) {
  const ends = output.recorded ? 2 : 1; // the sum, and the captured vector
  const room = Math.max(1, Math.floor((height - HEAD - 4) / MIN_ROW) - ends);
  const { shown, rest } = rowsFor(output, room);
  const count = shown.length + (rest.length ? 1 : 0) + ends;
  const row = Math.min(MAX_ROW, (height - HEAD - 4) / count);
  /** @type {Row[]} */
  const rows = shown.map((i, at) => ({ kind: "key", y: HEAD + at * row, keys: [i] }));
  if (rest.length) rows.push({ kind: "rest", y: HEAD + rows.length * row, keys: rest });
  rows.push({ kind: "sum", y: HEAD + 4 + rows.length * row, keys: [...shown, ...rest] });
  if (output.recorded) rows.push({ kind: "recorded", y: HEAD + 4 + rows.length * row, keys: [] });
  const left = TOKEN + WEIGHT;
  const isSideBySide = width >= SIDE_BY_SIDE_FROM;
  const stripe = isSideBySide ? (width - left - GAP) / 2 : width - left;
  const part = isSideBySide ? left + stripe + GAP : left;
  return { rows, row, stripe, value: isSideBySide ? left : null, part, scale: scaleOf(output) };
}

/** Return the largest magnitude of each column, which gets the full colour. @param {AttentionOutput} output */
function scaleOf({ weights, values, sum }) {
  let value = 0;
  let part = sum.reduce((most, one) => Math.max(most, Math.abs(one)), 0);
  values.forEach((vector, i) => {
    const largest = vector.reduce((most, one) => Math.max(most, Math.abs(one)), 0);
    if (weights[i] > 0) value = Math.max(value, largest);
    part = Math.max(part, weights[i] * largest);
  });
  return { value: value || 1, part: part || 1 };
}

/**
 * Return the contribution of a row to the sum over the first `count` keys.
 * @param {AttentionOutput} output @param {Row} row @param {number} count
 */
export function partOf(output, row, count = output.weights.length) {
  if (row.kind === "recorded") return output.recorded ?? new Float32Array(0);
  if (row.kind === "sum") return weightedSum(output.weights, output.values, count);
  const weights = output.weights.map((weight, i) => (row.keys.includes(i) ? weight : 0));
  return weightedSum(weights, output.values, count);
}

/**
 * Paint the output. `progress` (0 to 1) is the share of the keys, in text order, that are summed.
 * @param {CanvasRenderingContext2D} c @param {View} now @param {AttentionOutput} output @param {Size} size
 * @param {number} progress
 */
export function paintOutput(c, now, output, size, progress) {
  const palette = colours();
  const layout = layoutOf(output, size);
  const count = progress * output.weights.length;
  const drawText = (
    /** @type {string} */ text,
    /** @type {number} */ x,
    /** @type {number} */ y,
    colour = palette["ink-2"],
  ) => {
    c.fillStyle = colour;
    c.fillText(text, x, y);
  };
  c.textBaseline = "middle";
  c.textAlign = "left";
  if (layout.value !== null) drawText("V", layout.value, HEAD / 2 - 1, palette.v);
  drawText(t("output.part"), layout.part, HEAD / 2 - 1, palette["ink-3"]);
  for (const row of layout.rows) {
    const middle = row.y + layout.row / 2;
    const isSummed = row.kind === "recorded" ? progress >= 1 : row.keys.some((i) => i < count);
    c.globalAlpha = isSummed ? 1 : 0.35;
    drawText(nameOf(now, output, row), 0, middle, row.kind === "key" ? palette.ink : palette["ink-2"]);
    if (row.keys.length && row.kind !== "sum")
      drawText(probabilityText(row.keys.reduce((sum, i) => sum + output.weights[i], 0)), TOKEN, middle, palette.q);
    if (row.kind === "key" && layout.value !== null)
      stripe(c, palette, layout.value, row.y, layout, output.values[row.keys[0]], layout.scale.value);
    c.globalAlpha = 1;
    if (isSummed) stripe(c, palette, layout.part, row.y, layout, partOf(output, row, count), layout.scale.part);
    if (row.kind === "sum") {
      c.fillStyle = palette["ink-3"];
      c.fillRect(0, row.y - 3, size.width, 1);
    }
  }
}

/**
 * @param {CanvasRenderingContext2D} c @param {import("../../kit/colour.js").Palette} palette
 * @param {number} x @param {number} y @param {Layout} layout @param {ArrayLike<number>} vector @param {number} scale
 */
function stripe(c, palette, x, y, layout, vector, scale) {
  const cell = layout.stripe / Math.max(1, vector.length);
  for (let d = 0; d < vector.length; d++) {
    const [r, g, b] = divergingAt(palette.diverging, vector[d] / scale);
    c.fillStyle = `rgb(${r},${g},${b})`;
    c.fillRect(x + d * cell, y + 1, cell + 0.3, layout.row - 2);
  }
}

/** @param {View} now @param {AttentionOutput} output @param {Row} row */
export function nameOf(now, output, { kind, keys }) {
  if (kind === "key") return labelText(now.labels[output.positions[keys[0]]]);
  return kind === "rest" ? t("output.rest", { n: keys.length }) : t(`output.${kind}`);
}
