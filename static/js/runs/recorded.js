// Recorded lanes of a site: loaded completely, then played.

import { Refusal } from "../net/client.js";
import { fetchLog } from "../net/trace_file.js";
import { siteRecording } from "../state/site.js";

/** @typedef {import("../core/log.js").TraceLog} TraceLog */

/**
 * Load the lanes' logs. Throws Refusal if one cannot be read.
 * @param {string[]} names
 * @param {(name: string) => string} recorded maps a lane to the id of its recording
 */
export async function recordedLanes(names, recorded) {
  const found = await Promise.all(names.map((name) => fetchLog(siteRecording(recorded(name)))));
  return found.map((one) => {
    if (!one) throw new Refusal({ code: "lost", message: "" });
    return one.log;
  });
}
