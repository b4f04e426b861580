// Layout of a matrix product: the input above the weights, the row's products below, the result on the right. Pure.

/** @import {Projection} from "../../core/wire.js" */

const LEFT = 36; // px of the names
const RIGHT = 92; // px of the two result columns
const COLUMN = 16;
const TOP = 18; // px above the input
const READ = 12; // px of the input's height
const GAP = 8;
const PRODUCTS = 40; // px of the chosen row's products
const LEAST = 64; // minimum px of the matrix
const CELL = 2; // minimum px of a cell

/**
 * Return the boxes in width × height; `height` is the total, which may exceed the given one.
 * @param {number} width
 * @param {number} height
 * @param {number} rows
 * @param {number} columns
 */
export function productLayout(width, height, rows, columns) {
  const around = TOP + READ + GAP + GAP + PRODUCTS;
  const tall = Math.max(LEAST, Math.min(height - around, 8 * rows));
  const wide = Math.max(LEAST, Math.min(width - LEFT - RIGHT, 6 * columns));
  const top = TOP + READ + GAP;
  const box = (/** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ w, /** @type {number} */ h) => ({
    x,
    y,
    width: w,
    height: h,
  });
  const end = LEFT + wide;
  return {
    rows,
    columns,
    height: around + tall,
    x: box(LEFT, TOP, wide, READ),
    matrix: box(LEFT, top, wide, tall),
    products: box(LEFT, top + tall + GAP, wide, PRODUCTS),
    y: box(end + 18, top, COLUMN, tall),
    cached: box(end + RIGHT - COLUMN - 6, top, COLUMN, tall),
  };
}

/**
 * Return the row at a point, and its column if the point is over the weights. Returns null beside the rows.
 * @param {ReturnType<typeof productLayout>} layout
 * @param {number} x
 * @param {number} y
 */
export function cellAt({ rows, columns, matrix, cached }, x, y) {
  if (x < matrix.x || x > cached.x + cached.width || y < matrix.y || y >= matrix.y + matrix.height) return null;
  const row = Math.floor(((y - matrix.y) / matrix.height) * rows);
  const column = x < matrix.x + matrix.width ? Math.floor(((x - matrix.x) / matrix.width) * columns) : null;
  return { row, column };
}

/** Compute weight · x + bias. @param {Projection} weights @param {Float32Array} reads */
export function productsOf({ weight, bias }, reads) {
  const made = Float32Array.from(bias.row());
  for (let i = 0; i < made.length; i++) weight.row(i).forEach((w, j) => (made[i] += w * reads[j]));
  return made;
}

/**
 * Pool a matrix to the available cells; each shows the value of largest magnitude.
 * @param {import("../../core/ndarray.js").NdArray} weight [D, n]
 * @param {number} width px
 * @param {number} height
 */
export function heatOf(weight, width, height) {
  const [rows, columns] = weight.shape;
  const [down, across] = [Math.min(rows, Math.floor(height / CELL)), Math.min(columns, Math.floor(width / CELL))];
  const cells = new Float32Array(down * across);
  let most = 0;
  for (let i = 0; i < rows; i++)
    weight.row(i).forEach((value, j) => {
      const cell = Math.floor((i * down) / rows) * across + Math.floor((j * across) / columns);
      if (Math.abs(value) > Math.abs(cells[cell])) cells[cell] = value;
      most = Math.max(most, Math.abs(value));
    });
  return { down, across, cells, most: most || 1 };
}
