// Alignment of several runs by step. Steps are counted per log; the `step`-th of one log corresponds to the `step`-th
// of the other. A run with fewer steps remains at its last.

import { folding } from "../core/folds.js";

/** @import {TraceLog} from "../core/log.js" */

/** Return the indices of the records in which the engine took a step, in order. */
export const stepRecords = folding(/** @type {(log: TraceLog) => number[]} */ (() => []), (steps, { kind }, at) => {
  if (kind === "step") steps.push(at);
});

/**
 * Return the record index of a log's `step`-th step, or of its last one if there are fewer; -1 before the first.
 * @param {TraceLog} log
 * @param {number} step
 */
export function recordAt(log, step) {
  const records = stepRecords(log);
  return records[Math.min(step, records.length) - 1] ?? -1;
}

/** Return whether the log has a `step`-th step. @param {TraceLog} log @param {number} step */
export const hasStep = (log, step) => step >= 1 && step <= stepRecords(log).length;

/**
 * Return an incremental search for the first step at which `find(logs, step)` returns something: (logs, step) -> first
 * result up to `step`, or null.
 * @template {{step: number}} Found
 * @param {(logs: TraceLog[], step: number) => Found | null} find
 * @returns {(logs: TraceLog[], step: number) => Found | null}
 */
export function firstOf(find) {
  /** @type {WeakMap<TraceLog, {first: TraceLog, at: number, found: Found | null}>} by the last log */
  const searches = new WeakMap();
  return (logs, step) => {
    let search = searches.get(logs[1]);
    if (search?.first !== logs[0]) searches.set(logs[1], (search = { first: logs[0], at: 0, found: null }));
    while (!search.found && search.at < step) search.found = find(logs, ++search.at);
    return search.found && search.found.step <= step ? search.found : null;
  };
}
