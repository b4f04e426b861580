// A whole `.kvtrace` file as a log.

import { parseTrace } from "../core/file.js";
import { TraceLog } from "../core/log.js";
import { toast } from "../state/store.js";
import { t } from "../tell/words.js";

/**
 * The log in `buffer`; `damage` says where a damaged file ends. Throws TraceFormatError when it is no trace.
 *
 * @param {ArrayBuffer | Uint8Array} buffer
 */
export function logOf(buffer) {
  const trace = parseTrace(buffer);
  const log = new TraceLog(trace.header);
  trace.records.forEach((bytes, i) => log.append(bytes, trace.captures[i]));
  return { log, damage: trace.damage };
}

/**
 * The log in the file at an address of this server; null when it cannot be read, which is said.
 *
 * @param {string} url
 */
export async function fetchLog(url) {
  const address = new URL(url, location.href);
  if (address.origin !== location.origin) {
    toast(t("error.recording_origin"), "error");
    return null;
  }
  try {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(String(answer.status));
    return logOf(await answer.arrayBuffer());
  } catch (error) {
    toast(t("error.recording", { reason: /** @type {Error} */ (error).message }), "error");
    return null;
  }
}
