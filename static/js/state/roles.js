// What the heads of the run look at: measured while nothing else is to do, as arrays arrive, where it was not measured
// when the model was trained.

import { computed, effect, signal } from "../../vendor/signals/signals.js";
import { tellingHeads } from "../core/heads.js";
import { captureVersion, log, numRecords } from "./store.js";

const SLICE_MS = 6; // of a frame
const SHOWN_MS = 400; // between two pictures of what was measured, while there is more to measure

/** Whether a map is shown that needs every head's role, whatever was measured at training. */
export const mapIsShown = signal(false);

/**
 * The code that measures: it comes with the first run that needs it.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<typeof import("../core/roles.js") | null>}
 */
const measuring = signal(null);
const version = signal(0); // grows when there is something new to show
let waiting = false; // for the next slice
let shownAt = 0;
/** @type {Promise<unknown> | null} */
let asked = null;

/**
 * The roles as far as they are measured, another object each time that there is more of them; null before there is a
 * run.
 */
export const roles = computed(() => {
  const found = log.value && measuring.value?.rolesOf(log.value);
  if (!found) return null;
  /** @type {typeof found.role} */
  const role = (l, h) => found.role(l, h);
  /** @type {typeof found.of} */
  const of = (l, h) => found.of(l, h);
  return { version: version.value, role, of, best: () => found.best(), hasEnough: () => found.hasEnough() };
});

/**
 * The heads worth looking at: those measured at training, else those that stand out in this run (`derived`).
 *
 * @type {import("../../vendor/signals/signals.js").ReadonlySignal<
 *   {heads: import("../core/heads.js").HeadPattern[], derived: boolean}>}
 */
export const knownHeads = computed(() => {
  const measured = tellingHeads(log.value?.header.model);
  return measured.length ? { heads: measured, derived: false } : { heads: roles.value?.best() ?? [], derived: true };
});

effect(() => {
  numRecords.value;
  captureVersion.value;
  const model = log.value?.header.model;
  if (!model || (tellingHeads(model).length && !mapIsShown.value)) return;
  if (measuring.value) goOn();
  else if (!asked) asked = import("../core/roles.js").then((found) => (measuring.value = found));
});

function goOn() {
  if (!waiting) setTimeout(measure);
  waiting = true;
}

function measure() {
  waiting = false;
  const of = log.peek();
  const found = of && measuring.peek()?.rolesOf(of);
  if (!found) return;
  const [before, until] = [found.version, performance.now() + SLICE_MS];
  const done = found.measure(() => performance.now() > until);
  if (found.version !== before && (done || performance.now() - shownAt > SHOWN_MS)) {
    shownAt = performance.now();
    version.value += 1;
  }
  if (!done) goOn();
}
