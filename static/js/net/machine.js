// The measured roofs of the machine that the shown run is on: from its header, else asked of the server it lives on.

import { computed, effect, signal } from "../../vendor/signals/signals.js";
import { connection, log, status } from "../state/store.js";

/** @typedef {NonNullable<import("../core/trace.js").Machine["roofs"]>} Roofs */

/**
 * What the server said: null before it was asked, `waiting`, `busy`, `failed`, or Roofs.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<"waiting" | "busy" | "failed" | Roofs | null>}
 */
const asked = signal(null);

/** Roofs of the machine of the shown run, or why there are none: `waiting`, `busy`, `failed`, `unknown`. */
export const roofs = computed(() => {
  const known = log.value?.header.machine.roofs;
  if (known) return known;
  if (connection.value === "replay") return "unknown"; // another machine, or another day: nothing is made up
  return asked.value ?? "waiting";
});

async function ask() {
  if (asked.peek() === "waiting") return;
  asked.value = "waiting";
  const stoodInTheWay = status.peek()?.mode === "running";
  try {
    const answer = await fetch("api/machine");
    asked.value = answer.ok ? ((await answer.json()).roofs ?? "failed") : answer.status === 409 ? "busy" : "failed";
  } catch {
    asked.value = "failed";
  }
  // paused while the answer was on its way: nothing else would ask again
  if (asked.peek() === "busy" && stoodInTheWay && status.peek()?.mode !== "running") ask();
}

/** Have the roofs measured while the roofline chart is open; again when the run that stood in the way is paused. */
export function wantRoofs() {
  return effect(() => {
    const mode = status.value?.mode;
    if (connection.value !== "live" || log.value?.header.machine.roofs) return;
    const now = asked.peek();
    if (now === null || (now === "busy" && mode !== "running")) ask();
  });
}
