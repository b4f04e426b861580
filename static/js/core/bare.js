// Detection of runs recorded without arrays, which show no attention and no vectors. Pure.

import { memo } from "./folds.js";

/** @typedef {{records: import("./trace.js").StepRecord[]}} Log */

/** @type {(log: Log) => {length: number, computed: boolean, captured: boolean}} */
const searchOf = memo(() => ({ length: 0, computed: false, captured: false }));

/**
 * Return whether steps of the log computed something and none of its records has arrays. Each record is checked once,
 * up to the first with arrays.
 * @param {Log} log
 */
export function isBare(log) {
  const found = searchOf(log);
  for (; !found.captured && found.length < log.records.length; found.length++) {
    const record = log.records[found.length];
    found.captured = Boolean(record.has_capture);
    found.computed ||= Boolean(record.batch?.length);
  }
  return found.computed && !found.captured;
}
