// Lanes of a site, which were recorded: read to their ends at once, and played.

import { Refusal } from "../net/client.js";
import { fetchLog } from "../net/trace_file.js";
import { siteRecording } from "../state/site.js";

/** @typedef {import("../core/log.js").TraceLog} TraceLog */

/**
 * The lanes' logs. Throws Refusal when one cannot be read.
 * @param {string[]} names
 * @param {(name: string) => string} recorded what a lane is called among the recordings
 */
export async function recordedLanes(names, recorded) {
  const found = await Promise.all(names.map((name) => fetchLog(siteRecording(recorded(name)))));
  return found.map((one) => {
    if (!one) throw new Refusal({ code: "lost", message: "" });
    return one.log;
  });
}
