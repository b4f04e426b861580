// Vectors as striped cells in the hue of their kind; the opacity of a stripe is its magnitude relative to the largest.

import { contextOf } from "../../kit/canvas.js";
import { colours, themeVersion } from "../../kit/colour.js";

/** @type {WeakMap<Float32Array, Map<string, HTMLCanvasElement>>} */
const cache = new WeakMap();
const FAINTEST = 0.12; // opacity of a zero, so that the cell stays visible

/**
 * Draw `vector` in the hue of `kind`, or an empty cell if it is null.
 * @param {CanvasRenderingContext2D} c @param {Float32Array | null} vector @param {"q" | "k" | "v"} kind
 * @param {{x: number, y: number, width: number, height: number}} box
 */
export function paintStripes(c, vector, kind, { x, y, width, height }) {
  if (vector) {
    c.imageSmoothingEnabled = false;
    c.drawImage(imageOf(vector, kind), x, y, width, height);
  } else {
    c.fillStyle = colours()["line-2"];
    c.fillRect(x, y, width, height);
  }
}

/** @param {Float32Array} vector @param {"q" | "k" | "v"} kind */
function imageOf(vector, kind) {
  const key = `${kind}/${themeVersion.peek()}`;
  let images = cache.get(vector);
  if (!images) cache.set(vector, (images = new Map()));
  let image = images.get(key);
  if (!image) images.set(key, (image = render(vector, colours()[kind])));
  return image;
}

/** @param {Float32Array} vector @param {string} colour */
function render(vector, colour) {
  const canvas = document.createElement("canvas");
  canvas.width = 1;
  canvas.height = vector.length;
  const c = contextOf(canvas);
  const largest = vector.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-9);
  c.fillStyle = colour;
  vector.forEach((value, i) => {
    c.globalAlpha = FAINTEST + (1 - FAINTEST) * (Math.abs(value) / largest);
    c.fillRect(0, i, 1, 1);
  });
  return canvas;
}
