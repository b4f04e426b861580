// View state of the request table.

import { signal } from "../../../vendor/signals/signals.js";

/** Whether the outliers are beside the table in wide layouts. Without them every column fits. */
export const aside = signal(true);
/** Whether bars take the space of most columns. */
export const showsBars = signal(false);
/**
 * Whether bars start at the request's submission instead of the start of the run; null: whichever shows more.
 *
 * @type {import("../../../vendor/signals/signals.js").Signal<boolean | null>}
 */
export const ownStart = signal(null);
