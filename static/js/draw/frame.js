// One animation frame for all painters, the motion between two records, and the page's word that it has painted.

import { effect, signal } from "../../vendor/signals/signals.js";
import { settings } from "../model/settings.js";
import { numRecords, status, viewIndex } from "../model/store.js";

const FADE = 80; // ms, under prefers-reduced-motion
const FULL = 350; // ms for the motion of one record at speed 1

const waiting = new Set();
let requested = false;
let began = 0;
let duration = 0;
let previous = -1;

/** Changes with every frame of a motion: painters that move read it in `watch`. */
export const tick = signal(0);
export const reducedMotion = signal(false);

/** Run `paint` in the next frame, once however often it is asked for. */
export function schedule(paint) {
  waiting.add(paint);
  if (requested) return;
  requested = true;
  requestAnimationFrame(flush);
}

/** Progress of the motion into the record shown: 0 at its start, 1 when it rests. Eased. */
export function motionAt() {
  if (duration === 0) return 1;
  const t = Math.min(1, (performance.now() - began) / duration);
  return 1 - (1 - t) ** 3;
}

function flush() {
  requested = false;
  const paints = [...waiting];
  waiting.clear();
  for (const paint of paints) paint();
  if (duration > 0) {
    if (performance.now() - began >= duration) duration = 0;
    tick.value = tick.peek() + 1; // the painters that move ask for the next frame
  }
  frameDone();
}

/** Tell tests and tools what the screen shows now. */
export function frameDone() {
  const shown = document.documentElement.dataset;
  const [index, count] = [String(viewIndex.peek()), String(numRecords.peek())];
  setTimeout(() => {
    shown.viewIndex = index;
    shown.numRecords = count;
    shown.painted = index;
  }, 0);
}

/** Instead of movement: what is new fades in. */
function crossFade() {
  for (const canvas of document.querySelectorAll(".strip-window canvas, .pool-window canvas"))
    canvas.animate([{ opacity: 0.35 }, { opacity: 1 }], FADE);
}

/** Follow the record shown: one record forward moves, everything else is shown at once. */
export function startMotion() {
  const query = matchMedia("(prefers-reduced-motion: reduce)");
  reducedMotion.value = query.matches;
  query.addEventListener("change", () => (reducedMotion.value = query.matches));
  effect(() => {
    const index = viewIndex.value;
    const still = reducedMotion.value || !settings.motion.value;
    if (index === previous) return;
    if (reducedMotion.value && settings.motion.value) crossFade();
    const running = status.peek()?.mode === "running";
    const speed = running ? status.peek().speed || 1000 : 1;
    duration = !still && index === previous + 1 && index > 0 ? Math.min(FULL, 700 / speed) : 0;
    if (duration < 60) duration = 0;
    began = performance.now();
    previous = index;
    schedule(() => {});
  });
}
