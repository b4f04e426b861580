// Whether a run was recorded without arrays: there is no attention in it, and no vector. Pure.

/**
 * @typedef {{records: import("./trace.js").StepRecord[]}} Log
 */

/** @type {WeakMap<Log, {length: number, computed: boolean, captured: boolean}>} */
const known = new WeakMap();

/**
 * Whether steps of the log computed something, and none of its records has arrays. Each record is looked at once, and
 * none after the first that has some.
 * @param {Log} log
 */
export function isBare(log) {
  let found = known.get(log);
  if (!found) known.set(log, (found = { length: 0, computed: false, captured: false }));
  for (; !found.captured && found.length < log.records.length; found.length++) {
    const record = log.records[found.length];
    found.captured = Boolean(record.has_capture);
    found.computed ||= Boolean(record.batch?.length);
  }
  return found.computed && !found.captured;
}
