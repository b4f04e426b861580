// Measured rooflines of the machine of the shown run: from its header, else requested from its server.

import { computed, effect, signal } from "../../vendor/signals/signals.js";
import { connection, log, status } from "../state/store.js";

/** @typedef {NonNullable<import("../core/trace.js").Machine["roofs"]>} Roofs */

/**
 * Last response: null before a request, `waiting`, `busy`, `failed`, or Roofs.
 * @type {import("../../vendor/signals/signals.js").Signal<"waiting" | "busy" | "failed" | Roofs | null>}
 */
const result = signal(null);

/**
 * Rooflines of the machine of the shown run, or the reason that there are none: `waiting`, `busy`, `failed`, `unknown`.
 */
export const roofs = computed(() => {
  const known = log.value?.header.machine.roofs;
  if (known) return known;
  // a recording's machine or its state may differ from the server's today
  if (connection.value === "replay") return "unknown";
  return result.value ?? "waiting";
});

async function ask() {
  if (result.peek() === "waiting") return;
  result.value = "waiting";
  const wasRunning = status.peek()?.mode === "running";
  try {
    const answer = await fetch("api/machine");
    result.value = answer.ok ? ((await answer.json()).roofs ?? "failed") : answer.status === 409 ? "busy" : "failed";
  } catch {
    result.value = "failed";
  }
  // the run was paused during the request, so that no effect retries
  if (result.peek() === "busy" && wasRunning && status.peek()?.mode !== "running") ask();
}

/** Request the rooflines while their chart is open, and again when a run that blocked the measurement is paused. */
export function followRoofs() {
  return effect(() => {
    const mode = status.value?.mode;
    if (connection.value !== "live" || log.value?.header.machine.roofs) return;
    const now = result.peek();
    if (now === null || (now === "busy" && mode !== "running")) ask();
  });
}
