// Roles of the run's attention heads. If they were not measured at training, they are measured in idle time when arrays
// arrive.

import { computed, effect, signal } from "../../vendor/signals/signals.js";
import { measuredHeads } from "../core/roles.js";
import { captureVersion, log, numRecords } from "./store.js";

const SLICE_MS = 6; // per frame
const PUBLISH_MS = 400; // between updates while measuring continues

/** Whether a map is shown that needs the role of every head, even if roles were measured at training. */
export const mapIsShown = signal(false);

/**
 * Module that measures roles, loaded with the first run that needs it.
 * @type {import("../../vendor/signals/signals.js").Signal<typeof import("../core/roles.js") | null>}
 */
const rolesModule = signal(null);
const version = signal(0); // incremented with each published result
let isScheduled = false; // whether the next slice is scheduled
let publishedAt = 0;
/** @type {Promise<unknown> | null} */
let loading = null;

/** Roles measured so far, a new object for each update; null before there is a run. */
export const roles = computed(() => {
  const found = log.value && rolesModule.value?.rolesOf(log.value);
  if (!found) return null;
  /** @type {typeof found.role} */
  const role = (l, h) => found.role(l, h);
  /** @type {typeof found.of} */
  const of = (l, h) => found.of(l, h);
  return { version: version.value, role, of, best: () => found.best(), hasEnough: () => found.hasEnough() };
});

/**
 * Instructive heads: those measured at training, else those that stand out in this run (`derived`).
 * @type {import("../../vendor/signals/signals.js").ReadonlySignal<
 *   {heads: import("../core/trace.js").HeadPattern[], derived: boolean}>}
 */
export const knownHeads = computed(() => {
  const measured = measuredHeads(log.value?.header.model);
  return measured.length ? { heads: measured, derived: false } : { heads: roles.value?.best() ?? [], derived: true };
});

effect(() => {
  numRecords.value;
  captureVersion.value;
  const model = log.value?.header.model;
  if (!model || (measuredHeads(model).length && !mapIsShown.value)) return;
  if (rolesModule.value) scheduleSlice();
  else if (!loading) loading = import("../core/roles.js").then((found) => (rolesModule.value = found));
});

function scheduleSlice() {
  if (!isScheduled) setTimeout(measure);
  isScheduled = true;
}

function measure() {
  isScheduled = false;
  const of = log.peek();
  const found = of && rolesModule.peek()?.rolesOf(of);
  if (!found) return;
  const [before, until] = [found.version, performance.now() + SLICE_MS];
  const done = found.measure(() => performance.now() > until);
  if (found.version !== before && (done || performance.now() - publishedAt > PUBLISH_MS)) {
    publishedAt = performance.now();
    version.value += 1;
  }
  if (!done) scheduleSlice();
}
