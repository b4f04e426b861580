// Playhead (state/playhead.js) of the sequence on stage. A finished sequence shown at its last record is always
// complete, regardless of motion elsewhere.

import { computed } from "../../vendor/signals/signals.js";
import * as playhead from "./playhead.js";
import { showsEarlierRecord } from "./store.js";

const COMPLETE = playhead.phaseProgress(playhead.PHASES.length);

/** Return the progress of one phase, in [0, 1]. @param {import("./playhead.js").Phase} name */
export const phase = (name) => (showsEarlierRecord.value ? 1 : playhead.phase(name));

/** Return the progress of all phases without subscribing to frames. */
export const phasesNow = () => (showsEarlierRecord.peek() ? COMPLETE : playhead.phasesNow());

/** Sub-step up to which it is shown; null: complete. */
export const viewSub = computed(() => (showsEarlierRecord.value ? null : playhead.viewSub.value));
