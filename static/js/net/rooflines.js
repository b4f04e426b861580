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
  // recorded on another machine or another day, so today's measurement would not apply
  if (connection.value === "replay") return "unknown";
  return result.value ?? "waiting";
});

async function ask() {
  if (result.peek() === "waiting") return;
  result.value = "waiting";
  const stoodInTheWay = status.peek()?.mode === "running";
  try {
    const answer = await fetch("api/machine");
    result.value = answer.ok ? ((await answer.json()).roofs ?? "failed") : answer.status === 409 ? "busy" : "failed";
  } catch {
    result.value = "failed";
  }
  // the run was paused while the response was in flight, so nothing else would retry
  if (result.peek() === "busy" && stoodInTheWay && status.peek()?.mode !== "running") ask();
}

/**
 * Request the rooflines while the roofline chart is open, and again once a run that blocked the measurement is paused.
 */
export function wantRoofs() {
  return effect(() => {
    const mode = status.value?.mode;
    if (connection.value !== "live" || log.value?.header.machine.roofs) return;
    const now = result.peek();
    if (now === null || (now === "busy" && mode !== "running")) ask();
  });
}
