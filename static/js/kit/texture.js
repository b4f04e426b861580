// Textures that distinguish sequences without colour, and the hatching of waste.

import { contextOf } from "./canvas.js";
import { alpha } from "./colour.js";

/** @typedef {(c: CanvasRenderingContext2D) => void} Mark draws in a tile of 8 by 8 */

const SIZE = 8;
/** @type {Map<string, CanvasPattern>} */
const cache = new Map();

/** @type {Mark[]} */
const MARKS = [
  (c) => dot(c, 2, 2),
  (c) => line(c, 0, 8, 8, 0),
  (c) => (line(c, 1, 2.5, 4, 2.5), line(c, 2.5, 1, 2.5, 4)),
  (c) => line(c, 0, 2.5, 8, 2.5),
  (c) => line(c, 2.5, 0, 2.5, 8),
  (c) => line(c, 0, 0, 8, 8),
  (c) => (dot(c, 2, 2), dot(c, 6, 6)),
  (c) => (line(c, 0, 4, 4, 0), line(c, 4, 8, 8, 4), line(c, 0, 4, 4, 8), line(c, 4, 0, 8, 4)),
];

/**
 * Return the pattern of sequence `id` in `colour`, for fillStyle.
 * @param {CanvasRenderingContext2D} context
 * @param {number} id
 * @param {string} colour
 * @param {number} [opacity]
 */
export function sequencePattern(context, id, colour, opacity = 0.55) {
  return pattern(
    context,
    `${id % MARKS.length}/${colour}/${opacity}`,
    alpha(colour, opacity),
    MARKS[id % MARKS.length],
  );
}

/** Return the hatching of reserved, unused slots. @param {CanvasRenderingContext2D} context @param {string} colour */
export function wastePattern(context, colour) {
  return pattern(context, `waste/${colour}`, colour, (c) => {
    line(c, -2, 6, 6, -2);
    line(c, 2, 10, 10, 2);
  });
}

/** @param {CanvasRenderingContext2D} context @param {string} key @param {string} colour @param {Mark} mark */
function pattern(context, key, colour, mark) {
  const known = cache.get(key);
  if (known) return known;
  const tile = document.createElement("canvas");
  tile.width = tile.height = SIZE * 2;
  const c = contextOf(tile);
  c.scale(2, 2);
  c.strokeStyle = c.fillStyle = colour;
  c.lineWidth = 1;
  mark(c);
  // createPattern returns null only for an empty tile
  const created = /** @type {CanvasPattern} */ (context.createPattern(tile, "repeat"));
  created.setTransform(new DOMMatrix().scale(0.5, 0.5));
  cache.set(key, created);
  return created;
}

/** @param {CanvasRenderingContext2D} c @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 */
function line(c, x0, y0, x1, y1) {
  c.beginPath();
  c.moveTo(x0, y0);
  c.lineTo(x1, y1);
  c.stroke();
}

/** @param {CanvasRenderingContext2D} c @param {number} x @param {number} y */
function dot(c, x, y) {
  c.beginPath();
  c.arc(x, y, 1.1, 0, 2 * Math.PI);
  c.fill();
}
