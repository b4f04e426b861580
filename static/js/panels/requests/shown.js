// How the times of requests are shown.

import { signal } from "../../../vendor/signals/signals.js";

/** Whether the outliers stand beside the table, where there is room: without them it has room for every figure. */
export const aside = signal(true);
/** Whether the bars have the room of most figures. */
export const timeline = signal(false);
/**
 * Whether each bar begins where its request was submitted, or all where the run does; null: as there is more to see.
 *
 * @type {import("../../../vendor/signals/signals.js").Signal<boolean | null>}
 */
export const ownStart = signal(null);
