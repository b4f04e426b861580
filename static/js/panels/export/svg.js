// Small parts of an SVG: numbers, rectangles, images.

/** @typedef {{x: number, y: number, width: number, height: number}} At a place in the picture, in px */

/**
 * A number as a picture needs it: two decimals.
 *
 * @param {number} value
 */
export const n = (value) => Number(value.toFixed(2));

/**
 * @param {At} at
 * @param {string} [attributes]
 */
export const rect = ({ x, y, width, height }, attributes = "") =>
  `<rect x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${n(height)}" ${attributes}/>`;

/**
 * The rectangle `by` px inside of another.
 *
 * @param {At} at
 * @param {number} by
 * @returns {At}
 */
export const inset = ({ x, y, width, height }, by) => ({
  x: x + by,
  y: y + by,
  width: Math.max(0, width - 2 * by),
  height: Math.max(0, height - 2 * by),
});

/**
 * A canvas has pixels only: they are embedded, as many as were painted.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {At} at
 */
export function image(canvas, at) {
  if (!canvas.width || !canvas.height) return "";
  const box = `x="${n(at.x)}" y="${n(at.y)}" width="${n(at.width)}" height="${n(at.height)}"`;
  return `<image ${box} preserveAspectRatio="none" href="${canvas.toDataURL("image/png")}"/>`;
}
