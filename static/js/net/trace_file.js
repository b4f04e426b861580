// Reading of complete `.kvtrace` files into a log.

import { beginsAsTrace, parseTrace } from "../core/file.js";
import { TraceLog } from "../core/log.js";
import { t } from "../i18n/words.js";
import { toast } from "../state/store.js";

/**
 * Parse the log in `buffer` as far as it is valid; `damage` is the reason for an early end, or null. Throws
 * TraceFormatError if it is not a trace.
 * @param {ArrayBuffer | Uint8Array} buffer
 */
export function logOf(buffer) {
  const trace = parseTrace(buffer);
  const log = new TraceLog(trace.header);
  let reason = trace.damage;
  try {
    trace.records.forEach((bytes, i) => log.append(bytes, trace.captures[i]));
  } catch (error) {
    if (!log.length) throw error;
    reason = /** @type {Error} */ (error).message;
  }
  return { log, damage: reason && t("file.damaged", { reason, n: log.length }) };
}

/**
 * Return whether the file `name`, which begins with `head`, is a trace; if not, display a message.
 * @param {string} name
 * @param {ArrayBuffer} head
 */
export function isTrace(name, head) {
  const isValid = beginsAsTrace(new Uint8Array(head));
  if (!isValid) toast(t("file.no_trace", { name }), "error");
  return isValid;
}

/** Display why the file `name` could not be read. @param {string} name @param {unknown} error */
export const unreadable = (name, error) =>
  toast(t("file.unreadable", { name, reason: /** @type {Error} */ (error).message }), "error");

const SHARE_MS = 60_000; // for which a fetched file is shared

/** @type {Map<string, Promise<ArrayBuffer>>} by address */
const fetched = new Map();

/** Fetch the bytes at an address; concurrent requests share one fetch. @param {URL} address */
export function bytesAt(address) {
  const known = fetched.get(address.href);
  if (known) return known;
  const bytes = fetch(address).then((answer) => {
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    return answer.arrayBuffer();
  });
  const forget = () => fetched.delete(address.href);
  bytes.then(() => setTimeout(forget, SHARE_MS), forget);
  fetched.set(address.href, bytes);
  return bytes;
}

/**
 * Fetch and parse the log at an address of this server. If it cannot be read, display why and return null.
 * @param {string} url
 */
export async function fetchLog(url) {
  const address = new URL(url, location.href);
  if (address.origin !== location.origin) {
    toast(t("error.recording_origin"), "error");
    return null;
  }
  const name = decodeURIComponent(address.pathname.split("/").at(-1) || address.pathname);
  try {
    const content = await bytesAt(address);
    return isTrace(name, content) ? logOf(content) : null;
  } catch (error) {
    unreadable(name, error);
    return null;
  }
}
