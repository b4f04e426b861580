// A whole `.kvtrace` file as a log.

import { beginsAsTrace, parseTrace } from "../core/file.js";
import { TraceLog } from "../core/log.js";
import { toast } from "../state/store.js";
import { t } from "../tell/words.js";

/**
 * The log in `buffer`, as far as it can be read; `damage` says why it ends there, in words, or is null. Throws
 * TraceFormatError when it is no trace.
 *
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
 * Whether the file `name`, which begins with `head`, is a trace; that it is none is said.
 *
 * @param {string} name
 * @param {ArrayBuffer} head
 */
export function isTrace(name, head) {
  const is = beginsAsTrace(new Uint8Array(head));
  if (!is) toast(t("file.no_trace", { name }), "error");
  return is;
}

/**
 * Say why the file `name` could not be read.
 *
 * @param {string} name
 * @param {unknown} error
 */
export const unreadable = (name, error) =>
  toast(t("file.unreadable", { name, reason: /** @type {Error} */ (error).message }), "error");

const SHARED = 60_000; // ms for which what was fetched may be asked for again

/** @type {Map<string, Promise<ArrayBuffer>>} by address */
const fetched = new Map();

/**
 * The bytes at an address, fetched once when they are asked for in two places.
 *
 * @param {URL} address
 */
export function bytesAt(address) {
  const known = fetched.get(address.href);
  if (known) return known;
  const bytes = fetch(address).then((answer) => {
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    return answer.arrayBuffer();
  });
  const forget = () => fetched.delete(address.href);
  bytes.then(() => setTimeout(forget, SHARED), forget);
  fetched.set(address.href, bytes);
  return bytes;
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
  const name = decodeURIComponent(address.pathname.split("/").at(-1) || address.pathname);
  try {
    const content = await bytesAt(address);
    return isTrace(name, content) ? logOf(content) : null;
  } catch (error) {
    unreadable(name, error);
    return null;
  }
}
