// The run that the page shows: the session's own, or one that a panel shows in its place while it is open.

import { computed, signal } from "../../vendor/signals/signals.js";

/** @import {ReadonlySignal as Read, Signal} from "../../vendor/signals/signals.js" */
/** @import {TraceLog} from "../core/log.js" */
/** @import {Status} from "../core/wire.js" */

/**
 * A run as it is shown. `log`: null before its header; it grows, and `numRecords` limits what is shown. `behind`:
 * existing records that have not arrived; `pace`: current steps per second of its engine (0: unlimited), null while it
 * is idle. `theater`: its id on the server; null if the session knows it.
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
 * A log too long to load: `log` is null, its records stay on the server, and what is shown is queried.
 *
 * @typedef {{theater: string, header: import("../core/trace.js").Header}} Large
 */

/** @type {Signal<Large | null>} */
const large = signal(null);

/** The page's own run; written only by the session. */
export const own = {
  log: signal(/** @type {TraceLog | null} */ (null)),
  numRecords,
  large,
  behind: computed(() => Math.max(0, (status.value?.num_records ?? 0) - numRecords.value)),
  pace: computed(() => (status.value?.mode === "running" ? status.value.speed : null)),
  theater: signal(null),
};

/** The run on show; control/player.js sets it together with its controls. @type {Signal<Run>} */
export const shownRun = signal(/** @type {Run} */ (own));

/** Whether the page's own run is on show. */
export const ownIsShown = computed(() => shownRun.value === own);
