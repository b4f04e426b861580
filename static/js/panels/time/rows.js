// Code shared by the time charts.

/** @typedef {"prefill" | "decode" | "mixed"} StepPhase */

/** @type {StepPhase[]} */
export const PHASES = ["prefill", "decode", "mixed"];
export const MS = 1000;

/**
 * Return the row of record `index` in rows sorted by record, or undefined.
 * @template {{record: number}} R
 * @param {R[]} rows @param {number} index
 */
export const rowAt = (rows, index) => rows.find((row) => row.record === index);

/** @type {[number, string][]} */
const PREFIXES = [
  [1e15, "P"],
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
  [1, ""],
];

/** Format a rate with a decimal prefix, without its unit: 92.4 G. @param {number} value */
export function rateText(value) {
  const [size, prefix] = PREFIXES.find(([min]) => value >= min) ?? [1, ""];
  return `${Number((value / size).toPrecision(3))}\u2009${prefix}`;
}
