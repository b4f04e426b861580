// The steps of several runs beside each other. A step is counted in each log by itself; the `step`-th of one stands
// beside the `step`-th of the other. A run that took fewer stays at its last.

/** @typedef {import("../core/log.js").TraceLog} TraceLog */

/**
 * How many records of a log were looked at, and what was found.
 * @type {WeakMap<TraceLog, {length: number, found: number[]}>}
 */
const known = new WeakMap();

/**
 * Indices of the records in which the engine took a step, in order.
 * @param {TraceLog} log
 * @returns {number[]}
 */
export function stepRecords(log) {
  const steps = known.get(log) ?? { length: 0, found: [] };
  for (; steps.length < log.length; steps.length++)
    if (log.records[steps.length].kind === "step") steps.found.push(steps.length);
  known.set(log, steps);
  return steps.found;
}

/**
 * Index of the record of a log's `step`-th step, of its last one if it took fewer; -1 before the first.
 * @param {TraceLog} log
 * @param {number} step
 */
export function recordAt(log, step) {
  const records = stepRecords(log);
  return records[Math.min(step, records.length) - 1] ?? -1;
}

/**
 * Whether the log took a `step`-th step.
 * @param {TraceLog} log
 * @param {number} step
 */
export const tookStep = (log, step) => step >= 1 && step <= stepRecords(log).length;

/**
 * A search for the first step at which `find(logs, step)` finds something, which remembers how far it has looked
 * while the logs grow. The search: (logs, step) -> what was found up to `step`, or null.
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
