// Geometry of the map of all layers and heads: one cell of a few pixels for each, for any model size. Pure.

import { groupOf } from "../../core/shape.js";

const LEFT = 24; // px for the layers' numbers
const TOP = 17; // px for the heads' numbers, and the KV heads under them
const [MAX_ACROSS, MAX_DOWN] = [48, 24];
const GAP_FROM = 5; // px of a cell from which cells are 1 px apart
const GROUP_GAP = 2; // extra px between heads of different KV heads
const [LABEL_ACROSS, LABEL_DOWN] = [22, 14]; // px that a number needs

/**
 * @typedef {object} HeadMapLayout
 * @property {number[]} layers from the top; every n-th if there are more layers than pixels
 * @property {number[]} heads
 * @property {(place: number) => number} across px of a cell, by its index in `heads`
 * @property {(place: number) => number} down
 * @property {(place: number) => number} x of a cell, by its index in `heads`
 * @property {(place: number) => number} y
 * @property {number} group query heads that share a KV head
 * @property {number} top
 * @property {number[]} namedLayers indices of the layers whose numbers are drawn
 * @property {number[]} namedHeads
 * @property {(x: number, y: number) => {layer: number, head: number | null} | null} hit cell at a point; `head`
 *   null: the layer's number
 */

/**
 * @param {import("./heads_geometry.js").Shape} model
 * @param {number} width
 * @param {number} height
 * @param {number} ratio device pixels per CSS pixel
 * @returns {HeadMapLayout}
 */
export function mapLayout(model, width, height, ratio) {
  const group = groupOf(model);
  const heads = everyNth(model.num_heads, (width - LEFT) * ratio);
  const layers = everyNth(model.num_layers, (height - TOP) * ratio);
  const apart = group > 1 && (width - LEFT) / heads.length > GAP_FROM ? GROUP_GAP : 0;
  const spaces = Math.floor((heads.length - 1) / group) * apart;
  const stepX = Math.min(MAX_ACROSS, (width - LEFT - spaces) / heads.length);
  const stepY = Math.min(MAX_DOWN, (height - TOP) / layers.length);
  /** @param {number} at edge of a cell; snapped to device pixels */
  const snapped = (at) => Math.round(at * ratio) / ratio;
  /** @param {number} place */
  const x = (place) => LEFT + snapped(place * stepX) + Math.floor(place / group) * apart;
  /** @param {number} place */
  const y = (place) => TOP + snapped(place * stepY);
  /** @type {(step: number, place: number) => number} */
  const size = (step, place) => snapped((place + 1) * step) - snapped(place * step) - (step >= GAP_FROM ? 1 : 0);
  return {
    layers,
    heads,
    across: (place) => size(stepX, place),
    down: (place) => size(stepY, place),
    x,
    y,
    group,
    top: TOP,
    namedLayers: named(layers.length, stepY, LABEL_DOWN),
    namedHeads: named(heads.length, stepX, LABEL_ACROSS),
    hit: (px, py) => {
      const line = Math.min(layers.length, Math.floor((py - TOP) / stepY));
      if (line < 0 || line >= layers.length) return null;
      if (px < LEFT) return { layer: layers[line], head: null };
      let place = Math.min(heads.length - 1, Math.floor((px - LEFT) / stepX));
      while (place > 0 && x(place) > px) place -= 1; // undo the shift by gaps between groups
      return px < x(place) + stepX ? { layer: layers[line], head: heads[place] } : null;
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
 * @param {number} count
 * @param {number} step
 * @param {number} room
 */
function named(count, step, room) {
  const every = 2 ** Math.max(0, Math.ceil(Math.log2(room / step)));
  return Array.from({ length: Math.ceil(count / every) }, (_, i) => i * every);
}
