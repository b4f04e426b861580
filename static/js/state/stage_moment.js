// The moment as what shows the sequence on stage has it: as state/moment.js says, but a sequence that has finished and
// is shown as it was is shown whole, whatever moves elsewhere.

import { computed } from "../../vendor/signals/signals.js";
import * as moment from "./moment.js";
import { looksBack } from "./store.js";

const WHOLE = moment.phaseProgress(moment.PHASES.length);

/**
 * Progress of one phase, in [0, 1].
 *
 * @param {import("./moment.js").Phase} name
 */
export const phase = (name) => (looksBack.value ? 1 : moment.phase(name));

/** All of them without asking for the frames to come. */
export const phasesNow = () => (looksBack.peek() ? WHOLE : moment.phasesNow());

/** The sub-step as far as which it is shown; null: whole. */
export const viewSub = computed(() => (looksBack.value ? null : moment.viewSub.value));
