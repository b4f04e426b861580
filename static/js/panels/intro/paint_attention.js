// Picture of attention: the query word in orange, a line to each earlier word whose thickness is the weight, values
// moving back along the lines, and the resulting word. Painted in the opening and in the intro view.

import { colours } from "../../kit/colour.js";
import { fontOf } from "./geometry.js";
import { paintStripes } from "./stripes.js";
import { eased, linear } from "./time.js";

/** @import {Columns, Size} from "./geometry.js" */

/**
 * @typedef {{
 *   words: string[], numPrompt: number, weights: Float32Array | null, query: number, next: string | null,
 *   k: (position: number) => Float32Array | null, v: (position: number) => Float32Array | null,
 *   q: Float32Array | null,
 * }} AttentionInputs `words` of all positions up to the query's, `weights` of the keys from position 0, `next` the
 *   sampled word
 * @typedef {{cells: number, query: number, lines: number, values: number, next: number}} Progress each from 0 to 1
 */

const CELL = 32; // maximum px of height of K and V each
const MAX_WRITTEN = 3; // weights written as numbers
const MIN_DISTANCE = 40; // minimum px between two written weights; the smaller one is dropped
const FULL_FROM = 0.04; // minimum weight that is written; lines begin at a quarter of it

/** Return the progress of the picture `now` seconds after it began. @param {number} now @returns {Progress} */
export const attentionAt = (now) => ({
  cells: eased(now, 0, 0.6),
  query: eased(now, 0.5, 1),
  lines: linear(now, 1, 2.6),
  values: linear(now, 2.6, 4),
  next: eased(now, 4, 4.6),
});

/** The complete picture. @type {Progress} */
export const COMPLETE = { cells: 1, query: 1, lines: 1, values: 1, next: 1 };

/**
 * Compute the y positions of the picture's rows.
 * @param {Size} size @param {Columns} columns
 * @param {number} [between] px reserved between cells and words
 */
export function rowsOf({ height }, { size }, between = 0) {
  const cell = Math.round(Math.max(12, Math.min(CELL, 0.11 * height)));
  const below = size + 24 + cell;
  const text = Math.round(Math.min(height - below, height * 0.72));
  const v = text - size * 0.5 - 20 - between - cell;
  return { text, v, k: v - cell - 4, q: text + size * 0.5 + 18, cell };
}

/**
 * @param {CanvasRenderingContext2D} c
 * @param {Columns} columns of the words, including the next one
 * @param {ReturnType<typeof rowsOf>} rows @param {AttentionInputs} attention @param {Progress} progress
 * @param {(position: number) => number} [visibleShare] share of a position's cells that is visible
 */
export function paintAttention(c, columns, rows, attention, progress, visibleShare = () => progress.cells) {
  const { words, query } = attention;
  for (let p = columns.first; p <= query; p++)
    paintColumn(c, columns, rows, attention, p, { ...progress, cells: visibleShare(p) });
  if (progress.query > 0) paintQuery(c, columns, rows, attention, progress);
  if (progress.lines > 0) paintLines(c, columns, rows, attention, progress);
  if (progress.next > 0 && attention.next !== null)
    paintWord(c, columns, words.length, attention.next, rows.text - 14 * (1 - progress.next), {
      colour: colours().generated,
      opacity: progress.next,
    });
  if (columns.first > 0) {
    c.fillStyle = colours()["ink-3"];
    c.textAlign = "center";
    c.fillText("…", Math.max(8, columns.x[0] - columns.widths[0] / 2 - 4), rows.text);
  }
}

/**
 * Paint a word at its column.
 * @param {CanvasRenderingContext2D} c @param {Columns} columns @param {number} position
 * @param {string} word @param {number} y
 * @param {{colour: string, opacity?: number}} look
 */
export function paintWord(c, { x, size, first }, position, word, y, { colour, opacity = 1 }) {
  const at = x[position - first];
  if (at === undefined) return;
  c.globalAlpha = opacity;
  c.font = fontOf(size);
  c.textAlign = "center";
  c.textBaseline = "middle";
  c.fillStyle = colour;
  c.fillText(word, at, y);
  c.globalAlpha = 1;
}

/**
 * @param {CanvasRenderingContext2D} c @param {Columns} columns @param {ReturnType<typeof rowsOf>} rows
 * @param {AttentionInputs} attention @param {number} p @param {Progress} progress
 */
export function paintColumn(c, columns, rows, attention, p, progress) {
  const palette = colours();
  const at = columns.x[p - columns.first];
  const width = Math.min(columns.widths[p - columns.first] - 8, 56);
  const isQuery = p === attention.query && progress.query > 0;
  const textColour = p < attention.numPrompt ? palette.prompt : palette.generated;
  paintWord(c, columns, p, attention.words[p], rows.text, { colour: isQuery ? palette.q : textColour });
  c.globalAlpha = progress.cells * (0.45 + 0.55 * brightness(attention, p, progress));
  const box = { x: at - width / 2, y: rows.k, width, height: rows.cell };
  paintStripes(c, attention.k(p), "k", box);
  paintStripes(c, attention.v(p), "v", { ...box, y: rows.v });
  c.globalAlpha = 1;
}

/**
 * Brightness of a column: full before attention begins, then by weight.
 * @param {AttentionInputs} attention @param {number} p @param {Progress} progress
 */
function brightness({ weights }, p, progress) {
  if (!weights) return 1;
  const maxWeight = weights.reduce((a, b) => Math.max(a, b), 1e-9);
  return 1 - progress.lines * (1 - Math.sqrt((weights[p] ?? 0) / maxWeight));
}

