// One animation frame for all painters, and the page's word that it has painted.

import { effect } from "../../vendor/signals/signals.js";
import { advance, drawnIndex, followMoment, moving, reducedMotion, still, viewSub } from "../state/moment.js";
import { numRecords, viewIndex } from "../state/store.js";

const FADE = 80; // ms: instead of movement

/** @type {Set<() => void>} */
const waiting = new Set();
let requested = false;
let faded = -Infinity;
let said = ""; // the page's last word

/**
 * Run `paint` in the next frame, once however often it is asked for.
 *
 * @param {() => void} paint
 */
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
  if (moving.peek() && advance(now)) request(); // painters that watch what moved ask to be painted in this frame
  const paints = [...waiting];
  waiting.clear();
  for (const paint of paints) paint();
  frameDone();
}

/** Paint now what waits for the next frame: for the browser's print, which does not wait for one. */
export function flushNow() {
  const paints = [...waiting];
  waiting.clear();
  for (const paint of paints) paint();
}

/** Tell tests and tools what the screen shows now. `painted`: the record drawn; `moving`: whether it still moves. */
export function frameDone() {
  const shown = document.documentElement.dataset;
  const [index, drawn, count, moves] = [viewIndex.peek(), drawnIndex.peek(), numRecords.peek(), moving.peek()].map(
    String,
  );
  const word = `${index} ${drawn} ${count} ${moves}`;
  if (word === said) return;
  said = word;
  setTimeout(() => {
    shown.viewIndex = index;
    shown.numRecords = count;
    shown.moving = moves;
    shown.painted = drawn;
  }, 0);
}

/** What is new fades in, unless it comes so fast that it would flicker. */
function crossFade() {
  const now = performance.now();
  if (now - faded >= 2 * FADE)
    for (const canvas of document.querySelectorAll("[data-fades] canvas"))
      canvas.animate([{ opacity: 0.35 }, { opacity: 1 }], FADE);
  faded = now;
}

/** Follow the moment that is asked for, frame by frame. */
export function startMotion() {
  const query = matchMedia("(prefers-reduced-motion: reduce)");
  reducedMotion.value = query.matches;
  query.addEventListener("change", () => (reducedMotion.value = query.matches));
  followMoment();
  effect(() => {
    drawnIndex.value;
    viewSub.value;
    viewIndex.value;
    numRecords.value;
    if (moving.value) request();
    else schedule(() => {}); // the page's word changes even where no painter has anything to do
  });
  effect(() => {
    drawnIndex.value;
    viewSub.value;
    if (still.peek()) crossFade();
  });
}
