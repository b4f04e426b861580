// Shared animation frame of all painters, and the signal that the page has been painted.

import { effect } from "../../vendor/signals/signals.js";
import { advance, drawnIndex, followPlayhead, moving, reducedMotion, still, viewSub } from "../state/playhead.js";
import { numRecords, viewIndex } from "../state/store.js";

const FADE = 80; // ms; a cross-fade replaces motion

/** @type {Set<() => void>} */
const waiting = new Set();
let requested = false;
let lastFade = -Infinity;
let lastReport = "";

/** Run `paint` once in the next frame, however often it is scheduled. @param {() => void} paint */
export function schedule(paint) {
  waiting.add(paint);
  request();
}

function request() {
  if (requested) return;
  requested = true;
  requestAnimationFrame(flush);
}

/** @param {number} now */
function flush(now) {
  requested = false;
  if (moving.peek() && advance(now)) request(); // painters that depend on the motion have scheduled themselves
  const paints = [...waiting];
  waiting.clear();
  for (const paint of paints) paint();
  frameDone();
}

/** Run scheduled paints now, as printing does not wait for a frame. */
export function flushNow() {
  const paints = [...waiting];
  waiting.clear();
  for (const paint of paints) paint();
}

/** Expose the page's state to tests and tools. `painted`: the drawn record; `moving`: whether a motion is running. */
export function frameDone() {
  const shown = document.documentElement.dataset;
  const [index, drawn, count, moves] = [viewIndex.peek(), drawnIndex.peek(), numRecords.peek(), moving.peek()].map(
    String,
  );
  const report = `${index} ${drawn} ${count} ${moves}`;
  if (report === lastReport) return;
  lastReport = report;
  setTimeout(() => {
    shown.viewIndex = index;
    shown.numRecords = count;
    shown.moving = moves;
    shown.painted = drawn;
  }, 0);
}

/** Fade in new content, unless updates are so fast that it would flicker. */
function crossFade() {
  const now = performance.now();
  if (now - lastFade >= 2 * FADE)
    for (const canvas of document.querySelectorAll("[data-fades] canvas"))
      canvas.animate([{ opacity: 0.35 }, { opacity: 1 }], FADE);
  lastFade = now;
}

/** Move the playhead to the requested position, frame by frame. */
export function startMotion() {
  const query = matchMedia("(prefers-reduced-motion: reduce)");
  reducedMotion.value = query.matches;
  query.addEventListener("change", () => (reducedMotion.value = query.matches));
  followPlayhead();
  effect(() => {
    drawnIndex.value;
    viewSub.value;
    viewIndex.value;
    numRecords.value;
    if (moving.value) request();
    else schedule(() => {}); // calls `frameDone` even if no painter has work
  });
  effect(() => {
    drawnIndex.value;
    viewSub.value;
    if (still.peek()) crossFade();
  });
}
