// Building blocks of an exported SVG: numbers, rectangles, images, resolved colours.

/** @type {Map<string, [string, number]>} */
const cache = new Map();
/** @type {CanvasRenderingContext2D | null} */
let context = null;

/**
 * Resolve a CSS colour (`rgb()`, `color(srgb …)`, `oklab()`, …) to `[#rrggbb, opacity]`.
 * @param {string} colour
 */
export function plain(colour) {
  const found = cache.get(colour) ?? measure(colour);
  cache.set(colour, found);
  return found;
}

/** @param {string} colour @returns {[string, number]} */
function measure(colour) {
  const pixel = () => Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  context ??= /** @type {CanvasRenderingContext2D} */ (pixel().getContext("2d", { willReadFrequently: true }));
  context.clearRect(0, 0, 1, 1);
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
  return [`#${[r, g, b].map((v) => v.toString(16).padStart(2, "0")).join("")}`, Number((a / 255).toFixed(3))];
}

/**
 * Return the attributes `name="#…" name-opacity="…"`, or "" for a transparent colour.
 * @param {string} name @param {string} colour
 */
export function paint(name, colour) {
  const [hex, opacity] = plain(colour);
  if (opacity === 0) return "";
  return opacity === 1 ? `${name}="${hex}"` : `${name}="${hex}" ${name}-opacity="${opacity}"`;
}

/** @typedef {{x: number, y: number, width: number, height: number}} At rectangle in the picture, in px */

/** Round a number to two decimals. @param {number} value */
export const n = (value) => Number(value.toFixed(2));

/** @param {At} at @param {string} [attributes] */
export const rect = ({ x, y, width, height }, attributes = "") =>
  `<rect x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${n(height)}" ${attributes}/>`;

/** Shrink a rectangle by `by` px on each side. @param {At} at @param {number} by @returns {At} */
export const inset = ({ x, y, width, height }, by) => ({
  x: x + by,
  y: y + by,
  width: Math.max(0, width - 2 * by),
  height: Math.max(0, height - 2 * by),
});

/** Embed a canvas at its own resolution. @param {HTMLCanvasElement} canvas @param {At} at */
export function image(canvas, at) {
  if (!canvas.width || !canvas.height) return "";
  const box = `x="${n(at.x)}" y="${n(at.y)}" width="${n(at.width)}" height="${n(at.height)}"`;
  return `<image ${box} preserveAspectRatio="none" href="${canvas.toDataURL("image/png")}"/>`;
}