/**
 * @param {CanvasRenderingContext2D} c @param {Columns} columns @param {ReturnType<typeof rowsOf>} rows
 * @param {AttentionInputs} attention @param {Progress} progress
 */
function paintQuery(c, columns, rows, attention, progress) {
  const at = columns.x[attention.query - columns.first];
  const width = Math.min(columns.widths[attention.query - columns.first] - 8, 56);
  c.globalAlpha = progress.query;
  paintStripes(c, attention.q, "q", { x: at - width / 2, y: rows.q, width, height: rows.cell });
  c.fillStyle = colours().q;
  c.font = fontOf(16, "600");
  c.textAlign = "right";
  c.textBaseline = "middle";
  c.fillText("Q", at - width / 2 - 8, rows.q + rows.cell / 2);
  c.globalAlpha = progress.cells;
  const left = columns.x[0] - columns.widths[0] / 2 - 2;
  if (left > 14) {
    c.fillStyle = colours().k;
    c.fillText("K", left, rows.k + rows.cell / 2);
    c.fillStyle = colours().v;
    c.fillText("V", left, rows.v + rows.cell / 2);
  }
  c.globalAlpha = 1;
}

/**
 * @param {CanvasRenderingContext2D} c @param {Columns} columns @param {ReturnType<typeof rowsOf>} rows
 * @param {AttentionInputs} attention @param {Progress} progress
 */
function paintLines(c, columns, rows, attention, progress) {
  const { weights, query } = attention;
  if (!weights) return;
  const palette = colours();
  const from = columns.x[query - columns.first];
  const written = writtenWeights(weights, columns);
  const reach = Math.max(1, query - columns.first);
  for (let p = columns.first; p <= query; p++) {
    if (weights[p] < FULL_FROM / 4) continue;
    const to = columns.x[p - columns.first];
    const distance = (query - p) / reach; // lines to nearer words are drawn first
    const drawn = eased(progress.lines, 0.5 * distance, 0.5 * distance + 0.5);
    const apex = Math.max(14, rows.k - 26 - (rows.k - 46) * Math.sqrt(distance));
    const curve = p === query ? loop(from, rows.k) : arc(from, to, rows.k - 4, apex);
    c.strokeStyle = palette.q;
    c.lineCap = "round";
    c.globalAlpha = 0.3 + 0.6 * Math.min(1, weights[p] / 0.25);
    c.lineWidth = 1 + 9 * weights[p];
    strokeSection(c, curve, 0, drawn);
    const backProgress = progress.values;
    if (backProgress > 0 && backProgress < 1 && p !== query) {
      c.strokeStyle = palette.v;
      c.globalAlpha = Math.min(1, 0.25 + 3 * weights[p]);
      c.lineWidth = 2 + 12 * weights[p];
      strokeSection(c, curve, Math.max(0, 1 - backProgress * 1.25), Math.min(1, 1.25 - backProgress * 1.25));
    }
  }
  c.globalAlpha = linear(progress.lines, 0.8, 1);
  c.fillStyle = palette["ink-2"];
  c.strokeStyle = palette.paper;
  c.lineWidth = 5;
  c.lineJoin = "round";
  c.font = fontOf(14);
  c.textAlign = "center";
  c.textBaseline = "alphabetic";
  for (const p of progress.lines > 0.8 ? written : []) {
    if (weights[p] < FULL_FROM) continue;
    const isOwn = p === query;
    const at = isOwn ? from + 36 : Math.max(18, columns.x[p - columns.first]);
    const y = isOwn ? rows.k - 28 : rows.k - 10;
    c.strokeText(weights[p].toFixed(2), at, y); // the outline keeps it readable over a thick line
    c.fillText(weights[p].toFixed(2), at, y);
  }
  c.globalAlpha = 1;
}

/**
 * Return the positions of the weights to write: the largest ones, at least `MIN_DISTANCE` apart.
 * @param {Float32Array} weights @param {Columns} columns
 */
function writtenWeights(weights, { x, first }) {
  const found = new Set();
  for (const p of [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, MAX_WRITTEN))
    if (![...found].some((other) => Math.abs(x[p - first] - x[other - first]) < MIN_DISTANCE)) found.add(p);
  return found;
}

/** @typedef {[number, number, number, number, number, number, number, number]} Curve points of a cubic Bézier */

/** @type {(from: number, to: number, foot: number, roof: number) => Curve} */
const arc = (from, to, foot, apex) => [from, foot, from, apex, to, apex, to, foot - 16];

/** @type {(at: number, foot: number) => Curve} */
const loop = (at, foot) => [at, foot - 4, at + 2, foot - 20, at + 8, foot - 34, at + 16, foot - 34];

const SEGMENTS = 40;

/**
 * Stroke a section of a curve.
 * @param {CanvasRenderingContext2D} c @param {number[]} curve
 * @param {number} from share, 0 to 1
 * @param {number} to
 */
function strokeSection(c, [x0, y0, x1, y1, x2, y2, x3, y3], from, to) {
  if (to <= from) return;
  c.beginPath();
  for (let i = 0; i <= SEGMENTS; i++) {
    const t = from + ((to - from) * i) / SEGMENTS;
    const s = 1 - t;
    const x = s * s * s * x0 + 3 * s * s * t * x1 + 3 * s * t * t * x2 + t * t * t * x3;
    const y = s * s * s * y0 + 3 * s * s * t * y1 + 3 * s * t * t * y2 + t * t * t * y3;
    if (i) c.lineTo(x, y);
    else c.moveTo(x, y);
  }
  c.stroke();
}
