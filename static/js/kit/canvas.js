// Canvas helpers: sharp on every screen, painted at most once a frame.

import { useEffect, useRef } from "../../vendor/preact/hooks.js";
import { effect } from "../../vendor/signals/signals.js";
import { frameDone, schedule } from "./frame.js";

export { frameDone };

let atLeast = 1; // pixels for each CSS pixel, whatever the screen has

/** Paint with at least `ratio` pixels for each CSS pixel from the next painting on. */
export function sharpen(ratio) {
  atLeast = ratio;
}

/** Size the canvas for the screen and return its context, cleared, in CSS pixels. */
export function prepare(canvas, width, height) {
  const ratio = Math.max(atLeast, globalThis.devicePixelRatio || 1);
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/**
 * Paint the referenced element's canvas whenever a signal read by `watch` changes or its box changes size.
 * `paint(element, {width, height})` runs inside an animation frame, with the box as it was measured last: reading it
 * there would make the browser lay the page out in the middle of a frame. Returns the ref.
 */
export function usePainter(watch, paint) {
  const ref = useRef(null);
  const latest = useRef(paint);
  const again = useRef(null);
  latest.current = paint;
  useEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const size = { width: element.clientWidth, height: element.clientHeight };
    const run = () => latest.current(element, size);
    again.current = () => schedule(run);
    const stop = effect(() => {
      watch();
      schedule(run);
    });
    const sizes = new ResizeObserver(([entry]) => {
      Object.assign(size, { width: Math.floor(entry.contentRect.width), height: Math.floor(entry.contentRect.height) });
      schedule(run);
    });
    sizes.observe(element);
    return () => {
      stop();
      sizes.disconnect();
      again.current = null;
    };
  }, []);
  useEffect(() => again.current?.()); // drawn again: what `paint` closes over may be another
  return ref;
}

const widths = new Map(); // text -> px

/** Width of `text` at 17 px in the page's font. */
export function labelWidth(text) {
  if (widths.has(text)) return widths.get(text);
  measuring ??= document.createElement("canvas").getContext("2d");
  measuring.font = `17px ${getComputedStyle(document.body).fontFamily}`;
  const width = measuring.measureText(text).width;
  widths.set(text, width);
  return width;
}

let measuring = null;

/** A hairline at whole device pixels. */
export function hairline(context, x0, y0, x1, y1, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(Math.round(x0) + 0.5, Math.round(y0) + 0.5);
  context.lineTo(Math.round(x1) + (x1 === x0 ? 0.5 : 0), Math.round(y1) + (y1 === y0 ? 0.5 : 0));
  context.stroke();
}

/** Path of a rectangle with round corners. */
export function roundRect(context, x, y, width, height, radius) {
  context.beginPath();
  context.roundRect(x, y, width, height, Math.min(radius, width / 2, height / 2));
}
