// Layout of a matrix product: the input above the weights, the row's products below, the result on the right. Pure.

/** @import {Projection} from "../../core/wire.js" */

const LEFT = 36; // px of the row names
const RIGHT = 92; // px of the two result columns
const COLUMN = 16;
const TOP = 18; // px above the input
const INPUT_HEIGHT = 12; // px
const GAP = 8;
const PRODUCTS_HEIGHT = 40; // px
const MIN_MATRIX = 64; // px
const MIN_CELL = 2; // px

/**
 * Lay out the product in width × height. The returned `height` may be larger than the available one.
 * @param {number} width @param {number} height @param {number} rows
 * @param {number} columns
 */
export function productLayout(width, height, rows, columns) {
  const otherHeight = TOP + INPUT_HEIGHT + GAP + GAP + PRODUCTS_HEIGHT;
  const tall = Math.max(MIN_MATRIX, Math.min(height - otherHeight, 8 * rows));
  const wide = Math.max(MIN_MATRIX, Math.min(width - LEFT - RIGHT, 6 * columns));
  const top = TOP + INPUT_HEIGHT + GAP;
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
    height: otherHeight + tall,
    x: box(LEFT, TOP, wide, INPUT_HEIGHT),
    matrix: box(LEFT, top, wide, tall),
    products: box(LEFT, top + tall + GAP, wide, PRODUCTS_HEIGHT),
    y: box(end + 18, top, COLUMN, tall),
    cached: box(end + RIGHT - COLUMN - 6, top, COLUMN, tall),
  };
}

/**
 * Return the row at a point, and its column if the point is over the weights. Returns null beside the rows.
 * @param {ReturnType<typeof productLayout>} layout @param {number} x @param {number} y
 */
export function cellAt({ rows, columns, matrix, cached }, x, y) {
  if (x < matrix.x || x > cached.x + cached.width || y < matrix.y || y >= matrix.y + matrix.height) return null;
  const row = Math.floor(((y - matrix.y) / matrix.height) * rows);
  const column = x < matrix.x + matrix.width ? Math.floor(((x - matrix.x) / matrix.width) * columns) : null;
  return { row, column };
}

/** Compute weight · x + bias. @param {Projection} weights @param {Float32Array} input */
export function productsOf({ weight, bias }, input) {
  const product = Float32Array.from(bias.row());
  for (let i = 0; i < product.length; i++) weight.row(i).forEach((w, j) => (product[i] += w * input[j]));
  return product;
}

/**
 * Pool a matrix to the available cells; each shows the value of largest magnitude.
 * @param {import("../../core/ndarray.js").NdArray} weight [D, n]
 * @param {number} width px
 * @param {number} height
 */
export function heatOf(weight, width, height) {
  const [rows, columns] = weight.shape;
  const heatRows = Math.min(rows, Math.floor(height / MIN_CELL));
  const heatColumns = Math.min(columns, Math.floor(width / MIN_CELL));
  const cells = new Float32Array(heatRows * heatColumns);
  let largest = 0;
  for (let i = 0; i < rows; i++)
    weight.row(i).forEach((value, j) => {
      const cell = Math.floor((i * heatRows) / rows) * heatColumns + Math.floor((j * heatColumns) / columns);
      if (Math.abs(value) > Math.abs(cells[cell])) cells[cell] = value;
      largest = Math.max(largest, Math.abs(value));
    });
  return { heatRows, heatColumns, cells, largest: largest || 1 };
}
