// Sessions that this browser has created on a shared server.

import { signal } from "../../vendor/signals/signals.js";

const MEMORY_KEY = "kvtheater.runs";
const MAX_SESSIONS = 32;

/** Ids of these sessions, the latest last. @type {import("../../vendor/signals/signals.js").Signal<string[]>} */
export const createdSessions = signal(readStored());

/** Whether the user tried to change a run of another browser, and the page asks for confirmation. */
export const asksForControl = signal(false);

/** @returns {string[]} */
function readStored() {
  try {
    const ids = JSON.parse(globalThis.localStorage?.getItem(MEMORY_KEY) ?? "[]");
    return Array.isArray(ids) ? ids.filter((id) => typeof id === "string").slice(-MAX_SESSIONS) : [];
  } catch {
    return []; // refused in some private windows, or written by another version
  }
}

/** @param {string} theater session that was created here, or that the user decided to control */
export function rememberSession(theater) {
  asksForControl.value = false;
  createdSessions.value = [...createdSessions.peek().filter((id) => id !== theater), theater].slice(-MAX_SESSIONS);
  try {
    globalThis.localStorage?.setItem(MEMORY_KEY, JSON.stringify(createdSessions.peek()));
  } catch {
    // the signal still has them
  }
}
