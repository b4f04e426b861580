// What the time charts have in common.

/** @typedef {"prefill" | "decode" | "mixed"} StepPhase */

/** @type {StepPhase[]} */
export const PHASES = ["prefill", "decode", "mixed"];
export const MS = 1000;

/**
 * The row of record `index` among rows that ascend by record; undefined when it has none.
 *
 * @template {{record: number}} R
 * @param {R[]} rows
 * @param {number} index
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

/**
 * A rate with a decimal prefix, ready for its unit: 92.4 G.
 *
 * @param {number} value
 */
export function rateText(value) {
  const [size, prefix] = PREFIXES.find(([least]) => value >= least) ?? [1, ""];
  return `${Number((value / size).toPrecision(3))}\u2009${prefix}`;
}
