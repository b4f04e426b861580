// Session without a server: on a static site, whose facts and runs are files, and in a single-file page.

import { batch } from "../../vendor/signals/signals.js";
import { settings } from "../state/settings.js";
import { backToLive } from "../state/store.js";
import { embeddedTrace, firstOfSite, siteRecording } from "../state/without_server.js";
import { askForFacts } from "./facts.js";
import { fetchLog, logOf } from "./trace_file.js";

/** @typedef {NonNullable<Awaited<ReturnType<typeof fetchLog>>>} Found a log, and where its file is damaged */

/** @type {string | null} recording requested last */
let latest = null;

/** Cancel a pending recording because something else is shown. */
export const cancelLoading = () => (latest = null);

/** Show the embedded log, if the page has one. @param {(found: Found) => void} show */
export async function showEmbedded(show) {
  const trace = await embeddedTrace();
  if (trace) show(logOf(trace));
}

/**
 * Show the recording that the address names, or the first one; a lesson loads its own.
 * @param {(found: Found) => void} show
 */
export async function startOfSite(show) {
  await askForFacts();
  if (settings.lesson.value === null)
    await showOfSite(show, settings.recording.value ?? firstOfSite(), settings.step.value);
}

/**
 * Show a recording from record `step` (null: its newest). Returns whether it could be read.
 * @param {(found: Found) => void} show
 * @param {string} wanted
 * @param {number | null} step
 */
export async function showOfSite(show, wanted, step) {
  latest = wanted;
  const found = await fetchLog(siteRecording(wanted));
  if (!found || latest !== wanted) return false;
  batch(() => {
    backToLive();
    show(found);
    settings.recording.value = wanted;
    settings.step.value = step;
  });
  return true;
}
