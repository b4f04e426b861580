// Geometry of the small multiples: one picture per query head; heads that share a KV head are adjacent. Pure.

import { groupOf, kvShapeOf } from "../../core/shape.js";

const GUTTER = 18; // px for the layers' numbers
const BRACKET = 16; // px for the KV heads
const GAP = 2;
const GROUP_GAP = 8;
const MIN_CELL = 12; // px; smaller cells are shown as a map instead (map_geometry.js)
const MAX_CELL = 64;
const MAX_ROW_HEIGHT = 30; // maximum height in px of a cell that shows one row

/**
 * @typedef {import("../../core/shape.js").Model} Shape
 * @typedef {{layer: number, head: number, x: number, y: number}} Cell
 * @typedef {object} HeadsLayout
 * @property {number} group query heads that share a KV head
 * @property {Cell[][]} lines cells by line, in display order
 * @property {number} cellWidth in px
 * @property {number} cellHeight in px
 * @property {{kv: number, left: number, width: number}[]} brackets one for each KV head that query heads share
 * @property {boolean} isLayer whether the layout shows a single layer
 */

/** @param {number} group @param {number} count number of heads; returns the space between them */
const gapsOf = (group, count) =>
  (count - 1) * GAP + Math.floor((count - 1) / group) * (group > 1 ? GROUP_GAP - GAP : 0);

/** @param {number} group @param {number} cellWidth @param {number} place index of the head in its line */
const xOf = (group, cellWidth, place) => place * cellWidth + gapsOf(group, place + 1);

/**
 * Lay out all layers and heads in width × height. Returns null if a cell would be smaller than the minimum. With
 * `square`, a cell shows a matrix instead of a row.
 * @param {Shape} model @param {number} width @param {number} height
 * @param {boolean} square
 * @returns {HeadsLayout | null}
 */
export function headsLayout(model, width, height, square) {
  const { num_heads: count, num_layers: layers } = model;
  const group = groupOf(model);
  const top = group > 1 ? BRACKET : 0;
  const cellWidth = Math.floor((width - GUTTER - gapsOf(group, count)) / count);
  const cellHeight = Math.floor((height - top + GAP) / layers) - GAP;
  if (cellWidth < MIN_CELL || cellHeight < MIN_CELL) return null;
  const [wide, high] = cellSize(cellWidth, cellHeight, square);
  const lines = range(layers).map((layer) =>
    range(count).map((head) => ({
      layer,
      head,
      x: GUTTER + xOf(group, wide, head),
      y: top + layer * (high + GAP),
    })),
  );
  return {
    group,
    lines,
    cellWidth: wide,
    cellHeight: high,
    brackets: bracketsOf(lines[0], group, wide),
    isLayer: false,
  };
}

/**
 * Lay out the heads of one layer in width × height, with the number of lines that makes the cells largest.
 * @param {Shape} model @param {number} layer @param {number} width
 * @param {number} height @param {boolean} square
 * @returns {HeadsLayout}
 */
export function layerLayout(model, layer, width, height, square) {
  const { num_heads: count } = model;
  const group = count / kvShapeOf(model, layer).num_kv_heads;
  let best = { columns: count, cellWidth: 1, cellHeight: 1 };
  for (let columns = 1; columns <= count; columns++) {
    const lines = Math.ceil(count / columns);
    const space = gapsOf(columns % group ? count : group, columns);
    const [cellWidth, cellHeight] = cellSize(
      Math.floor((width - space) / columns),
      Math.floor((height - (lines - 1) * GAP) / lines),
      square,
    );
    if (cellWidth * cellHeight > best.cellWidth * best.cellHeight) best = { columns, cellWidth, cellHeight };
  }
  const { columns, cellWidth, cellHeight } = best;
  const spacedGroup = columns % group ? count : group; // no gaps between KV groups if a group would span two lines
  const lines = range(Math.ceil(count / columns)).map((line) =>
    range(Math.min(columns, count - line * columns)).map((place) => ({
      layer,
      head: line * columns + place,
      x: xOf(spacedGroup, cellWidth, place),
      y: line * (cellHeight + GAP),
    })),
  );
  return { group, lines, cellWidth, cellHeight, brackets: [], isLayer: true };
}

/** @type {(cellWidth: number, cellHeight: number, square: boolean) => [number, number]} */
const cellSize = (cellWidth, cellHeight, square) => {
  const [wide, high] = [Math.min(MAX_CELL, cellWidth), Math.min(square ? MAX_CELL : MAX_ROW_HEIGHT, cellHeight)];
  return square ? [Math.min(wide, Math.round(high * 1.5)), Math.min(high, wide)] : [wide, high];
};

/** @param {Cell[]} line @param {number} group @param {number} cellWidth */
function bracketsOf(line, group, cellWidth) {
  /** @type {HeadsLayout["brackets"]} */
  const brackets = [];
  for (const { head, x } of group > 1 ? line : []) {
    const kv = Math.floor(head / group);
    let last = brackets.at(-1);
    if (last?.kv !== kv) {
      last = { kv, left: x, width: 0 };
      brackets.push(last);
    }
    last.width = x + cellWidth - last.left;
  }
  return brackets;
}

/** @param {number} count */
const range = (count) => Array.from({ length: count }, (_, i) => i);
