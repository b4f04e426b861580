// Run that the page shows: the session's own, or one that an open panel shows instead.

import { computed, signal } from "../../vendor/signals/signals.js";

/** @import {ReadonlySignal as Read, Signal} from "../../vendor/signals/signals.js" */
/** @import {TraceLog} from "../core/log.js" */
/** @import {Status} from "../core/wire.js" */

/**
 * Run as the page shows it. `log`: null before its header; it grows, and `numRecords` limits the shown part. `behind`:
 * existing records that have not arrived; `pace`: current steps per second of its engine (0: unlimited), null while it
 * is idle. `theater`: its id on the server; null for the session's run.
 *
 * @typedef {{
 *   log: Read<TraceLog | null>, numRecords: Read<number>, behind: Read<number>, pace: Read<number | null>,
 *   theater: Read<string | null>,
 * }} Run
 */

/** Last `status` message of the page's own run, or null. @type {Signal<Status | null>} */
export const status = signal(null);

const numRecords = signal(0);

/**
 * Log too long to load: `log` is null, its records stay on the server, and the page queries what it shows.
 *
 * @typedef {{theater: string, header: import("../core/trace.js").Header}} Large
 */

/** @type {Signal<Large | null>} */
const large = signal(null);

/** The page's own run, which only the session changes. */
export const own = {
  log: signal(/** @type {TraceLog | null} */ (null)),
  numRecords,
  large,
  behind: computed(() => Math.max(0, (status.value?.num_records ?? 0) - numRecords.value)),
  pace: computed(() => (status.value?.mode === "running" ? status.value.speed : null)),
  theater: signal(null),
};

/** Shown run; control/player.js sets it together with its controls. @type {Signal<Run>} */
export const shownRun = signal(/** @type {Run} */ (own));

/** Whether the page's own run is shown. */
export const ownIsShown = computed(() => shownRun.value === own);
