// Forks: the run on stage is replayed up to a record with one change, and both runs can be compared.

import { batch, computed, signal } from "../../vendor/signals/signals.js";
import { command } from "../net/commands.js";
import { forking } from "../net/followed_run.js";
import { settings } from "../state/settings.js";
import { connection, head, layer, own, viewIndex } from "../state/store.js";

/** @import {ForkStatus} from "../core/wire.js" */

/**
 * @typedef {"token" | "request" | "abort" | "sampling" | "config"} Kind
 *
 * Change of a run. `record`: the one that chose the replaced token, dropped the token to keep, or is computed without a
 * head or a layer.
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

/** @type {Kind[]} possible changes, in the order of the form */
export const KINDS = ["token", "request", "abort", "sampling", "config"];

/** Whether the form is open, and the kind of change it shows. */
export const formOpen = signal(false);
export const kind = signal(/** @type {Kind} */ ("token"));

/** Element to focus once it exists: "form" after it was opened from elsewhere, "futures" after a fork. */
export const focusTarget = signal(/** @type {"form" | "futures" | null} */ (null));

/** Whether the shown run can be replayed by this server. */
export const canFork = computed(
  () => connection.value === "live" && Boolean(own.log.value) && Boolean(settings.theater.value),
);

/** The server's reason for refusing the last fork, or null. */
export const problem = signal(/** @type {string | null} */ (null));

/** Progress of the pending fork, or null. */
export const progress = signal(/** @type {{done: number, of: number} | null} */ (null));

/** Open the compare panel's form for the displayed record. @param {Kind | null} initialKind */
export function openForm(initialKind = null) {
  batch(() => {
    if (initialKind) kind.value = initialKind;
    formOpen.value = true;
    focusTarget.value = "form";
    settings.detail.value = "compare";
    settings.region.value = "detail"; // on a phone
  });
}

/**
 * Return how many records a fork shares with its source. A changed token belongs to the record that chose it.
 * @param {{kind: "token" | "keep" | "ablate", record: number} | {kind: Exclude<Kind, "token">}} change
 */
export function recordsKept(change) {
  if (change.kind === "config") return 0;
  const { kind } = change;
  return kind === "token" || kind === "keep" || kind === "ablate" ? change.record : viewIndex.peek() + 1;
}

/**
 * Fork the run on stage and compare both runs. Returns whether it succeeded; an error is displayed.
 * @param {Change} forkChange
 */
export async function fork(forkChange) {
  const source = settings.theater.peek();
  const at = recordsKept(forkChange);
  const { record: _, ...change } = { record: 0, ...forkChange };
  progress.value = { done: 0, of: at };
  problem.value = null;
  const refused = (/** @type {unknown} */ error) => (problem.value = error instanceof Error ? error.message : null);
  const stop = forking.subscribe((/** @type {{num_records: number} | null} */ message) => {
    if (message) progress.value = { done: Math.min(message.num_records, at), of: at };
  });
  try {
    const answer = await command("fork", { at, change }, refused);
    if (!answer) return false;
    batch(() => {
      formOpen.value = false;
      focusTarget.value = "futures";
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
