// Geometry of the map of all layers and heads: one cell of a few pixels for each, for any model size. Pure.

import { groupOf } from "../../core/shape.js";

const LEFT = 24; // px for the layers' numbers
const TOP = 17; // px for the heads' numbers, and the KV heads under them
const [MAX_WIDTH, MAX_HEIGHT] = [48, 24];
const GAP_FROM = 5; // minimum px of a cell for a gap of 1 px between cells
const GROUP_GAP = 2; // extra px between heads of different KV heads
const [LABEL_WIDTH, LABEL_HEIGHT] = [22, 14]; // px that a number needs

/**
 * @typedef {object} HeadMapLayout
 * @property {number[]} layers from the top; every n-th if there are more layers than pixels
 * @property {number[]} heads
 * @property {(column: number) => number} cellWidth in px, by the cell's index in `heads`
 * @property {(line: number) => number} cellHeight in px, by the cell's index in `layers`
 * @property {(column: number) => number} x left edge of a cell
 * @property {(line: number) => number} y top edge of a cell
 * @property {number} group query heads that share a KV head
 * @property {number} top
 * @property {number[]} labelledLayers indices in `layers` whose numbers are drawn
 * @property {number[]} labelledHeads
 * @property {(x: number, y: number) => {layer: number, head: number | null} | null} hit returns the cell at a point;
 *   `head` is null at the number of a layer
 */

/**
 * @param {import("./heads_geometry.js").Shape} model @param {number} width @param {number} height
 * @param {number} ratio device pixels per CSS pixel
 * @returns {HeadMapLayout}
 */
export function mapLayout(model, width, height, ratio) {
  const group = groupOf(model);
  const heads = everyNth(model.num_heads, (width - LEFT) * ratio);
  const layers = everyNth(model.num_layers, (height - TOP) * ratio);
  const gap = group > 1 && (width - LEFT) / heads.length > GAP_FROM ? GROUP_GAP : 0;
  const spaces = Math.floor((heads.length - 1) / group) * gap;
  const stepX = Math.min(MAX_WIDTH, (width - LEFT - spaces) / heads.length);
  const stepY = Math.min(MAX_HEIGHT, (height - TOP) / layers.length);
  /** @param {number} at edge of a cell; snapped to device pixels */
  const snapped = (at) => Math.round(at * ratio) / ratio;
  /** @param {number} column */
  const x = (column) => LEFT + snapped(column * stepX) + Math.floor(column / group) * gap;
  /** @param {number} column */
  const y = (column) => TOP + snapped(column * stepY);
  /** @type {(step: number, column: number) => number} */
  const size = (step, column) => snapped((column + 1) * step) - snapped(column * step) - (step >= GAP_FROM ? 1 : 0);
  return {
    layers,
    heads,
    cellWidth: (column) => size(stepX, column),
    cellHeight: (column) => size(stepY, column),
    x,
    y,
    group,
    top: TOP,
    labelledLayers: labelled(layers.length, stepY, LABEL_HEIGHT),
    labelledHeads: labelled(heads.length, stepX, LABEL_WIDTH),
    hit: (px, py) => {
      const line = Math.min(layers.length, Math.floor((py - TOP) / stepY));
      if (line < 0 || line >= layers.length) return null;
      if (px < LEFT) return { layer: layers[line], head: null };
      let column = Math.min(heads.length - 1, Math.floor((px - LEFT) / stepX));
      while (column > 0 && x(column) > px) column -= 1; // undo the shift by gaps between groups
      return px < x(column) + stepX ? { layer: layers[line], head: heads[column] } : null;
    },
  };
}

/** @param {number} count @param {number} pixels */
function everyNth(count, pixels) {
  const step = Math.max(1, Math.ceil(count / Math.max(1, pixels)));
  return Array.from({ length: Math.ceil(count / step) }, (_, i) => i * step);
}

/**
 * Indices that are labelled: every one, every second, every fourth, …
 * @param {number} count @param {number} step @param {number} minSpacing
 */
function labelled(count, step, minSpacing) {
  const every = 2 ** Math.max(0, Math.ceil(Math.log2(minSpacing / step)));
  return Array.from({ length: Math.ceil(count / every) }, (_, i) => i * every);
}
