// The theaters that this browser has made: its own among those of a server that others use too.

import { signal } from "../../vendor/signals/signals.js";

const MEMORY_KEY = "kvtheater.runs";
const MAX = 32;

/**
 * Their ids, the latest last.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<string[]>}
 */
export const ownRuns = signal(remembered());

/** Whether somebody else's run, to which this browser came by a link, was to be driven: the page asks first. */
export const asksToDrive = signal(false);

/** @returns {string[]} */
function remembered() {
  try {
    const kept = JSON.parse(globalThis.localStorage?.getItem(MEMORY_KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((id) => typeof id === "string").slice(-MAX) : [];
  } catch {
    return []; // refused in some private windows, or of another version
  }
}

/** @param {string} theater a theater that was just made here, or that is driven from here from now on */
export function rememberRun(theater) {
  asksToDrive.value = false;
  ownRuns.value = [...ownRuns.peek().filter((id) => id !== theater), theater].slice(-MAX);
  try {
    globalThis.localStorage?.setItem(MEMORY_KEY, JSON.stringify(ownRuns.peek()));
  } catch {
    // this page knows them all the same
  }
}
