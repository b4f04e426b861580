// The places of a pool on a canvas: one cell each, as large as there is room for.

import { prepare } from "../../kit/canvas.js";

const MOST_HEIGHT = 220; // CSS pixels
const LARGEST = 12;
const FRESH = 32; // records for which a content counts as new

/** @typedef {import("../../core/state_parts.js").Block} Block */

/** The side of a cell where `count` of them fill `width`. @param {number} count @param {number} width */
function sideOf(count, width) {
  const rough = Math.sqrt((Math.max(1, width) * MOST_HEIGHT) / Math.max(1, count));
  return Math.max(1, Math.min(LARGEST, Math.floor(rough)));
}

/** @param {HTMLCanvasElement} canvas @param {Block[]} places @param {number} index of the record that is shown */
export function paintPlaces(canvas, places, index) {
  const width = canvas.parentElement?.clientWidth ?? 300;
  const side = sideOf(places.length, width);
  const columns = Math.max(1, Math.floor(width / side));
  const context = prepare(canvas, columns * side, Math.ceil(places.length / columns) * side);
  const style = getComputedStyle(canvas);
  const [ink, fresh, line] = ["--ink-3", "--v", "--line"].map((name) => style.getPropertyValue(name));
  const gap = side > 3 ? 1 : 0;
  for (const [at, { block_hash: hash, allocated_in: since }] of places.entries()) {
    const [x, y] = [(at % columns) * side, Math.floor(at / columns) * side];
    if (hash !== null) {
      context.fillStyle = since !== null && index - since < FRESH ? fresh : ink;
      context.fillRect(x, y, side - gap, side - gap);
    } else if (side > 5) {
      context.strokeStyle = line;
      context.beginPath(); // a diagonal: not empty, but unknown
      context.moveTo(x + 1, y + side - 2);
      context.lineTo(x + side - 2, y + 1);
      context.stroke();
    }
  }
}

/** The place under the pointer; null: none. @param {PointerEvent} event @param {number} count */
export function cellAt(event, count) {
  const canvas = /** @type {HTMLCanvasElement} */ (event.currentTarget);
  const width = canvas.parentElement?.clientWidth ?? 300;
  const side = sideOf(count, width);
  const columns = Math.max(1, Math.floor(width / side));
  const [column, row] = [Math.floor(event.offsetX / side), Math.floor(event.offsetY / side)];
  const at = row * columns + column;
  return column < columns && at >= 0 && at < count ? at : null;
}
