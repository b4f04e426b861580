// Sessions that this browser has created, among those of a shared server.

import { signal } from "../../vendor/signals/signals.js";

const MEMORY_KEY = "kvtheater.runs";
const MAX = 32;

/** Their ids, the latest last. @type {import("../../vendor/signals/signals.js").Signal<string[]>} */
export const createdSessions = signal(remembered());

/** Whether the user tried to change a run of another browser, opened by a link; the page asks for confirmation. */
export const asksForControl = signal(false);

/** @returns {string[]} */
function remembered() {
  try {
    const ids = JSON.parse(globalThis.localStorage?.getItem(MEMORY_KEY) ?? "[]");
    return Array.isArray(ids) ? ids.filter((id) => typeof id === "string").slice(-MAX) : [];
  } catch {
    return []; // refused in some private windows, or written by another version
  }
}

/** @param {string} theater a session just created here, or controlled from here from now on */
export function rememberSession(theater) {
  asksForControl.value = false;
  createdSessions.value = [...createdSessions.peek().filter((id) => id !== theater), theater].slice(-MAX);
  try {
    globalThis.localStorage?.setItem(MEMORY_KEY, JSON.stringify(createdSessions.peek()));
  } catch {
    // this page still knows them
  }
}
