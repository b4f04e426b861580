// Vectors as heat columns: one pixel per value in an off-screen image, drawn enlarged without smoothing.

import { contextOf } from "../../kit/canvas.js";
import { colours, divergingAt, niceCeiling } from "../../kit/colour.js";

const PLACES = 1024; // columns of the image, more than a window shows; distant positions share a column
const SHADES = 512; // steps of the colour lookup

/** Heat columns of one row of the token row: k, v or q of one sequence in one layer and head. */
export class VectorImage {
  key = "";
  /** @type {number | null} */
  theme = null;
  /** @type {({position: number, source: string, vector: Float32Array} | null)[]} by place */
  slots = new Array(PLACES).fill(null);
  range = 0;
  /** @type {HTMLCanvasElement | null} */
  canvas = null;
  /** @type {Uint32Array | null} */
  shades = null;

  /**
   * Clear the image if `key` (log, sequence, layer, head) changes. A new `theme` only recolours it.
   * @param {string} key @param {number} theme
   */
  reset(key, theme) {
    if (key !== this.key) {
      this.key = key;
      this.slots.fill(null);
      this.range = 0;
    }
    if (theme !== this.theme) {
      this.theme = theme;
      this.shades = null;
      this.#paintAll();
    }
  }

  /**
   * Set the vector at `position`. `source` names its origin; setting the same source again is a no-op.
   * @param {number} position @param {string} source @param {Float32Array} vector
   */
  put(position, source, vector) {
    const place = position % PLACES;
    const slots = this.slots[place];
    if (slots?.position === position && slots.source === source) return;
    this.slots[place] = { position, source, vector };
    let largest = 0;
    for (const value of vector) largest = Math.max(largest, Math.abs(value));
    const needed = niceCeiling(largest);
    if (needed > this.range || this.canvas?.height !== vector.length) {
      this.range = Math.max(this.range, needed);
      this.#paintAll();
    } else {
      this.#paint(place, vector);
    }
  }

  /**
   * @param {CanvasRenderingContext2D} context @param {number} position @param {number} x
   * @param {number} y @param {number} width @param {number} height
   */
  draw(context, position, x, y, width, height) {
    if (!this.canvas) return;
    context.imageSmoothingEnabled = false;
    context.drawImage(this.canvas, position % PLACES, 0, 1, this.canvas.height, x, y, width, height);
  }

  #paintAll() {
    const first = this.slots.find((slots) => slots);
    if (!first) return;
    this.canvas ??= document.createElement("canvas");
    this.canvas.width = PLACES;
    this.canvas.height = first.vector.length;
    this.slots.forEach((slots, place) => slots && this.#paint(place, slots.vector));
  }

  /** @param {number} place @param {Float32Array} vector */
  #paint(place, vector) {
    if (!this.canvas) return;
    const context = contextOf(this.canvas);
    const image = context.createImageData(1, vector.length);
    const pixels = new Uint32Array(image.data.buffer);
    this.shades ??= shadesOf(colours().diverging);
    for (let i = 0; i < vector.length; i++) {
      const share = Math.max(-1, Math.min(1, vector[i] / this.range));
      pixels[i] = this.shades[Math.round(((share + 1) / 2) * SHADES)];
    }
    context.putImageData(image, place, 0);
  }
}

/**
 * Return the diverging scale as pixels by value: [-1, 1] in SHADES steps.
 * @param {import("../../kit/colour.js").Scale} scale
 */
function shadesOf(scale) {
  const bytes = new Uint8ClampedArray(4 * (SHADES + 1));
  for (let i = 0; i <= SHADES; i++) bytes.set([...divergingAt(scale, (2 * i) / SHADES - 1), 255], 4 * i);
  return new Uint32Array(bytes.buffer);
}
