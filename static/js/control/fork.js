// Forking time: the run on stage is made again up to a record, one thing is changed, and both futures can be compared.

import { batch, computed, signal } from "../../vendor/signals/signals.js";
import { command } from "../net/commands.js";
import { forking } from "../net/followed_run.js";
import { settings } from "../state/settings.js";
import { connection, head, layer, own, viewIndex } from "../state/store.js";

/**
 * @typedef {import("../core/wire.js").ForkStatus} ForkStatus
 * @typedef {"token" | "request" | "abort" | "sampling" | "config"} Kind
 *
 * What is changed. `record`: the one that chose the token which another replaces, in which a token was forgotten, or
 * which is to be computed without a head or a layer.
 * @typedef {import("../core/wire.js").ForkToken & {record: number}} TokenChange
 * @typedef {import("../core/wire.js").ForkKeep & {record: number}} KeepChange
 * @typedef {import("../core/wire.js").ForkAblate & {record: number}} AblateChange
 * @typedef {Pick<import("../core/wire.js").ForkRequest, "kind" | "text" | "sampling">} RequestChange
 * @typedef {import("../core/wire.js").ForkAbort} AbortChange
 * @typedef {import("../core/wire.js").ForkSampling} SamplingChange
 * @typedef {import("../core/wire.js").ForkConfig} ConfigChange
 * @typedef {TokenChange | KeepChange | AblateChange | RequestChange | AbortChange | SamplingChange
 *   | ConfigChange} Change
 */

/** @type {Kind[]} what may be changed, in the order of the form */
export const KINDS = ["token", "request", "abort", "sampling", "config"];

/** Whether the form is open, and which kind of change it shows. */
export const formOpen = signal(false);
export const kind = signal(/** @type {Kind} */ ("token"));

/**
 * Where the keyboard is to go on as soon as that is there: "form" when it was opened from elsewhere, "futures" when a
 * fork was made; null.
 */
export const goOnAt = signal(/** @type {"form" | "futures" | null} */ (null));

/** Whether there is a run that can be made again here. */
export const canFork = computed(
  () => connection.value === "live" && Boolean(own.log.value) && Boolean(settings.theater.value),
);

/** Why the last fork could not be made, as the server said it; null. */
export const problem = signal(/** @type {string | null} */ (null));

/** How far the fork under way is, or null. */
export const progress = signal(/** @type {{done: number, of: number} | null} */ (null));

/**
 * Open the form of the compare panel at the record that one looks at.
 * @param {Kind | null} asked
 */
export function openForm(asked = null) {
  batch(() => {
    if (asked) kind.value = asked;
    formOpen.value = true;
    goOnAt.value = "form";
    settings.detail.value = "compare";
    settings.region.value = "detail"; // on a phone
  });
}

/**
 * How many records stay as they are when this is changed now: a token is changed in the record that chose it.
 * @param {{kind: "token" | "keep" | "ablate", record: number} | {kind: Exclude<Kind, "token">}} change
 */
export function recordsKept(change) {
  if (change.kind === "config") return 0;
  const { kind } = change;
  return kind === "token" || kind === "keep" || kind === "ablate" ? change.record : viewIndex.peek() + 1;
}

/**
 * Make the fork, of the run on stage, and compare both. Whether there is one now; the reason why not is shown.
 * @param {Change} asked
 */
export async function fork(asked) {
  const source = settings.theater.peek();
  const at = recordsKept(asked);
  const { record: _, ...change } = { record: 0, ...asked };
  progress.value = { done: 0, of: at };
  problem.value = null;
  const refused = (/** @type {unknown} */ error) => (problem.value = error instanceof Error ? error.message : null);
  const stop = forking.subscribe((/** @type {{num_records: number} | null} */ told) => {
    if (told) progress.value = { done: Math.min(told.num_records, at), of: at };
  });
  try {
    const answer = await command("fork", { at, change }, refused);
    if (!answer) return false;
    batch(() => {
      formOpen.value = false;
      goOnAt.value = "futures";
      [settings.layer.value, settings.head.value] = [layer.peek(), head.peek()]; // the same head in both
      settings.run_a.value = source;
      settings.run_b.value = answer.theater;
      settings.detail.value = "compare";
      settings.region.value = "detail";
    });
    return true;
  } finally {
    stop();
    progress.value = forking.value = null;
  }
}
