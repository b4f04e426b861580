// Rates in short.

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
