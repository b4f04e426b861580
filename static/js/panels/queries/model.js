// Classes of requests in two runs: columns, differences and order. Pure.

/**
 * @typedef {{
 *   requests: number, sequences: number, finished: number, aborted: number, prompt_tokens: number,
 *   output_tokens: number, cached_share: number | null, preemptions: number, ttft_p50: number | null,
 *   ttft_p99: number | null, tpot_p50: number | null, tpot_p99: number | null,
 * }} Figures see engine/trace/log_index/classes.py
 * @typedef {{name: string | null, a: Figures | null, b: Figures | null}} Class `name` null: unknown from the log
 * @typedef {{theater: string, num_records: number, num_surveyed: number, is_simulated: boolean, unsaid: string}} Side
 * @typedef {{by: string, runs: Side[], classes: Class[], num_more: number}} Answer
 * @typedef {typeof COLUMNS[number]} Column
 */

/** Columns of a class in order. */
export const COLUMNS = /** @type {const} */ ([
  "requests",
  "ttft_p50",
  "ttft_p99",
  "tpot_p50",
  "tpot_p99",
  "cached_share",
  "preemptions",
  "aborted",
]);

/** Attributes by which requests are classified. */
export const CLASSIFIERS = /** @type {const} */ (["all", "client", "priority", "prompt", "output", "prefix"]);

/** Kind of a figure: share, time or count. @param {Column} column */
export const kindOf = (column) =>
  column === "cached_share" ? "share" : column.startsWith("t") ? "time" : /** @type {const} */ ("count");

/**
 * Return the difference of `b` from `a`: b / a − 1 for times, b − a for shares and counts. Returns null if a value is
 * missing.
 * @param {Class} one @param {Column} column
 */
export function differenceOf({ a, b }, column) {
  const [from, to] = [a?.[column] ?? null, b?.[column] ?? null];
  if (from === null || to === null) return null;
  if (kindOf(column) !== "time") return to - from;
  return from > 0 ? to / from - 1 : null;
}

/**
 * Sort the classes by a column: by the difference of two runs, or by the value of one run. Missing values are last.
 * Without a column, the order is the server's.
 * @param {Class[]} classes @param {Column | null} column @param {boolean} down
 * @param {boolean} isPair
 */
export function sorted(classes, column, down, isPair) {
  if (!column) return classes;
  const keyOf = (/** @type {Class} */ one) => (isPair ? differenceOf(one, column) : (one.a?.[column] ?? null));
  return [...classes].sort((x, y) => {
    const [a, b] = [keyOf(x), keyOf(y)];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return down ? b - a : a - b;
  });
}
