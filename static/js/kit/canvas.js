// Canvas helpers: sharp on every screen, painted at most once per frame.

import { useEffect, useRef } from "../../vendor/preact/hooks.js";
import { effect } from "../../vendor/signals/signals.js";
import { frameDone, schedule } from "./frame.js";

export { frameDone };

let minRatio = 1; // canvas pixels per CSS pixel

/** Paint with at least `ratio` canvas pixels per CSS pixel from the next frame on. @param {number} ratio */
export function sharpen(ratio) {
  minRatio = ratio;
}

/** @type {Set<() => void>} one per painter: measures its box and requests a frame */
const measures = new Set();

/** Measure every painted box now. For printing, observers would report sizes too late. */
export function measureNow() {
  for (const measure of measures) measure();
}

/** @typedef {{width: number, height: number}} Size in CSS pixels */

/** Return the 2D context of a canvas, which every supported browser has. @param {HTMLCanvasElement} canvas */
export const contextOf = (canvas) => /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));

/**
 * Size the canvas for the screen, clear it, and return its context in CSS pixels.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @returns {CanvasRenderingContext2D}
 */
export function prepare(canvas, width, height) {
  const ratio = Math.max(minRatio, globalThis.devicePixelRatio || 1);
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = contextOf(canvas);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/**
 * Paint the referenced element's canvas whenever a signal read by `watch` or the size of its box changes.
 * `paint(element, {width, height})` runs inside an animation frame with the last measured size: reading the size there
 * would force a layout in the middle of a frame. Returns the ref.
 * @template {HTMLElement} [E=HTMLElement]
 * @param {() => unknown} watch
 * @param {(element: E, size: Size) => void} paint
 * @returns {{current: E | null}}
 */
export function usePainter(watch, paint) {
  const ref = useRef(/** @type {E | null} */ (null));
  const latest = useRef(paint);
  const repaint = useRef(/** @type {(() => void) | null} */ (null));
  latest.current = paint;
  useEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const size = { width: element.clientWidth, height: element.clientHeight };
    const run = () => {
      if (size.width && size.height) latest.current(element, size); // hidden elements have no size
    };
    repaint.current = () => schedule(run);
    const stop = effect(() => {
      watch();
      schedule(run);
    });
    const sizes = new ResizeObserver(([entry]) => {
      Object.assign(size, { width: Math.floor(entry.contentRect.width), height: Math.floor(entry.contentRect.height) });
      schedule(run);
    });
    sizes.observe(element);
    const measure = () => {
      Object.assign(size, { width: element.clientWidth, height: element.clientHeight });
      schedule(run);
    };
    measures.add(measure);
    return () => {
      measures.delete(measure);
      stop();
      sizes.disconnect();
      repaint.current = null;
    };
  }, []);
  useEffect(() => repaint.current?.()); // repaint after each render, since `paint` may close over new values
  return ref;
}

/** @type {Map<string, number>} text -> px */
const widths = new Map();

/** Return the width of `text` at 17 px in the page's font. @param {string} text */
export function labelWidth(text) {
  const known = widths.get(text);
  if (known !== undefined) return known;
  textContext ??= contextOf(document.createElement("canvas"));
  textContext.font = `17px ${getComputedStyle(document.body).fontFamily}`;
  const { width } = textContext.measureText(text);
  widths.set(text, width);
  return width;
}

/** @type {CanvasRenderingContext2D | null} */
let textContext = null;

/**
 * Draw a hairline at whole device pixels.
 * @param {CanvasRenderingContext2D} context
 * @param {number} x0
 * @param {number} y0
 * @param {number} x1
 * @param {number} y1
 * @param {string} colour
 */
export function hairline(context, x0, y0, x1, y1, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(Math.round(x0) + 0.5, Math.round(y0) + 0.5);
  context.lineTo(Math.round(x1) + (x1 === x0 ? 0.5 : 0), Math.round(y1) + (y1 === y0 ? 0.5 : 0));
  context.stroke();
}

/**
 * Trace the path of a rectangle with rounded corners.
 * @param {CanvasRenderingContext2D} context
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {number} height
 * @param {number} radius
 */
export function roundRect(context, x, y, width, height, radius) {
  context.beginPath();
  context.roundRect(x, y, width, height, Math.min(radius, width / 2, height / 2));
}
