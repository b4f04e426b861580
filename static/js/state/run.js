// The run that the page shows: its own, which the session follows, or one that a panel puts in its place while it is
// open.

import { computed, signal } from "../../vendor/signals/signals.js";

/**
 * @template T
 * @typedef {import("../../vendor/signals/signals.js").ReadonlySignal<T>} Read
 */
/**
 * @typedef {import("../core/log.js").TraceLog} TraceLog
 * @typedef {import("../core/wire.js").Status} Status
 */

/**
 * A run as it is shown. `log`: null before its header; its content grows, `numRecords` says how far it is shown.
 * `behind`: records that there are and that have not arrived; `pace`: steps a second that its engine takes now (0: as
 * fast as it goes), null while it takes none. `theater`: where the server has it; null: where the session says.
 *
 * @typedef {{
 *   log: Read<TraceLog | null>, numRecords: Read<number>, behind: Read<number>, pace: Read<number | null>,
 *   theater: Read<string | null>,
 * }} Run
 */

/**
 * The server's last `status` map of the page's own run, or null.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<Status | null>}
 */
export const status = signal(null);

const numRecords = signal(0);

/**
 * A log that is too long to be read: its records are not here, `log` is null, and what is shown of it is asked for.
 *
 * @typedef {{theater: string, header: import("../core/trace.js").Header}} Large
 */

/** @type {import("../../vendor/signals/signals.js").Signal<Large | null>} */
const large = signal(null);

/** The page's own run; only the session writes it. */
export const own = {
  log: signal(/** @type {TraceLog | null} */ (null)),
  numRecords,
  large,
  behind: computed(() => Math.max(0, (status.value?.num_records ?? 0) - numRecords.value)),
  pace: computed(() => (status.value?.mode === "running" ? status.value.speed : null)),
  theater: signal(null),
};

/**
 * The run that is shown; control/player.js puts it here, with what drives it.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<Run>}
 */
export const onShow = signal(/** @type {Run} */ (own));

/** Whether that is the page's own. */
export const ownIsShown = computed(() => onShow.value === own);
