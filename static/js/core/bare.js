// Detection of runs recorded without arrays, which show no attention and no vectors. Pure.

/** @typedef {{records: import("./trace.js").StepRecord[]}} Log */

/** @type {WeakMap<Log, {length: number, computed: boolean, captured: boolean}>} */
const known = new WeakMap();

/**
 * Return whether steps of the log computed something and none of its records has arrays. Each record is checked once,
 * up to the first with arrays.
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
