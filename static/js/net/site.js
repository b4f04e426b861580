// Session without a server: on a static site, which has facts and runs as files, and in a single-file page.

import { batch } from "../../vendor/signals/signals.js";
import { settings } from "../state/settings.js";
import { backToLive } from "../state/store.js";
import { embeddedTrace, firstOfSite, siteRecording } from "../state/without_server.js";
import { askForFacts } from "./facts.js";
import { fetchLog, logOf } from "./trace_file.js";

/** @typedef {NonNullable<Awaited<ReturnType<typeof fetchLog>>>} Found a log, and where its file is damaged */

/** @type {string | null} recording requested last */
let latest = null;

/** Cancel a pending recording, as something else is shown. */
export const cancelLoading = () => (latest = null);

/** Show the embedded log, if the page has one. @param {(found: Found) => void} show */
export async function showEmbedded(show) {
  const trace = await embeddedTrace();
  if (trace) show(logOf(trace));
}

/** Show the recording of the address, or the first one. A lesson loads its own. @param {(found: Found) => void} show */
export async function startOfSite(show) {
  await askForFacts();
  if (settings.lesson.value === null)
    await showOfSite(show, settings.recording.value ?? firstOfSite(), settings.step.value);
}

/**
 * Show a recording at record `step` (null: its newest). Returns whether it could be read.
 * @param {(found: Found) => void} show
 * @param {string} id
 * @param {number | null} step
 */
export async function showOfSite(show, id, step) {
  latest = id;
  const found = await fetchLog(siteRecording(id));
  if (!found || latest !== id) return false;
  batch(() => {
    backToLive();
    show(found);
    settings.recording.value = id;
    settings.step.value = step;
  });
  return true;
}
