// Temporary replacement of the shown run: another run is shown instead of the page's own, which later returns to the
// same position.

import { batch } from "../../vendor/signals/signals.js";
import { own, shownRun } from "../state/run.js";
import { settings } from "../state/settings.js";
import * as store from "../state/store.js";

/** @import {Run} from "../state/run.js" */

/** @typedef {{step: number | null, sub: number | null, seq: number | null}} Place */

/** @type {Place} */
const NEWEST = { step: null, sub: null, seq: null };

let left = NEWEST; // last position in the page's own run

/**
 * Show `run` instead of the current one, at record `step` (null: its newest).
 * @param {Run} run
 * @param {number | null} [step]
 */
export function show(run, step = null) {
  if (shownRun.peek() === run) return;
  if (shownRun.peek() === own) {
    const { step: record, sub, seq } = settings;
    left = { step: record.peek(), sub: sub.peek(), seq: seq.peek() };
  }
  swap(run, { ...NEWEST, step });
}

/** Show the page's own run again, at its last position. */
export function showOwn() {
  if (shownRun.peek() !== own) swap(own, left);
}

/**
 * Switch the run and reset the selection: ids and blocks have a different meaning in another run.
 * @param {Run} run
 * @param {Place} place
 */
function swap(run, place) {
  batch(() => {
    shownRun.value = run;
    store.selected.value = store.hovered.value = null;
    for (const name of /** @type {(keyof Place)[]} */ (["step", "sub", "seq"])) settings[name].value = place[name];
  });
}
