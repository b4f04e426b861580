// Values derived from an object: computed once per object, and freed with it.

/** @import {StepRecord} from "./trace.js" */

/**
 * Return a function that calls `make` once for each object.
 * @template {object} K
 * @template V
 * @param {(of: K) => V} make
 * @returns {(of: K) => V}
 */
export function memo(make) {
  /** @type {WeakMap<K, {value: V}>} */
  const known = new WeakMap();
  return (of) => {
    let found = known.get(of);
    if (!found) known.set(of, (found = { value: make(of) }));
    return found.value;
  };
}

/**
 * Return a function that folds a log up to its end: `make` begins the fold of a log, `append` adds the record at `at`.
 * Each record is read once.
 * @template {{records: StepRecord[]}} L
 * @template F
 * @param {(log: L) => F} make
 * @param {(fold: F, record: StepRecord, at: number, log: L) => void} append
 * @returns {(log: L) => F}
 */
export function folding(make, append) {
  const begun = memo((/** @type {L} */ log) => ({ fold: make(log), length: 0 }));
  return (log) => {
    const found = begun(log);
    for (; found.length < log.records.length; found.length++)
      append(found.fold, log.records[found.length], found.length, log);
    return found.fold;
  };
}
