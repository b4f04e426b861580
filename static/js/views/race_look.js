// Which step of the race is looked at.

import { computed, signal } from "../../vendor/signals/signals.js";
import { numSteps } from "../net/race.js";

/** The step chosen, or null to follow the race. */
export const shown = signal(null);
export const shownStep = computed(() => Math.min(shown.value ?? Infinity, numSteps.value));
