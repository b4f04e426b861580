// Vectors as heat columns: one pixel a value in an off-screen image, enlarged without smoothing when it is drawn.

import { colours, divergingAt, niceCeiling } from "./colour.js";

/** The columns of one row of the strip: kind (k, v or q) of one sequence in one layer and head. */
export class VectorImage {
  constructor() {
    this.key = null;
    this.vectors = new Map(); // position -> {source, vector}
    this.range = 0;
    this.canvas = document.createElement("canvas");
  }

  /** Start again when `key` (log, sequence, layer, head, theme) is another. */
  reset(key) {
    if (key === this.key) return;
    this.key = key;
    this.vectors.clear();
    this.range = 0;
    this.canvas.width = this.canvas.height = 0;
  }

  /** Make the vector at `position` present. `source` says where it came from: the same again costs nothing. */
  put(position, source, vector) {
    const known = this.vectors.get(position);
    if (known?.source === source) return;
    this.vectors.set(position, { source, vector });
    let largest = 0;
    for (const value of vector) if (Math.abs(value) > largest) largest = Math.abs(value);
    const needed = niceCeiling(largest);
    if (needed > this.range || position >= this.canvas.width || vector.length !== this.canvas.height) {
      this.range = Math.max(this.range, needed);
      this.#repaint(Math.max(position + 1, this.canvas.width, 64), vector.length);
    } else {
      this.#paint(position, vector);
    }
  }

  get(position) {
    return this.vectors.get(position)?.vector ?? null;
  }

  draw(context, position, x, y, width, height) {
    context.imageSmoothingEnabled = false;
    context.drawImage(this.canvas, position, 0, 1, this.canvas.height, x, y, width, height);
  }

  #repaint(positions, dimensions) {
    this.canvas.width = Math.ceil(positions / 64) * 64;
    this.canvas.height = dimensions;
    for (const [position, { vector }] of this.vectors) this.#paint(position, vector);
  }

  #paint(position, vector) {
    const context = this.canvas.getContext("2d", { willReadFrequently: false });
    const image = context.createImageData(1, vector.length);
    const scale = colours().diverging;
    for (let i = 0; i < vector.length; i++) {
      const [r, g, b] = divergingAt(scale, vector[i] / this.range);
      image.data.set([r, g, b, 255], 4 * i);
    }
    context.putImageData(image, position, 0);
  }
}
