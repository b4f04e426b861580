// What a session does on a site, where facts and runs are files and there is no server.

import { batch } from "../../vendor/signals/signals.js";
import { settings } from "../state/settings.js";
import { firstOfSite, siteRecording } from "../state/site.js";
import { backToLive } from "../state/store.js";
import { askForFacts } from "./facts.js";
import { fetchLog } from "./trace_file.js";

/** @typedef {NonNullable<Awaited<ReturnType<typeof fetchLog>>>} Found a log, and where its file is damaged */

/**
 * Show the recording that the address names, or the first one; a lesson brings its own.
 *
 * @param {(found: Found) => void} show
 */
export async function startOfSite(show) {
  await askForFacts();
  if (settings.lesson.value === null)
    await showOfSite(show, settings.recording.value ?? firstOfSite(), settings.step.value);
}

/**
 * Show a recording from record `step` (null: its newest). Whether it could be read.
 *
 * @param {(found: Found) => void} show
 * @param {string} wanted
 * @param {number | null} step
 */
export async function showOfSite(show, wanted, step) {
  const found = await fetchLog(siteRecording(wanted));
  if (!found) return false;
  batch(() => {
    backToLive();
    show(found);
    settings.recording.value = wanted;
    settings.step.value = step;
  });
  return true;
}
